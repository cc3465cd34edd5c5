"""Added masses at constrained frames, which keep contact accelerations representable in low-precision fixed point.

A foot is light. The torques that carry a robot would accelerate a free foot by thousands of m/s², and the contact
force cancels this. Few bits remain below such numbers. With a mass ρ on the rows of J, the systems

    (M + ρ Jᵀ J) q̈ + h = τ + Jᵀ μ    and    J q̈ + γ + c λ = 0    with    μ = λ - ρ (γ + c λ)

have the same q̈ and λ, and the matrix of μ, J (M + ρ Jᵀ J)⁻¹ Jᵀ, has no entries above 1 / ρ. M + ρ Jᵀ J is the mass
matrix of a robot that carries a ball at each constrained frame.

Reference:
    Hestenes, "Multiplier and gradient methods", 1969 (the augmented Lagrangian).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dynagate.dynamics.spatial import Array, Inertia, Scalar, array, symmetric

LARGEST = 0.5
"""Largest product ρ c of added mass and compliance. A larger compliance needs no added mass."""


def mass_of(sizes: npt.NDArray[np.float64], compliances: Sequence[float]) -> float:
    """Return the added mass ρ of similar rows, in kg or kg m²: the power of two above the mean apparent mass of their
    frame.

    Args:
        sizes: Diagonal entries of J M⁻¹ Jᵀ for these rows at several configurations.
        compliances: Compliance c of the rows. The result is 0 if rows constrain nothing or are soft.
    """
    mean = float(np.mean(sizes))
    if not mean > 0.0:
        return 0.0
    result = math.ldexp(1.0, math.ceil(-math.log2(mean)))
    return result if result * max(compliances) <= LARGEST else 0.0


def ball(at: Array, mass: float, inertia: float, active: Scalar) -> Inertia:
    """Return the inertia of a ball at a point.

    Args:
        at: Center (3,), m.
        mass: Mass, kg.
        inertia: Rotational inertia about the center for every axis, kg m².
        active: 1 for a ball, 0 for none.
    """
    weight = active * mass
    first = at * weight
    about = active * (0.5 * inertia)
    second = symmetric(lambda a, b: first[a] * at[b] + (about if a == b else 0.0))
    return Inertia(weight, array(list(first)), second)
