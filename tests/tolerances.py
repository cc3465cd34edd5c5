"""Bounds that tests compare with, each with its reason."""

PINOCCHIO = 1e-9
"""Relative L2 error per block in float64. Measured 1e-13 on ordinary robots; random trees of up to twelve links have
mass matrices with condition numbers of 1e5 or so, which cost the inverse those digits in both programs."""

ZERO = 1e-9
"""A block that vanishes for a reason (one joint has no Coriolis terms) is rounding noise in N m or so."""

IDENTITY = 1e-9
"""The same condition numbers, once."""

SCALED = 1e-12
"""One robot in two units: the same numbers but for the rounding of the units themselves. Measured 6e-15."""

KNOWN = 1e-12
"""q̈ from the torque that Pinocchio gives for it: measured 3e-13 where M has a condition number of 6e4."""

SAME_FORMULA = 1e-11
"""Graph against the algorithm on floats: the same operations in another order, with balanced sums."""

COMPLEX_STEP = 1e-9
"""A complex step is exact to rounding; the bound is the mass matrix's conditioning again."""

SINE_UNITS = 0.95
"""Units in the last place: half from rounding, the rest from the phase's and the tables' quantization."""

RECIPROCAL_UNITS = 0.6
"""Units in the last place: half from rounding, the rest from Newton's last step."""

COUNTS = 1.03
"""Operations against the measured prototype: a trace may find a few more or fewer shared terms."""

FLOAT32 = 3e-2
"""Worst of a few hundred states at the speeds of `samples`: single precision loses what the mass matrix's conditioning
takes; the comparison of layouts and blocks needs no more."""

FIXED = 1e-3
"""24-bit words, median of the states."""
