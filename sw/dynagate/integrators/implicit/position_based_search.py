"""How the searches of position-based steps damp, and what they remember."""

from __future__ import annotations

from typing import NamedTuple


class Damping(NamedTuple):
    """λ relative to the mean of the diagonal: below `least` it is 0, a rejected step sets `first`, or five times what
    it was, an accepted one multiplies it by `shrink`, and beyond `most` the search ends."""

    least: float
    first: float
    most: float
    shrink: float


ENERGY = Damping(1e-6, 1e-4, 1e12, 0.5)
"""Damping of the search for an energy's minimum, added to its Hessian."""

FORCES = Damping(1e-12, 1e-10, 1e6, 0.2)
"""Damping of the search for a root of the forces, added to JᵀJ."""

MEMORY = 5
"""Accepted iterations whose largest square of the forces bounds the next. On long chains Newton passes through larger
squares, as torques near the base outweigh all others."""
