"""Poses of links in their parents as functions of joint positions, over any scalar.

R always denotes the rotation from the link's axes to the parent's axes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from dynagate.dynamics.spatial import Array, Scalar, SpatialForce, SpatialMotion, array, cross, rotate_symmetric


class JointTransform(ABC):
    """Pose of a link in its parent: the rotation R from link axes to parent axes, and the link's origin in the parent,
    m.
    """

    def __init__(self, translation: Array) -> None:
        self.translation = translation

    @abstractmethod
    def to_parent(self, v: Array) -> Array:
        """Return R v: a free vector v (3,) in parent axes."""

    @abstractmethod
    def to_link(self, v: Array) -> Array:
        """Return Rᵀ v: a free vector v (3,) in link axes."""

    @abstractmethod
    def symmetric_to_parent(self, matrix: Array) -> Array:
        """Return R S Rᵀ for a symmetric S (3, 3)."""

    @abstractmethod
    def after(self, rotation: Array) -> Array:
        """Return rotation @ R."""

    @abstractmethod
    def inverse_after(self, rotation: Array) -> Array:
        """Return rotation @ Rᵀ."""

    def motion_to_link(self, motion: SpatialMotion) -> SpatialMotion:
        """Return a spatial motion vector in the link's frame, from the parent's frame."""
        return SpatialMotion(
            self.to_link(motion.angular), self.to_link(motion.linear - cross(self.translation, motion.angular))
        )

    def force_to_parent(self, force: SpatialForce) -> SpatialForce:
        """Return a spatial force vector in the parent's frame, from the link's frame."""
        linear = self.to_parent(force.linear)
        return SpatialForce(self.to_parent(force.angular) + cross(self.translation, linear), linear)


class AxisTransform(JointTransform):
    """A joint that rotates about or slides along the link's z axis: R = R0 Rz(angle), from the angle's cosine and
    sine.
    """

    def __init__(self, fixed: Array, translation: Array, cosine: Scalar = 1.0, sine: Scalar = 0.0) -> None:
        super().__init__(translation)
        self.fixed, self.cosine, self.sine = fixed, cosine, sine

    def to_parent(self, v: Array) -> Array:
        c, s = self.cosine, self.sine
        return self.fixed @ array([c * v[0] - s * v[1], s * v[0] + c * v[1], v[2]])

    def to_link(self, v: Array) -> Array:
        c, s = self.cosine, self.sine
        u = self.fixed.T @ v
        return array([c * u[0] + s * u[1], c * u[1] - s * u[0], u[2]])

    def symmetric_to_parent(self, matrix: Array) -> Array:
        """Return R S Rᵀ. With k = s (Sxx - Syy) + 2 c Sxy, the rotation about z needs 9 products instead of 12."""
        c, s = self.cosine, self.sine
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = matrix
        k = s * (xx - yy) + 2.0 * (c * xy)
        x, y = c * xz - s * yz, s * xz + c * yz
        turned = array([[xx - s * k, c * k - xy, x], [c * k - xy, yy + s * k, y], [x, y, zz]])
        return rotate_symmetric(self.fixed, turned)

    def after(self, rotation: Array) -> Array:
        return _turn_columns(rotation @ self.fixed, self.cosine, self.sine)

    def inverse_after(self, rotation: Array) -> Array:
        return _turn_columns(rotation, self.cosine, -self.sine) @ self.fixed.T


class FreeTransform(JointTransform):
    """A joint whose rotation can be any matrix."""

    def __init__(self, rotation: Array, translation: Array) -> None:
        super().__init__(translation)
        self.rotation = rotation

    def to_parent(self, v: Array) -> Array:
        return self.rotation @ v

    def to_link(self, v: Array) -> Array:
        return self.rotation.T @ v

    def symmetric_to_parent(self, matrix: Array) -> Array:
        return rotate_symmetric(self.rotation, matrix)

    def after(self, rotation: Array) -> Array:
        return rotation @ self.rotation

    def inverse_after(self, rotation: Array) -> Array:
        return rotation @ self.rotation.T


def _turn_columns(rotation: Array, c: Scalar, s: Scalar) -> Array:
    """Return rotation @ Rz, where c and s are the cosine and sine of the angle."""
    return array([[r[0] * c + r[1] * s, r[1] * c - r[0] * s, r[2]] for r in rotation])
