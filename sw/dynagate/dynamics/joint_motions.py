"""Motion of each kind of joint: the pose of its link, differences of configurations, and the inertia that it feels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.naming import label
from dynagate.dynamics.quaternion import (
    SMALL_TURN,
    UNSCREW,
    rotation_of,
    shorter_turn,
    times_exponential,
    turn_factors,
)
from dynagate.dynamics.series import polynomial
from dynagate.dynamics.spatial import Scalar, array, cos, cross, select, sin, zeros
from dynagate.dynamics.transforms import AxisTransform, FreeTransform, JointTransform
from dynagate.robot.kinds import row_of

Z = np.array([0.0, 0.0, 1.0])
"""The joint axis in the joint's frame: every axis is aligned to z."""


class JointMotion(ABC):
    """Motion of a joint about or along the z axis of its frame, over any scalar.

    In the methods, q (nq,) and v (nv,) are the joint's part of the configuration and velocity. By default the
    configuration is a vector space, so a velocity is added to it.
    """

    @abstractmethod
    def turn(self, link: int, q: Sequence[Scalar]) -> list[Scalar]:
        """Return the functions of the joint's q that its pose needs, such as cosine and sine, as a list of scalars.

        Args:
            link: Number of the link, for the names of the results.
            q: The joint's part of the configuration.
        """

    @abstractmethod
    def pose(self, link: int, fixed: Array, origin: Array, values: Sequence[Scalar]) -> JointTransform:
        """Return the pose of the link in its parent.

        Args:
            link: Number of the link, for the names of the results.
            fixed: Rotation (3, 3) of the joint's frame in the parent.
            origin: Origin (3,) of the joint's frame in the parent, m.
            values: Result of the method `turn`.
        """

    def advanced(self, q: Array, v: Array) -> Array:
        """Return the configuration (nq,) after one second at the constant velocity v."""
        return np.asarray(q + v)

    def between(self, q: Array, q_next: Array) -> Array:
        """Return the constant velocity (nv,) from q to q_next in one second, by the shorter rotation."""
        return np.asarray(q_next - q)

    def bracket(self, u: Array, v: Array) -> Array:
        """Return the Lie bracket [u, v] (nv,) of two velocities."""
        return zeros(len(u))

    def directions(self, q: Sequence[Scalar] | Array, count: int) -> Array:
        """Return ∂q/∂v (nq, nv) of `advanced` at v = 0. `count` is nv."""
        return array(np.eye(count))

    def rates(self, q: Sequence[Scalar] | Array, rates: Array, count: int) -> Array:
        """Return the velocity (nv,) for given rates (nq,) of the configuration's numbers. `count` is nv."""
        return np.asarray(self.directions(q, count).T @ rates)

    def loading_part(self, mass: float, first: Array, second: Array) -> tuple[float, Array, Array]:
        """Return the part of a body's mass, first moment m c and second moment Σ = ∫ r rᵀ dm that loads this joint.

        The parent link carries the remainder without changing any joint torque.
        """
        return mass, first, second


class RevoluteMotion(JointMotion):
    """Rotation about z. Mass on the axis does not load the joint: m, h_z and Σ_zz."""

    def turn(self, link: int, q: Sequence[Scalar]) -> list[Scalar]:
        return [label(cos(q[0]), f"cos_{link}"), label(sin(q[0]), f"sin_{link}")]

    def pose(self, link: int, fixed: Array, origin: Array, values: Sequence[Scalar]) -> JointTransform:
        joint = AxisTransform(fixed, origin, values[0], values[1])
        if all(isinstance(entry, float) for entry in fixed.ravel()):
            return joint
        return FreeTransform(joint.after(array(np.eye(3))), origin)  # combine both rotations into one matrix

    def loading_part(self, mass: float, first: Array, second: Array) -> tuple[float, Array, Array]:
        return 0.0, first * (1.0 - Z), second * (1.0 - np.outer(Z, Z))


class PrismaticMotion(JointMotion):
    """Translation along z. The second moment Σ does not load the joint."""

    def turn(self, link: int, q: Sequence[Scalar]) -> list[Scalar]:
        return [q[0]]

    def pose(self, link: int, fixed: Array, origin: Array, values: Sequence[Scalar]) -> JointTransform:
        return AxisTransform(fixed, label(origin + fixed[:, 2] * values[0], f"slide_{link}"))

    def loading_part(self, mass: float, first: Array, second: Array) -> tuple[float, Array, Array]:
        return mass, first, np.zeros((3, 3))


