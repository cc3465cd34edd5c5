"""Poses of links in their parents as functions of joint positions, over any scalar."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dynagate.dynamics.spatial import Array, Scalar, SpatialForce, SpatialMotion, array, cross, rotate_symmetric


class JointTransform(ABC):
    """Pose of a link in its parent: a rotation R from link axes to parent axes, and the link's origin."""

    def __init__(self, translation: Array) -> None:
        self.translation = translation

    @abstractmethod
    def to_parent(self, v: Array) -> Array:
        """R v: a free vector from link axes to parent axes."""

    @abstractmethod
    def to_link(self, v: Array) -> Array:
        """Rᵀ v: a free vector from parent axes to link axes."""

    @abstractmethod
    def symmetric_to_parent(self, matrix: Array) -> Array:
        """R S Rᵀ for symmetric S."""

    @abstractmethod
    def after(self, rotation: Array) -> Array:
        """rotation @ R."""

    @abstractmethod
    def inverse_after(self, rotation: Array) -> Array:
        """rotation @ Rᵀ."""

    def motion_to_link(self, motion: SpatialMotion) -> SpatialMotion:
        return SpatialMotion(
            self.to_link(motion.angular), self.to_link(motion.linear - cross(self.translation, motion.angular))
        )

    def force_to_parent(self, force: SpatialForce) -> SpatialForce:
        linear = self.to_parent(force.linear)
        return SpatialForce(self.to_parent(force.angular) + cross(self.translation, linear), linear)


class AxisTransform(JointTransform):
    """A joint about or along the link's z axis: R = R0 Rz(angle), with the angle's cosine and sine given."""

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
        """With k = s (Sxx - Syy) + 2 c Sxy the turn about z costs 9 products instead of 12."""
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
    """A joint that turns any way."""

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
    """rotation @ Rz, with c = cos and s = sin of the angle."""
    return array([[r[0] * c + r[1] * s, r[1] * c - r[0] * s, r[2]] for r in rotation])
