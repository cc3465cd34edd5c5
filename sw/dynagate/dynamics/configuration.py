"""Configurations and the velocities that lead from one to another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.dynamics.joints import rotation_of
from dynagate.dynamics.spatial import Scalar, array, cos, cross, select, sin, sqrt, zeros
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName, robot_of

Array = npt.NDArray[Any]
Scalars = Sequence[Scalar] | Array


def neutral(robot: RobotOrName) -> Array:
    """The configuration q (nq,) of a robot with every joint at zero, rad or m, and every quaternion the identity.
    robot: also a name or a path."""
    robot = robot_of(robot)
    q = np.zeros(robot.nq)
    q[[part.stop - 1 for part in robot.quaternions()]] = 1.0
    return q


def normalised(robot: Robot, q: Array) -> Array:
    """q (..., nq), with every quaternion brought to length 1 in place."""
    for part in robot.quaternions():
        q[..., part] /= np.linalg.norm(q[..., part], axis=-1, keepdims=True)
    return q


def integrate(robot: RobotOrName, q: npt.ArrayLike, v: npt.ArrayLike) -> Array:
    """The configurations (..., nq) that a robot reaches from q (..., nq), rad or m, with the constant velocity v
    (..., nv), rad/s or m/s, in one second. The leading axes are broadcast.

    This is what a derivative by q means: column j is the slope along v = ε e_j. A quaternion is multiplied from the
    right by exp(ω/2); a floating joint follows the screw (linear, angular) of its own frame (Solà, Deray & Atchuthan,
    "A micro Lie theory", 2018, eqs. 172-174). Complex v of tiny size gives complex steps.

    Raises ValueError: the leading axes do not go together.
    """
    robot, q, v = robot_of(robot), np.asarray(q), np.asarray(v)
    batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
    result = np.empty((*batch, robot.nq), np.result_type(q, v, np.float64))
    for link, iq, iv in robot.slices():
        if not link.joint.has_quaternion:
            result[..., iq] = q[..., iq] + v[..., iv]
            continue
        turn, rate = q[..., iq.stop - 4 : iq.stop], v[..., iv.stop - 3 : iv.stop]
        squared = np.sum(rate * rate, axis=-1)[..., None]
        angle = np.sqrt(squared)
        half_sinc = np.divide(np.sin(0.5 * angle), angle, out=np.full_like(angle, 0.5), where=angle != 0.0)
        result[..., iq.stop - 4 : iq.stop] = _times(turn, rate * half_sinc, np.cos(0.5 * angle))
        if link.joint.type == "floating":
            speed = v[..., iv.start : iv.start + 3]
            across = np.cross(rate, speed)
            screw = speed + 2.0 * half_sinc**2 * across + _cubic(squared) * np.cross(rate, across)
            result[..., iq.start : iq.start + 3] = q[..., iq.start : iq.start + 3] + _turned(turn, screw)
    return result


def difference(robot: RobotOrName, q: npt.ArrayLike, q_next: npt.ArrayLike) -> Array:
    """The constant velocity (..., nv), rad/s or m/s, that leads from q (..., nq) to q_next (..., nq), rad or m, in one
    second, by the shorter turn: `integrate(robot, q, difference(robot, q, q_next))` is q_next, up to the sign of its
    quaternions. The leading axes are broadcast. robot: also a name or a path.

    Inverse of `integrate` (Solà, Deray & Atchuthan 2018, eqs. 133, 173). Raises ValueError: the leading axes do not go
    together.
    """
    robot, q, q_next = robot_of(robot), np.asarray(q, np.float64), np.asarray(q_next, np.float64)
    batch = np.broadcast_shapes(q.shape[:-1], q_next.shape[:-1])
    result = np.empty((*batch, robot.nv))
    for link, iq, iv in robot.slices():
        if not link.joint.has_quaternion:
            result[..., iv] = q_next[..., iq] - q[..., iq]
            continue
        place = slice(iq.stop - 4, iq.stop)
        back = q[..., place] * np.array([-1.0, -1.0, -1.0, 1.0])
        turn = _times(back, q_next[..., place][..., :3], q_next[..., place][..., 3:])
        turn = np.where(turn[..., 3:] < 0.0, -turn, turn)
        sine = np.linalg.norm(turn[..., :3], axis=-1, keepdims=True)
        angle = 2.0 * np.arctan2(sine, turn[..., 3:])
        rate = turn[..., :3] * np.divide(angle, sine, out=np.full_like(sine, 2.0), where=sine > 0.0)
        result[..., iv.stop - 3 : iv.stop] = rate
        if link.joint.type == "floating":
            at = slice(iq.start, iq.start + 3)
            moved = _turned(back, q_next[..., at] - q[..., at])
            across = np.cross(rate, moved)
            result[..., iv.start : iv.start + 3] = moved - 0.5 * across + _unscrew(angle) * np.cross(rate, across)
    return result


def _unscrew(angle: Array) -> Array:
    """(1 - θ/2 cot(θ/2)) / θ² of θ; by its series where the difference would cancel."""
    squared = angle * angle
    series = 1 / 12 + squared / 720 * (1 + squared / 42 * (1 + squared / 40))
    half = 0.5 * angle
    cotangent = np.divide(half, np.tan(half), out=np.ones_like(half), where=half > 0.0)
    return np.divide(1.0 - cotangent, squared, out=series, where=np.abs(squared) > 0.1)


SMALL_TURN = 0.5
"""rad: `advance` takes power series of the angle up to here, and beyond it closed forms, which divide by the angle."""


def advance(robot: Robot, q: Scalars, v: Scalars) -> Array:
    """`integrate` over any scalar: q (nq,) and v (nv,) to (nq,), quaternions of length 1, exact to rounding for every
    turn. Both forms are computed and one is selected, so that it can be traced and built."""
    result = zeros(robot.nq)
    for link, iq, iv in robot.slices():
        if not link.joint.has_quaternion:
            result[iq] = array(list(q[iq])) + array(list(v[iv]))
            continue
        turn, rate = array(list(q[iq.stop - 4 : iq.stop])), array(list(v[iv.stop - 3 : iv.stop]))
        half_sinc, cosine, first, second = _factors(rate @ rate)
        axis, w = turn[:3], turn[3]
        vector = rate * half_sinc
        moved = [*(vector * w + axis * cosine + cross(axis, vector)), w * cosine - axis @ vector]
        # what rounding has taken of the length comes back
        length = array(moved) @ array(moved)
        result[iq.stop - 4 : iq.stop] = array(moved) * (1.5 - length * 0.5)
        if link.joint.type == "floating":
            speed = array(list(v[iv.start : iv.start + 3]))
            across = cross(rate, speed)
            screw = speed + across * first + cross(rate, across) * second
            place = slice(iq.start, iq.start + 3)
            result[place] = array(list(q[place])) + rotation_of(list(turn)) @ screw
    return result


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
    """Σ (-x)^k / (2k + start)!, over so many terms."""
    first, *others = [(-1) ** k / math.factorial(2 * k + start) for k in reversed(range(terms))]
    result: Scalar = first
    for coefficient in others:
        result = result * x + coefficient
    return result


def bracket(robot: Robot, u: Scalars, v: Scalars) -> Array:
    """[u, v] (nv,) of two velocities (nv,) over any scalar: what is left of moving by u, then v, then back. Zero but
    for spherical and floating joints."""
    result = zeros(robot.nv)
    for link, _, iv in robot.slices():
        if link.joint.has_quaternion:
            turns = slice(iv.stop - 3, iv.stop)
            a, b = array(list(u[turns])), array(list(v[turns]))
            result[turns] = cross(a, b)
            if link.joint.type == "floating":
                moves = slice(iv.start, iv.start + 3)
                result[moves] = cross(a, array(list(v[moves]))) + cross(array(list(u[moves])), b)
    return result


def directions_of(robot: Robot, q: Scalars, rates: Scalars) -> Array:
    """The velocity (nv,) with which a configuration (nq,) moves whose numbers change at these rates (nq,): the left
    inverse of `direction_matrix`."""
    result = zeros(robot.nv)
    moved = array(list(rates))
    matrix = direction_matrix(robot, q)
    for link, iq, iv in robot.slices():
        block = matrix[iq, iv].T
        if link.joint.has_quaternion:
            block[-3:, -4:] = block[-3:, -4:] * 4.0
        result[iv] = block @ moved[iq]
    return result


def along_columns(robot: Robot, q: Scalars, rates: Array) -> Array:
    """`directions_of` each column of rates (nq, columns): (nv, columns)."""
    return np.stack([directions_of(robot, q, column) for column in rates.T], axis=1)


def entry_weights(robot: Robot, q: Scalars, lam: Array) -> Array:
    """Weights (nq,) of a configuration's numbers from those of its directions (nv,): `directions_of` transposed.
    Those of a quaternion are orthogonal to it."""
    if not robot.quaternions():
        return lam
    return along_columns(robot, q, np.eye(robot.nq).astype(object)).T @ lam


def direction_matrix(robot: Robot, q: Scalars) -> Array:
    """∂q/∂v (nq, nv) of `integrate` at v = 0, over any scalar: how fast the numbers of q move along each velocity."""
    matrix = zeros(robot.nq, robot.nv)
    for link, iq, iv in robot.slices():
        if not link.joint.has_quaternion:
            matrix[iq, iv] = 1.0
            continue
        x, y, z, w = (value * 0.5 for value in q[iq.stop - 4 : iq.stop])
        turn = array([[w, -z, y], [z, w, -x], [-y, x, w], [-x, -y, -z]])
        matrix[iq.stop - 4 : iq.stop, iv.stop - 3 : iv.stop] = turn
        if link.joint.type == "floating":
            matrix[iq.start : iq.start + 3, iv.start : iv.start + 3] = rotation_of(list(q[iq.stop - 4 : iq.stop]))
    return matrix


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
