"""Kinds of joints: the pose of a link, differences of configurations, and the inertia that a joint feels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.naming import label
from dynagate.dynamics.spatial import Scalar, array, cos, cross, select, sin, sqrt, zeros
from dynagate.dynamics.transforms import AxisTransform, FreeTransform, JointTransform, rotation_of
from dynagate.robot.kinds import row_of

Z = np.array([0.0, 0.0, 1.0])

SMALL_TURN = 0.5
"""rad: `advance` takes power series of the angle up to here, and beyond it closed forms, which divide by the angle."""


class JointMotion(ABC):
    """Motion of a joint about or along z.

    q: its own part of the configuration (nq,), v: of the velocity (nv,), both over any scalar. By default a
    configuration is a vector to which velocities are added.
    """

    @abstractmethod
    def turn(self, link: int, q: Sequence[Scalar]) -> list[Scalar]:
        """Return the functions of the configuration that the pose needs, such as cosine and sine. link: for the
        names of nodes.
        """

    @abstractmethod
    def pose(self, link: int, fixed: Array, origin: Array, turn: Sequence[Scalar]) -> JointTransform:
        """Return the pose of a link in its parent. fixed, origin: pose of the joint frame. turn: the result of
        `turn`.
        """

    def moved(self, q: Array, v: Array) -> Array:
        """The configurations (..., nq) that a constant velocity (..., nv) leads to in one second, in numpy. Complex v
        of tiny size gives complex steps."""
        return np.asarray(q + v)

    def difference(self, q: Array, q_next: Array) -> Array:
        """The constant velocity (..., nv) that leads from q to q_next (..., nq) in one second, in numpy: the inverse of
        `moved`, by the shorter turn."""
        return np.asarray(q_next - q)

    def advanced(self, q: Array, v: Array) -> Array:
        """`moved` of one configuration over any scalar."""
        return np.asarray(q + v)

    def between(self, q: Array, q_next: Array) -> Array:
        """`difference` of two configurations over any scalar."""
        return np.asarray(q_next - q)

    def bracket(self, u: Array, v: Array) -> Array:
        """[u, v] (nv,) of two velocities."""
        return zeros(len(u))

    def directions(self, q: Sequence[Scalar] | Array, count: int) -> Array:
        """∂q/∂v (nq, nv) of `moved` at v = 0. count: nv."""
        return array(np.eye(count))

    def rates(self, q: Sequence[Scalar] | Array, rates: Array, count: int) -> Array:
        """The velocity (nv,) with which the configuration moves whose numbers change at these rates (nq,)."""
        return np.asarray(self.directions(q, count).T @ rates)

    def felt(self, mass: float, first: Array, second: Array) -> tuple[float, Array, Array]:
        """Return the part of a body's mass, m c and Σ = ∫ r rᵀ dm that the joint feels. The parent carries the rest."""
        return mass, first, second


class Turning(JointMotion):
    """About z. Mass on z is not felt: m, h_z and Σ_zz."""

    def turn(self, link: int, q: Sequence[Scalar]) -> list[Scalar]:
        return [label(cos(q[0]), f"cos_{link}"), label(sin(q[0]), f"sin_{link}")]

    def pose(self, link: int, fixed: Array, origin: Array, turn: Sequence[Scalar]) -> JointTransform:
        joint = AxisTransform(fixed, origin, turn[0], turn[1])
        if all(isinstance(entry, float) for entry in fixed.ravel()):
            return joint
        return FreeTransform(joint.after(array(np.eye(3))), origin)  # two rotations become one

    def felt(self, mass: float, first: Array, second: Array) -> tuple[float, Array, Array]:
        return 0.0, first * (1.0 - Z), second * (1.0 - np.outer(Z, Z))


