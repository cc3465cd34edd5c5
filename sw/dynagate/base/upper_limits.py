"""Upper limits of options that are unrolled, allocated or computed. A larger option is rejected before any work."""

MAX_EXPONENT = 16
"""Largest exponent of a contact's depth or speed, since a graph has one product for each."""
MAX_AROUND = 1000
"""Largest number of contact points around the rim of a cylinder."""
MAX_LINKS = 10_000
"""Largest number of links of a random chain."""
MAX_CONSTRAINT_ROWS = 300
"""Largest number of rows of all constraints of a robot, whose factorization is unrolled."""
MAX_STEPS = 10_000_000
"""Largest number of steps of a rollout."""
MAX_ITERATIONS = 100_000
"""Largest number of iterations in a step, of sweeps over contacts, and of iterations of a solver."""
MAX_KNOTS = 100_000
"""Largest number of knots of a solver, and of nodes between which MPPI draws torques."""
MAX_SAMPLES = 1_000_000
"""Largest number of rollouts in a call of MPPI."""
MAX_STATES = 10_000_000
"""Largest number of states drawn from an operating region."""
MAX_BATCH = 10_000_000_000
"""Largest number of samples in a call."""
MAX_THREADS = 1024
"""Largest number of threads of a kernel."""
SMALLEST_LIMIT, LARGEST_LIMIT = 1e-30, 1e30
"""Range of the limits of positions, speeds, accelerations and efforts in an operating region, in their units.
Fixed-point formats hold no limits outside it.
"""
