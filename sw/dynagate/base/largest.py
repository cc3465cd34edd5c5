"""Largest sizes of what is unrolled, allocated or computed. An option beyond its size is refused before any work."""

MAX_EXPONENT = 16
"""Power of a contact's depth or speed: a graph has one product for each."""
MAX_AROUND = 1000
"""Points around the rim of a cylinder."""
MAX_LINKS = 10_000
"""Links of a chain at random."""
MAX_CONSTRAINT_ROWS = 300
"""Rows of all constraints of a robot together: the factorization of their system is unrolled."""
MAX_STEPS = 10_000_000
"""Steps of a rollout."""
MAX_ITERATIONS = 100_000
"""Iterations of a step, sweeps over its contacts, iterations of a solver."""
MAX_KNOTS = 100_000
"""Knots of a solver, and nodes between which MPPI draws its torques."""
MAX_SAMPLES = 1_000_000
"""Rollouts of a call of MPPI."""
MAX_STATES = 10_000_000
"""States that an operating region draws, and on which formats are chosen or checked."""
MAX_BATCH = 10_000_000_000
"""Samples of a call."""
MAX_THREADS = 1024
"""Threads of a kernel."""
SMALLEST_LIMIT, LARGEST_LIMIT = 1e-30, 1e30
"""Limits of positions, speeds, accelerations and efforts of an operating region, in their units: a format of fixed
point holds none beyond."""