class Sliding(JointMotion):
    """Along z. Σ is not felt."""

    def turn(self, link: int, q: Sequence[Scalar]) -> list[Scalar]:
        return [q[0]]

    def pose(self, link: int, fixed: Array, origin: Array, turn: Sequence[Scalar]) -> JointTransform:
        return AxisTransform(fixed, label(origin + fixed[:, 2] * turn[0], f"slide_{link}"))

    def felt(self, mass: float, first: Array, second: Array) -> tuple[float, Array, Array]:
        return mass, first, np.zeros((3, 3))


class Ball(JointMotion):
    """Turns any way: a quaternion is multiplied from the right by exp(ω/2). Mass at the center is not felt."""

    def turn(self, link: int, q: Sequence[Scalar]) -> list[Scalar]:
        return list(label(rotation_of(q[-4:]), f"turn_{link}").ravel())

    def pose(self, link: int, fixed: Array, origin: Array, turn: Sequence[Scalar]) -> JointTransform:
        return FreeTransform(fixed @ array(list(turn[:9])).reshape(3, 3), origin)

    def moved(self, q: Array, v: Array) -> Array:
        half_sinc, cosine, _ = _turned_by(v[..., -3:])
        return _times(q[..., -4:], v[..., -3:] * half_sinc, cosine)

    def difference(self, q: Array, q_next: Array) -> Array:
        return _rate(_back(q), q_next[..., -4:])[0]

    def advanced(self, q: Array, v: Array) -> Array:
        turn, rate = q[-4:], v[-3:]
        half_sinc, cosine, _, _ = _factors(rate @ rate)
        axis, w = turn[:3], turn[3]
        vector = rate * half_sinc
        after = array([*(vector * w + axis * cosine + cross(axis, vector)), w * cosine - axis @ vector])
        # what rounding has taken of the length comes back
        return np.asarray(after * (1.5 - (after @ after) * 0.5))

    def between(self, q: Array, q_next: Array) -> Array:
        vector, _, longer = _shorter_turn(q[-4:], q_next[-4:])
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

    def felt(self, mass: float, first: Array, second: Array) -> tuple[float, Array, Array]:
        return 0.0, first, second


class Free(Ball):
    """Goes anywhere: follows the screw (linear, angular) of the link's own frame (Solà, Deray & Atchuthan, "A micro Lie
    theory", 2018, eqs. 172-174)."""

    def turn(self, link: int, q: Sequence[Scalar]) -> list[Scalar]:
        return [*super().turn(link, q), *q[:3]]

    def pose(self, link: int, fixed: Array, origin: Array, turn: Sequence[Scalar]) -> JointTransform:
        return super().pose(link, fixed, origin + fixed @ array(list(turn[9:])), turn)

    def moved(self, q: Array, v: Array) -> Array:
        speed, rate = v[..., :3], v[..., 3:]
        half_sinc, _, squared = _turned_by(rate)
        across = np.cross(rate, speed)
        screw = speed + 2.0 * half_sinc**2 * across + _cubic(squared) * np.cross(rate, across)
        return np.concatenate([q[..., :3] + _turned(q[..., 3:], screw), super().moved(q, v)], axis=-1)

    def difference(self, q: Array, q_next: Array) -> Array:
        rate, angle = _rate(_back(q), q_next[..., -4:])
        moved = _turned(_back(q), q_next[..., :3] - q[..., :3])
        across = np.cross(rate, moved)
        return np.concatenate([moved - 0.5 * across + _unscrew(angle) * np.cross(rate, across), rate], axis=-1)

    def advanced(self, q: Array, v: Array) -> Array:
        turned = super().advanced(q, v)
        speed, rate = v[:3], v[3:]
        _, _, first, second = _factors(rate @ rate)
        across = cross(rate, speed)
        screw = speed + across * first + cross(rate, across) * second
        return np.concatenate([q[:3] + rotation_of(list(q[3:])) @ screw, turned])

    def rotation(self, q: Array) -> Array:
        """Return the rotation (3, 3) from the link's axes to those of its parent, over any scalar."""
        return rotation_of(list(q[3:]))

    def carried(self, v: Array, vector: Array) -> Array:
        """Return a vector (3,) turned as a constant velocity v (6,) turns the link in one second, over any scalar."""
        half_sinc, cosine, _, _ = _factors(v[3:] @ v[3:])
        axis = v[3:] * half_sinc
        across = cross(axis, vector) * 2.0
        return np.asarray(vector + across * cosine + cross(axis, across))

    def carried_back(self, v: Array, vector: Array) -> Array:
        """Return a vector (3,) along the axes of the link after one second of a constant velocity v (6,). vector: along
        those before, over any scalar."""
        half_sinc, cosine, _, _ = _factors(v[3:] @ v[3:])
        axis = v[3:] * half_sinc
        across = cross(axis, vector) * 2.0
        return np.asarray(vector - across * cosine + cross(axis, across))

    def between(self, q: Array, q_next: Array) -> Array:
        vector, w, longer = _shorter_turn(q[3:], q_next[3:])
        rate = vector * longer
        moved = rotation_of(list(q[3:])).T @ (q_next[:3] - q[:3])
        squared, across = rate @ rate, cross(rate, moved)
        beyond = squared - SMALL_TURN**2
        closed = (1.0 - longer * w * 0.5) * (1.0 / select(beyond, squared, SMALL_TURN**2))
        bent = cross(rate, across) * select(beyond, closed, _polynomial(_UNSCREW, squared))
        return np.concatenate([moved - across * 0.5 + bent, rate])

    def bracket(self, u: Array, v: Array) -> Array:
        return np.concatenate([cross(u[3:], v[:3]) + cross(u[:3], v[3:]), super().bracket(u, v)])

    def directions(self, q: Sequence[Scalar] | Array, count: int) -> Array:
        matrix = zeros(7, 6)
        matrix[:3, :3] = rotation_of(list(q[3:]))
        matrix[3:, 3:] = super().directions(q, 3)
        return matrix

    def felt(self, mass: float, first: Array, second: Array) -> tuple[float, Array, Array]:
        return mass, first, second


