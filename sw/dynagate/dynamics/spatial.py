"""Rotations, 3-vectors and spatial 6-vectors over any scalar.

A scalar is any type with +, -, * and 1.0/x: float, complex, numpy batch or traced expression. Vectors and matrices are
numpy object arrays of scalars, so `A @ x` reads as in the book. A spatial vector is a pair (angular, linear), in
Featherstone's order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from dynagate.base import philox
from dynagate.base.arrays import Array
from dynagate.base.exact import Exact, exact, residue

ROUNDING = 1e-15
"""Relative rounding error of the difference of two equal numbers."""

ROTATION = 1e-14
"""Largest difference between an entry of a rotation matrix of floats and the exact rotation that it stands for."""

Scalar = Any


def array(values: Any) -> Array:
    """Return scalars as an object array. numpy numbers become Python floats, which keep traced arithmetic exact."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        values = values.tolist()
    result = np.array(values, dtype=object)
    flat = result.reshape(-1)
    for k, value in enumerate(flat):
        if type(value) is float:
            flat[k] = exact(value)
    return result


def exact_rotation(matrix: Any) -> Array:
    """Return a rotation matrix (3, 3) whose numbers stand for an exactly orthogonal matrix next to the given floats.

    The exact matrix is that of the quaternion (w, x, y, z) that follows from the floats without a square root.
    """
    r = np.asarray(matrix, dtype=np.float64)
    entries = array(r)
    sums = [1.0 + np.trace(r), *(1.0 + 2.0 * r[k, k] - np.trace(r) for k in range(3))]
    largest = int(np.argmax(sums))
    w, x, y, z = _quaternion(entries, largest)
    squared = w * w + x * x + y * y + z * z
    two = 2.0 / squared
    near = [
        [1.0 - two * (y * y + z * z), two * (x * y - w * z), two * (x * z + w * y)],
        [two * (x * y + w * z), 1.0 - two * (x * x + z * z), two * (y * z - w * x)],
        [two * (x * z - w * y), two * (y * z + w * x), 1.0 - two * (x * x + y * y)],
    ]
    if np.abs(np.array(near, dtype=np.float64) - r).max() > ROTATION:
        return entries
    numbers = [[Exact(float(a), residue(b)) for a, b in zip(*rows, strict=True)] for rows in zip(r, near, strict=True)]
    return np.array(numbers, dtype=object)


def _quaternion(r: Array, largest: int) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Return a quaternion (w, x, y, z) of any length, computed from the component `largest`, which is the largest
    one.
    """
    a, b, c = r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]
    d, e, f = r[2, 1] + r[1, 2], r[0, 2] + r[2, 0], r[1, 0] + r[0, 1]
    rows = (
        (1.0 + r[0, 0] + r[1, 1] + r[2, 2], a, b, c),
        (a, 1.0 + r[0, 0] - r[1, 1] - r[2, 2], f, e),
        (b, f, 1.0 - r[0, 0] + r[1, 1] - r[2, 2], d),
        (c, e, d, 1.0 - r[0, 0] - r[1, 1] + r[2, 2]),
    )
    return rows[largest]


def zeros(*shape: int) -> Array:
    """Return an object array filled with the number 0."""
    result = np.empty(shape, dtype=object)
    result.fill(exact(0.0))
    return result


def is_zero(x: Scalar) -> bool:
    """Return whether x is the number 0 and not a traced value."""
    return isinstance(x, float) and x == 0.0


def sin(x: Scalar) -> Scalar:
    return x.sin() if hasattr(x, "sin") else np.sin(x)


def cos(x: Scalar) -> Scalar:
    return x.cos() if hasattr(x, "cos") else np.cos(x)


def exp(x: Scalar) -> Scalar:
    return _operation("exp", x)


def sqrt(x: Scalar) -> Scalar:
    """Return the square root of x, which must not be negative."""
    return _operation("sqrt", x)


def noise(number: Scalar, draw: Scalar, seed: Scalar) -> Scalar:
    """Return one nearly normal random number with standard deviation 2/√3 (`base.philox`). Operands are rounded to
    integers.

    Args:
        number: Index of the random number within the draw.
        draw: Index of the draw.
        seed: Seed of the generator.
    """
    return _operation("noise", number, draw, seed)


def select(condition: Scalar, positive: Scalar, otherwise: Scalar) -> Scalar:
    """Return `positive` where the condition is above 0, else `otherwise`. Both operands are computed."""
    if isinstance(condition, float):
        return positive if condition > 0.0 else otherwise
    return _operation("select", condition, positive, otherwise)


def absolute(x: Scalar) -> Scalar:
    """Return the absolute value of a number."""
    return select(x, x, -x)


def both_signs(values: Iterable[Scalar]) -> list[Scalar]:
    """Return each number and its negative, so that the largest of them is the largest absolute value."""
    return [each for x in values for each in (x, -x)]


def largest(values: Iterable[Scalar], least: Scalar | None = None) -> Scalar:
    """Return the largest of some numbers, and of `least` if there is one."""
    rest = iter(values)
    result = next(rest) if least is None else least
    for x in rest:
        result = select(x - result, x, result)
    return result


def clipped(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """Return a number limited to a range. Bounds that are known to be infinite add no operations."""
    if not (isinstance(high, float) and math.isinf(high)):
        x = select(x - high, high, x)
    return x if isinstance(low, float) and math.isinf(low) else select(low - x, low, x)


def chosen(condition: Scalar, positive: Array, otherwise: Array) -> Array:
    """Apply `select` to each entry of two vectors."""
    return array([select(condition, a, b) for a, b in zip(positive, otherwise, strict=True)])


def _select(condition: Any, positive: Any, otherwise: Any) -> Any:
    chosen: Any = np.where(np.real(condition) > 0.0, positive, otherwise)
    return chosen[()]  # a number where all operands are numbers


NUMPY: dict[str, Callable[..., Any]] = {"exp": np.exp, "sqrt": np.sqrt, "noise": philox.real, "select": _select}
"""Operations that Python has no operator for, on numpy numbers and arrays, by name."""


def _operation(name: str, *operands: Scalar) -> Scalar:
    """Compute an operation that Python has no operator for. Scalars of other types provide a method `operation` for
    it.
    """
    for operand in operands:
        if hasattr(operand, "operation"):
            return operand.operation(name, *operands)
    return NUMPY[name](*operands)


def difference(a: Scalar, b: Scalar) -> Scalar:
    """Return a - b, and exactly 0 if both are numbers whose difference is only rounding."""
    left = a - b
    numbers = isinstance(a, float) and isinstance(b, float)
    return 0.0 if numbers and abs(left) <= ROUNDING * (abs(a) + abs(b)) else left


def cross(a: Array, b: Array) -> Array:
    """Return the cross product a × b (3,)."""
    return array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def skew(a: Array) -> Array:
    """Return the cross-product matrix [a]× (3, 3), so that skew(a) @ b == cross(a, b)."""
    return array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def symmetric(entry: Any, n: int = 3) -> Array:
    """Return a symmetric n × n matrix from entry(a, b), which is called only for a <= b."""
    result = zeros(n, n)
    for a in range(n):
        for b in range(a, n):
            result[a, b] = result[b, a] = entry(a, b)
    return result


def rotate_symmetric(rotation: Array, matrix: Array) -> Array:
    """Return R S Rᵀ for a symmetric S, computing only six entries."""
    half = rotation @ matrix
    return symmetric(lambda a, b: half[a] @ rotation[b])


def inertia_from_second_moment(second: Array) -> Array:
    """Return the rotational inertia tr(Σ) 1 - Σ, with diagonal entries as sums of two, such as Σyy + Σzz."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = second
    return array([[yy + zz, -xy, -xz], [-xy, xx + zz, -yz], [-xz, -yz, xx + yy]])


