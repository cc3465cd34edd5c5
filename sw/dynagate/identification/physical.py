"""Inertial parameters of real bodies: a pseudo-inertia that is positive definite, and its distance from another one.

A body has the inertial parameters whose pseudo-inertia J is positive definite (Wensing, Kim & Slotine, "Linear matrix
inequalities for physically consistent inertial parameter identification", 2018). The divergence of J from the link's
own, J0 = A Aᵀ, is convex and infinite at the boundary (Lee, Wensing & Park, "Geometric robot dynamic identification: a
convex programming approach", 2020). With X = A⁻¹ J A⁻ᵀ it is tr X - log det X - 4, and the parameters are linear in X.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynagate.base.arrays import Array
from dynagate.robot.variable import COUNT, MOMENTS

SMALLEST = 1e-6
"""Smallest eigenvalue of a pseudo-inertia that estimates begin with, as a part of the largest moment or the mass."""

ENTRIES = ((0, 0), (1, 1), (2, 2), (3, 3), (0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3))
"""Entries of X, in the order of a body's ten numbers."""


def _unit(a: int, b: int) -> Array:
    unit = np.zeros((4, 4))
    unit[a, b] = unit[b, a] = 1.0
    return unit


UNITS = np.stack([_unit(a, b) for a, b in ENTRIES])
"""Matrices (10, 4, 4) of which X is the sum, each times a number."""

OWN = np.array([float(a == b) for a, b in ENTRIES])
"""Numbers of the identity: the link's own parameters."""


class Divergence(NamedTuple):
    """A divergence, its gradient (10,), and a root (16, 10) of its Hessian."""

    value: float
    gradient: Array
    root: Array


def divergence(numbers: Array) -> Divergence | None:
    """Return the divergence of the body with ten numbers from the link's own body, or None if there is no such body."""
    x = np.tensordot(numbers, UNITS, 1)
    try:
        lower = np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return None
    diagonal = np.diag(lower)
    if not (diagonal > 0.0).all():
        return None
    inverse = np.linalg.inv(lower)
    value = float(np.trace(x) - 2.0 * np.log(diagonal).sum() - 4.0)
    around = inverse.T @ inverse
    gradient = OWN - np.einsum("ij,aji->a", around, UNITS)
    return Divergence(value, gradient, (inverse @ UNITS @ inverse.T).reshape(COUNT, 16).T)


def parameters_by_numbers(parameters: Array) -> Array:
    """Return the matrix (10, 10) from a body's ten numbers to its inertial parameters, for the link's own (10,)."""
    root = np.linalg.cholesky(_positive(pseudo_inertia(parameters)))
    return np.stack([of_pseudo_inertia(root @ unit @ root.T) for unit in UNITS], axis=1)


def pseudo_inertia(parameters: Array) -> Array:
    """Return the pseudo-inertia (4, 4), [[Σ, h], [hᵀ, m]] with Σ = ∫ r rᵀ dm, of inertial parameters (10,)."""
    inertia = np.zeros((3, 3))
    for (a, b), value in zip(MOMENTS, parameters[4:COUNT], strict=True):
        inertia[a, b] = inertia[b, a] = value
    result = np.zeros((4, 4))
    result[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    result[:3, 3] = result[3, :3] = parameters[1:4]
    result[3, 3] = parameters[0]
    return result


def of_pseudo_inertia(pseudo: Array) -> Array:
    """Return the inertial parameters (10,) of a pseudo-inertia (4, 4); both are linear in each other."""
    second = pseudo[:3, :3]
    inertia = np.trace(second) * np.eye(3) - second
    return np.array([pseudo[3, 3], *pseudo[:3, 3], *(inertia[a, b] for a, b in MOMENTS)])


def _positive(pseudo: Array) -> Array:
    """Return the next pseudo-inertia that a body with a volume has. Files round their numbers."""
    mass = max(pseudo[3, 3], 1e-9)
    center = pseudo[:3, 3] / mass
    about = pseudo[:3, :3] - mass * np.outer(center, center)
    values, axes = np.linalg.eigh(0.5 * (about + about.T))
    least = SMALLEST * max(values[-1], mass * 1e-4)
    about = (axes * np.maximum(values, least)) @ axes.T
    result = np.zeros((4, 4))
    result[:3, :3] = about + mass * np.outer(center, center)
    result[:3, 3] = result[3, :3] = mass * center
    result[3, 3] = mass
    return result
