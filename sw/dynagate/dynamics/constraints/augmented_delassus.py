"""Masses at frames that contacts hold, so that numbers of few bits tell what the frames do.

A foot weighs little. Torques that carry the robot would throw it up by thousands of m/s², and the ground's force
is what takes them back, to the few bits that are left below such numbers. With a mass ρ at what J holds,

    (M + ρ Jᵀ J) q̈ + h = τ + Jᵀ μ    and    J q̈ + γ + c λ = 0    with    μ = λ - ρ (γ + c λ)

have the same q̈ and λ, and the matrix of μ, J (M + ρ Jᵀ J)⁻¹ Jᵀ, has no entries beyond 1 / ρ (the augmented Lagrangian
of Hestenes, "Multiplier and gradient methods", 1969). M + ρ Jᵀ J is the mass matrix of a robot with a ball there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dynagate.dynamics.spatial import Array, Inertia, Scalar, array, symmetric

LARGEST = 0.5
"""Largest ρ c: a larger compliance keeps numbers small by itself."""


def mass_of(sizes: npt.NDArray[np.float64], compliances: Sequence[float]) -> float:
    """ρ of rows that are alike, in kg or kg m²: the power of two above what their frame weighs in the mean.

    sizes: of their entries of the diagonal of J M⁻¹ Jᵀ at some configurations. 0: they hold nothing, or are soft."""
    mean = float(np.mean(sizes))
    if not mean > 0.0:
        return 0.0
    result = math.ldexp(1.0, math.ceil(-math.log2(mean)))
    return result if result * max(compliances) <= LARGEST else 0.0


def ball(at: Array, mass: float, inertia: float, active: Scalar) -> Inertia:
    """A ball at a point (3,): mass in kg, and inertia about its center, the same about all axes, in kg m². active: 1,
    or 0 for none."""
    weight = active * mass
    first = at * weight
    about = active * (0.5 * inertia)
    second = symmetric(lambda a, b: first[a] * at[b] + (about if a == b else 0.0))
    return Inertia(weight, array(list(first)), second)
