"""Rotations, 3-vectors and 6-vectors over any scalar.

A scalar is anything with +, -, * and 1.0/x: float, complex, numpy batch, traced expression. Vectors and matrices
are numpy object arrays of scalars, so `A @ x` reads as in the book. Spatial vectors are pairs
(angular, linear), after Featherstone's [angular; linear].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.naming import label

Scalar = Any
Array = npt.NDArray[Any]
"""A vector (3,) or matrix (3, 3) of scalars, dtype object."""


def array(values: Any) -> Array:
    """Scalars as an object array; numpy numbers become Python's own, which keep traced arithmetic exact."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        values = values.tolist()
    return np.array(values, dtype=object)


def zeros(*shape: int) -> Array:
    return array(np.zeros(shape))


def sin(x: Scalar) -> Scalar:
    return x.sin() if hasattr(x, "sin") else np.sin(x)


def cos(x: Scalar) -> Scalar:
    return x.cos() if hasattr(x, "cos") else np.cos(x)


def cross(a: Array, b: Array) -> Array:
    return array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def skew(a: Array) -> Array:
    """[a]×, so that skew(a) @ b == cross(a, b)."""
    return array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


def symmetric(entry: Any) -> Array:
    """A symmetric 3 × 3 matrix from entry(a, b), asked for a <= b alone."""
    result = zeros(3, 3)
    for a in range(3):
        for b in range(a, 3):
            result[a, b] = result[b, a] = entry(a, b)
    return result


def rotate_symmetric(rotation: Array, matrix: Array) -> Array:
    """R S Rᵀ for symmetric S, computing six entries."""
    half = rotation @ matrix
    return symmetric(lambda a, b: half[a] @ rotation[b])


def inertia_from_second_moment(second: Array) -> Array:
    """tr(Σ) 1 - Σ, with the diagonal as sums of two: Σyy + Σzz, ..."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = second
    return array([[yy + zz, -xy, -xz], [-xy, xx + zz, -yz], [-xz, -yz, xx + yy]])


class Motion(NamedTuple):
    """Spatial motion vector (angular, linear)."""

    angular: Array
    linear: Array

    def __add__(self, other: Motion) -> Motion:  # type: ignore[override]
        return Motion(self.angular + other.angular, self.linear + other.linear)

    def scaled(self, s: Scalar) -> Motion:
        return Motion(self.angular * s, self.linear * s)

    def cross(self, other: Motion) -> Motion:
        """self × other, Featherstone 2008, eq. 2.31."""
        return Motion(
            cross(self.angular, other.angular),
            cross(self.angular, other.linear) + cross(self.linear, other.angular),
        )

    def cross_force(self, force: Force) -> Force:
        """self ×* force, Featherstone 2008, eq. 2.32."""
        return Force(
            cross(self.angular, force.angular) + cross(self.linear, force.linear),
            cross(self.angular, force.linear),
        )

    def dot(self, force: Force) -> Scalar:
        return self.angular @ force.angular + self.linear @ force.linear


class Force(NamedTuple):
    """Spatial force vector (moment, force)."""

    angular: Array
    linear: Array

    def __add__(self, other: Force) -> Force:  # type: ignore[override]
        return Force(self.angular + other.angular, self.linear + other.linear)

    def __sub__(self, other: Force) -> Force:
        return Force(self.angular - other.angular, self.linear - other.linear)


ZERO_MOTION = Motion(zeros(3), zeros(3))


class Inertia(NamedTuple):
    """Spatial inertia about the frame's origin: mass, first moment h = m c, second moment Σ = ∫ r rᵀ dm."""

    mass: Scalar
    first: Array
    second: Array

    def __add__(self, other: Inertia) -> Inertia:  # type: ignore[override]
        total = symmetric(lambda a, b: self.second[a, b] + other.second[a, b])
        return Inertia(self.mass + other.mass, self.first + other.first, total)

    def __matmul__(self, motion: Motion) -> Force:
        rotational = inertia_from_second_moment(self.second)
        return Force(
            rotational @ motion.angular + cross(self.first, motion.linear),
            motion.linear * self.mass - cross(self.first, motion.angular),
        )


class JointTransform(NamedTuple):
    """Pose of a link (joint axis z) in its parent: rotation R0 Rz(angle), translation p, with the angle's cosine and
    sine given."""

    fixed: Array
    translation: Array
    cosine: Scalar
    sine: Scalar

    def to_parent(self, v: Array) -> Array:
        """A free vector from link axes to parent axes."""
        c, s = self.cosine, self.sine
        return self.fixed @ array([c * v[0] - s * v[1], s * v[0] + c * v[1], v[2]])

    def to_link(self, v: Array) -> Array:
        """A free vector from parent axes to link axes."""
        c, s = self.cosine, self.sine
        u = self.fixed.T @ v
        return array([c * u[0] + s * u[1], c * u[1] - s * u[0], u[2]])

    def motion_to_link(self, motion: Motion) -> Motion:
        return Motion(
            self.to_link(motion.angular), self.to_link(motion.linear - cross(self.translation, motion.angular))
        )

    def force_to_parent(self, force: Force) -> Force:
        linear = self.to_parent(force.linear)
        return Force(self.to_parent(force.angular) + cross(self.translation, linear), linear)

    def symmetric_to_parent(self, matrix: Array) -> Array:
        """R S Rᵀ; with k = s (Sxx - Syy) + 2 c Sxy the turn about z costs 9 products instead of 12."""
        c, s = self.cosine, self.sine
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = matrix
        k = s * (xx - yy) + 2.0 * (c * xy)
        x, y = c * xz - s * yz, s * xz + c * yz
        turned = array([[xx - s * k, c * k - xy, x], [c * k - xy, yy + s * k, y], [x, y, zz]])
        return rotate_symmetric(self.fixed, turned)

    def times_rotation_z(self, rotation: Array) -> Array:
        """rotation @ Rz(q)."""
        return turn_columns(rotation, self.cosine, self.sine)


def turn_columns(rotation: Array, c: Scalar, s: Scalar) -> Array:
    """rotation @ Rz, with c = cos and s = sin of the angle."""
    return array([[r[0] * c + r[1] * s, r[1] * c - r[0] * s, r[2]] for r in rotation])


def joint_transforms(
    rotations: Sequence[Any], translations: Sequence[Any], slides: Sequence[bool], q: Sequence[Scalar]
) -> list[JointTransform]:
    """Pose of each link in its parent: turned about z by q, or moved along it where the joint slides."""
    result = []
    for i, (rotation, translation, x) in enumerate(zip(rotations, translations, q, strict=True)):
        fixed, origin = array(rotation), array(translation)
        if slides[i]:
            result.append(JointTransform(fixed, label(origin + fixed[:, 2] * x, f"slide_{i}"), 1.0, 0.0))
        else:
            result.append(JointTransform(fixed, origin, label(cos(x), f"cos_{i}"), label(sin(x), f"sin_{i}")))
    return result
