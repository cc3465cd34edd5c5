"""Vectors and matrices of a robot as tuples, and rotations without rounding noise."""

from __future__ import annotations

from typing import Any

import numpy as np

Vector3 = tuple[float, float, float]
"""Three numbers."""
Matrix3 = tuple[Vector3, Vector3, Vector3]
"""Three rows of three numbers."""

IDENTITY: Matrix3 = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))

STANDARD_GRAVITY: Vector3 = (0.0, 0.0, -9.81)
"""Default gravity in the base frame, m/s²."""


def vector3(values: Any) -> Vector3:
    """Return three numbers as a tuple of floats."""
    x, y, z = (float(v) for v in values)
    return (x, y, z)


def matrix3(values: Any) -> Matrix3:
    """Return a 3 × 3 array as a tuple of rows."""
    a, b, c = (vector3(row) for row in values)
    return (a, b, c)


def turn_z_to(axis: np.ndarray) -> np.ndarray:
    """Return a rotation that takes z to the axis. It is a permutation if the axis is a coordinate axis."""
    axis = without_noise(axis)
    k = int(np.argmax(np.abs(axis)))
    if np.count_nonzero(axis) == 1:
        turn = np.zeros((3, 3))
        turn[(k + 1) % 3, 0] = turn[k, 2] = np.sign(axis[k])
        turn[(k + 2) % 3, 1] = 1.0
        return turn
    least = np.zeros(3)
    least[int(np.argmin(np.abs(axis)))] = 1.0
    x = np.cross(least, axis)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(axis, x), axis])


def without_noise(values: Any) -> np.ndarray:
    """Return an array with entries below 1e-15 of the largest one set to 0."""
    return summed(values)


def summed(*terms: Any, within: float = 1e-15) -> np.ndarray:
    """Return the sum of arrays, with entries that are only rounding errors set to 0.

    Args:
        terms: Arrays to add.
        within: Rounding error relative to the largest entries of all terms together.
    """
    arrays = [np.asarray(term, dtype=float) for term in terms]
    total = np.sum(arrays, axis=0)
    total[np.abs(total) <= within * sum(float(np.abs(a).max(initial=0.0)) for a in arrays)] = 0.0
    return total