class SphericalMotion(JointMotion):
    """Rotation about any axis: a quaternion is multiplied from the right by exp(ω/2). Mass at the center loads no
    joint.
    """

    def turn(self, link: int, q: Sequence[Scalar]) -> list[Scalar]:
        return list(label(rotation_of(q[-4:]), f"turn_{link}").ravel())

    def pose(self, link: int, fixed: Array, origin: Array, values: Sequence[Scalar]) -> JointTransform:
        return FreeTransform(fixed @ array(list(values[:9])).reshape(3, 3), origin)

    def advanced(self, q: Array, v: Array) -> Array:
        return times_exponential(q[-4:], v[-3:])

    def between(self, q: Array, q_next: Array) -> Array:
        vector, _, longer = shorter_turn(q[-4:], q_next[-4:])
        return np.asarray(vector * longer)

    def bracket(self, u: Array, v: Array) -> Array:
        return cross(u[-3:], v[-3:])

    def directions(self, q: Sequence[Scalar] | Array, count: int) -> Array:
        x, y, z, w = (value * 0.5 for value in q[-4:])
        return array([[w, -z, y], [z, w, -x], [-y, x, w], [-x, -y, -z]])

    def rates(self, q: Sequence[Scalar] | Array, rates: Array, count: int) -> Array:
        block = self.directions(q, count).T
        block[-3:, -4:] = block[-3:, -4:] * 4.0
        return np.asarray(block @ rates)

    def loading_part(self, mass: float, first: Array, second: Array) -> tuple[float, Array, Array]:
        return 0.0, first, second


class FloatingMotion(SphericalMotion):
    """Motion in all six directions, along the screw (linear, angular) of the link's own frame.

    Reference:
        Solà, Deray & Atchuthan, "A micro Lie theory", 2018, eqs. 172-174.
    """

    def turn(self, link: int, q: Sequence[Scalar]) -> list[Scalar]:
        return [*super().turn(link, q), *q[:3]]

    def pose(self, link: int, fixed: Array, origin: Array, values: Sequence[Scalar]) -> JointTransform:
        return super().pose(link, fixed, origin + fixed @ array(list(values[9:])), values)

    def advanced(self, q: Array, v: Array) -> Array:
        turned = super().advanced(q, v)
        speed, rate = v[:3], v[3:]
        _, _, first, second = turn_factors(rate @ rate)
        across = cross(rate, speed)
        screw = speed + across * first + cross(rate, across) * second
        return np.concatenate([q[:3] + rotation_of(list(q[3:])) @ screw, turned])

    def rotation(self, q: Array) -> Array:
        """Return the rotation (3, 3) from the link's axes to its parent's, over any scalar."""
        return rotation_of(list(q[3:]))

    def rotated(self, v: Array, vector: Array) -> Array:
        """Rotate a vector (3,) as the constant velocity v (6,) rotates the link in one second, over any scalar."""
        half_sinc, cosine, _, _ = turn_factors(v[3:] @ v[3:])
        axis = v[3:] * half_sinc
        across = cross(axis, vector) * 2.0
        return np.asarray(vector + across * cosine + cross(axis, across))

    def rotated_back(self, v: Array, vector: Array) -> Array:
        """Express a vector (3,), given in the link's axes, in those axes after one second at the velocity v (6,)."""
        half_sinc, cosine, _, _ = turn_factors(v[3:] @ v[3:])
        axis = v[3:] * half_sinc
        across = cross(axis, vector) * 2.0
        return np.asarray(vector - across * cosine + cross(axis, across))

    def between(self, q: Array, q_next: Array) -> Array:
        vector, w, longer = shorter_turn(q[3:], q_next[3:])
        rate = vector * longer
        moved = rotation_of(list(q[3:])).T @ (q_next[:3] - q[:3])
        squared, across = rate @ rate, cross(rate, moved)
        beyond = squared - SMALL_TURN**2
        closed = (1.0 - longer * w * 0.5) * (1.0 / select(beyond, squared, SMALL_TURN**2))
        bent = cross(rate, across) * select(beyond, closed, polynomial(UNSCREW, squared))
        return np.concatenate([moved - across * 0.5 + bent, rate])

    def bracket(self, u: Array, v: Array) -> Array:
        return np.concatenate([cross(u[3:], v[:3]) + cross(u[:3], v[3:]), super().bracket(u, v)])

    def directions(self, q: Sequence[Scalar] | Array, count: int) -> Array:
        matrix = zeros(7, 6)
        matrix[:3, :3] = rotation_of(list(q[3:]))
        matrix[3:, 3:] = super().directions(q, 3)
        return matrix

    def loading_part(self, mass: float, first: Array, second: Array) -> tuple[float, Array, Array]:
        return mass, first, second


MOTIONS: dict[str, JointMotion] = {
    "revolute": RevoluteMotion(),
    "continuous": RevoluteMotion(),
    "prismatic": PrismaticMotion(),
    "spherical": SphericalMotion(),
    "floating": FloatingMotion(),
}
"""The motion of each kind of joint in `robot.kinds.KINDS`."""


def motion_of(kind: str) -> JointMotion:
    """Return the motion of a kind of joint. Raise ValueError if `MOTIONS` has no such kind."""
    motion: JointMotion = row_of("dynamics.joint_motions.MOTIONS", MOTIONS, kind)
    return motion