MOTIONS: dict[str, JointMotion] = {
    "revolute": Turning(),
    "continuous": Turning(),
    "prismatic": Sliding(),
    "spherical": Ball(),
    "floating": Free(),
}
"""Motions by the names in `robot.kinds.KINDS`."""


def motion_of(kind: str) -> JointMotion:
    """Raises ValueError: the table has no such kind."""
    motion: JointMotion = row_of("dynamics.kinds.MOTIONS", MOTIONS, kind)
    return motion


def _turned_by(rate: Array) -> tuple[Array, Array, Array]:
    """sin(θ/2) / θ, cos(θ/2) and θ² of angular velocities (..., 3), each (..., 1)."""
    squared = np.sum(rate * rate, axis=-1)[..., None]
    angle = np.sqrt(squared)
    half_sinc = np.divide(np.sin(0.5 * angle), angle, out=np.full_like(angle, 0.5), where=angle != 0.0)
    return half_sinc, np.cos(0.5 * angle), squared


def _factors(squared: Scalar) -> tuple[Scalar, ...]:
    """sin(θ/2) / θ, cos(θ/2), (1 - cos θ) / θ² and (θ - sin θ) / θ³ of θ²."""
    beyond = squared - SMALL_TURN**2
    angle = sqrt(select(beyond, squared, SMALL_TURN**2))  # not of 0, where its slope is infinite
    inverse, half = 1.0 / angle, angle * 0.5
    half_sinc, cosine = sin(half) * inverse, cos(half)
    third = (1.0 - half_sinc * cosine * 2.0) * (inverse * inverse)
    half_sinc = select(beyond, half_sinc, _taylor(squared * 0.25, 1, 6) * 0.5)
    cosine = select(beyond, cosine, _taylor(squared * 0.25, 0, 7))
    return half_sinc, cosine, half_sinc * half_sinc * 2.0, select(beyond, third, _taylor(squared, 3, 7))


