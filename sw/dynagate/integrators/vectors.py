"""3-vectors and 3 × 3 matrices as tuples of any scalar: a float, or a traced expression.

A matrix is a tuple of nine numbers, row after row. The functions hold no numpy, so a compiler of loops takes them too
(`examples/papers`).
"""

from __future__ import annotations

from typing import Any

Scalar = Any
Vector = tuple[Any, Any, Any]
Matrix = tuple[Any, Any, Any, Any, Any, Any, Any, Any, Any]


def plus(a: Vector, b: Vector) -> Vector:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def minus(a: Vector, b: Vector) -> Vector:
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


def scaled(a: Vector, s: Scalar) -> Vector:
    return (a[0] * s, a[1] * s, a[2] * s)


def dot(a: Vector, b: Vector) -> Scalar:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a: Vector, b: Vector) -> Vector:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def times(m: Matrix, v: Vector) -> Vector:
    """m v."""
    return (
        m[0] * v[0] + m[1] * v[1] + m[2] * v[2],
        m[3] * v[0] + m[4] * v[1] + m[5] * v[2],
        m[6] * v[0] + m[7] * v[1] + m[8] * v[2],
    )


def transposed_times(m: Matrix, v: Vector) -> Vector:
    """mᵀ v."""
    return (
        m[0] * v[0] + m[3] * v[1] + m[6] * v[2],
        m[1] * v[0] + m[4] * v[1] + m[7] * v[2],
        m[2] * v[0] + m[5] * v[1] + m[8] * v[2],
    )


ALL = (plus, minus, scaled, dot, cross, times, transposed_times)
"""Functions that a loop compiled by Numba may call."""