class SpatialMotion(NamedTuple):
    """A spatial motion vector: a twist, an acceleration or a column of a motion subspace."""

    angular: Array
    """Angular part (3,), rad/s for a velocity."""
    linear: Array
    """Linear part (3,) at the frame's origin, m/s for a velocity."""

    def __add__(self, other: SpatialMotion) -> SpatialMotion:  # type: ignore[override]
        return SpatialMotion(self.angular + other.angular, self.linear + other.linear)

    def scaled(self, s: Scalar) -> SpatialMotion:
        """Return the vector multiplied by a scalar."""
        return SpatialMotion(self.angular * s, self.linear * s)

    def cross(self, other: SpatialMotion) -> SpatialMotion:
        """Return self × other (Featherstone 2008, eq. 2.31)."""
        return SpatialMotion(
            cross(self.angular, other.angular),
            cross(self.angular, other.linear) + cross(self.linear, other.angular),
        )

    def cross_force(self, force: SpatialForce) -> SpatialForce:
        """Return self ×* force (Featherstone 2008, eq. 2.32)."""
        return SpatialForce(
            cross(self.angular, force.angular) + cross(self.linear, force.linear),
            cross(self.angular, force.linear),
        )

    def dot(self, force: SpatialForce) -> Scalar:
        """Return the scalar product of the motion with a force, such as a power in W."""
        return self.angular @ force.angular + self.linear @ force.linear


class SpatialForce(NamedTuple):
    """A spatial force vector: a wrench or a momentum."""

    angular: Array
    """Moment (3,) about the frame's origin, N m for a wrench."""
    linear: Array
    """Force (3,), N for a wrench."""

    def __add__(self, other: SpatialForce) -> SpatialForce:  # type: ignore[override]
        return SpatialForce(self.angular + other.angular, self.linear + other.linear)

    def scaled(self, s: Scalar) -> SpatialForce:
        """Return the vector multiplied by a scalar."""
        return SpatialForce(self.angular * s, self.linear * s)

    def __sub__(self, other: SpatialForce) -> SpatialForce:
        return SpatialForce(self.angular - other.angular, self.linear - other.linear)


ZERO_MOTION = SpatialMotion(zeros(3), zeros(3))


class Inertia(NamedTuple):
    """Spatial inertia of a rigid body about the origin of its frame."""

    mass: Scalar
    """Mass m, kg."""
    first: Array
    """First moment h = m c (3,), kg m."""
    second: Array
    """Second moment Σ = ∫ r rᵀ dm (3, 3), kg m²."""

    def __add__(self, other: Inertia) -> Inertia:  # type: ignore[override]
        total = symmetric(lambda a, b: self.second[a, b] + other.second[a, b])
        return Inertia(self.mass + other.mass, self.first + other.first, total)

    def __matmul__(self, motion: SpatialMotion) -> SpatialForce:
        rotational = inertia_from_second_moment(self.second)
        return SpatialForce(
            rotational @ motion.angular + cross(self.first, motion.linear),
            motion.linear * self.mass - cross(self.first, motion.angular),
        )