def _taylor(x: Scalar, start: int, terms: int) -> Scalar:
    """Σ (-x)^k / (2k + start)!, over this many terms."""
    return _polynomial([(-1) ** k / math.factorial(2 * k + start) for k in range(terms)], x)


def _polynomial(coefficients: Sequence[float], x: Scalar) -> Scalar:
    """From the constant on."""
    result: Scalar = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient
    return result


def _times(quaternion: Array, vector: Array, scalar: Array) -> Array:
    """quaternion ∘ (vector, scalar), each (x, y, z, w)."""
    axis, w = quaternion[..., :3], quaternion[..., 3:]
    imaginary = w * vector + scalar * axis + np.cross(axis, vector)
    return np.concatenate([imaginary, w * scalar - np.sum(axis * vector, axis=-1)[..., None]], axis=-1)


def _turned(quaternion: Array, vector: Array) -> Array:
    """The vector turned by a unit quaternion."""
    axis, w = quaternion[..., :3], quaternion[..., 3:]
    across = 2.0 * np.cross(axis, vector)
    return vector + w * across + np.cross(axis, across)


def _cubic(squared: Array) -> Array:
    """(θ - sin θ) / θ³ of θ²; by its series where the difference would cancel."""
    x, angle = squared, np.sqrt(squared)
    series = 1 / 6 - x / 120 * (1 - x / 42 * (1 - x / 72 * (1 - x / 110)))
    return np.divide(angle - np.sin(angle), angle**3, out=series, where=np.abs(x) > 0.1)


def _back(q: Array) -> Array:
    """The conjugate of the quaternion in q."""
    return np.asarray(q[..., -4:] * np.array([-1.0, -1.0, -1.0, 1.0]))


def _rate(back: Array, quaternion: Array) -> tuple[Array, Array]:
    """The angular velocity (..., 3) of one second, and its angle (..., 1), that lead to a quaternion from the one whose
    conjugate is `back`, by the shorter turn."""
    turn = _times(back, quaternion[..., :3], quaternion[..., 3:])
    turn = np.where(turn[..., 3:] < 0.0, -turn, turn)
    sine = np.linalg.norm(turn[..., :3], axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, turn[..., 3:])
    return turn[..., :3] * np.divide(angle, sine, out=np.full_like(sine, 2.0), where=sine > 0.0), angle


def _shorter_turn(q: Array, q_next: Array) -> tuple[Array, Scalar, Scalar]:
    """The vector e and w ≥ 0 of the quaternion that leads from one to another, over any scalar, and θ / |e|. An eighth
    of the turn has a short series."""
    axis, w0, axis_next, w1 = q[:3], q[3], q_next[:3], q_next[3]
    w = w0 * w1 + axis @ axis_next
    sign = select(w, 1.0, -1.0)
    vector, w = (axis_next * w0 - axis * w1 - cross(axis, axis_next)) * sign, w * sign
    part, longer, cosine = vector, 16.0, w
    for _ in range(3):
        cosine = sqrt((1.0 + cosine) * 0.5)
        shorter = 0.5 / cosine
        part, longer = part * shorter, longer * shorter
    return vector, w, longer * _polynomial(_ARC_SINE, part @ part)


_ARC_SINE = [math.comb(2 * n, n) / (4.0**n * (2 * n + 1)) for n in range(12)]
"""Coefficients of asin(x) / x in powers of x²."""

_UNSCREW = (1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000, 1 / 74724249600)
"""Coefficients of (1 - θ/2 cot(θ/2)) / θ² in powers of θ²."""


def _unscrew(angle: Array) -> Array:
    """(1 - θ/2 cot(θ/2)) / θ² of θ; by its series where the difference would cancel."""
    squared = angle * angle
    series = _polynomial(_UNSCREW, squared)
    half = 0.5 * angle
    cotangent = np.divide(half, np.tan(half), out=np.ones_like(half), where=half > 0.0)
    return np.divide(1.0 - cotangent, squared, out=series, where=np.abs(squared) > 0.1)
