"""Configurations and the velocities that lead from one to another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.dynamics.joints import rotation_of
from dynagate.dynamics.spatial import Scalar, array, cross, zeros
from dynagate.robot import Robot

Array = npt.NDArray[Any]
Scalars = Sequence[Scalar] | Array


def neutral(robot: Robot) -> Array:
    """The configuration q (nq,) of a robot with every joint at zero, rad or m, and every quaternion the identity."""
    q = np.zeros(robot.nq)
    q[[part.stop - 1 for part in robot.quaternions()]] = 1.0
    return q


def normalised(robot: Robot, q: Array) -> Array:
    """q (..., nq), with every quaternion brought to length 1 in place."""
    for part in robot.quaternions():
        q[..., part] /= np.linalg.norm(q[..., part], axis=-1, keepdims=True)
    return q


def integrate(robot: Robot, q: npt.ArrayLike, v: npt.ArrayLike) -> Array:
    """The configurations (..., nq) that a robot reaches from q (..., nq), rad or m, with the constant velocity v
    (..., nv), rad/s or m/s, in one second. The leading axes are broadcast.

    This is what a derivative by q means: column j is the slope along v = ε e_j. A quaternion is multiplied from the
    right by exp(ω/2); a floating joint follows the screw (linear, angular) of its own frame (Solà, Deray & Atchuthan,
    "A micro Lie theory", 2018, eqs. 172-174). Complex v of tiny size gives complex steps.

    Raises ValueError: the leading axes do not go together.
    """
    q, v = np.asarray(q), np.asarray(v)
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


SMALL_TURN = 1.5
"""rad: `advance` is exact to rounding for turns up to this. Its error grows to 4e-13 at twice this."""


def advance(robot: Robot, q: Scalars, v: Scalars) -> Array:
    """`integrate` over any scalar, by power series of the angle: q (nq,) and v (nv,) to (nq,), quaternions of length 1.

    A quaternion may turn by SMALL_TURN. Sums and products alone, so that it can be traced and built.
    """
    result = zeros(robot.nq)
    for link, iq, iv in robot.slices():
        if not link.joint.has_quaternion:
            result[iq] = array(list(q[iq])) + array(list(v[iv]))
            continue
        turn, rate = array(list(q[iq.stop - 4 : iq.stop])), array(list(v[iv.stop - 3 : iv.stop]))
        squared = rate @ rate
        half_sinc = _series(squared * 0.25, [(-1) ** k / math.factorial(2 * k + 1) for k in range(9)]) * 0.5
        cosine = _series(squared * 0.25, [(-1) ** k / math.factorial(2 * k) for k in range(9)])
        axis, w = turn[:3], turn[3]
        vector = rate * half_sinc
        moved = [*(vector * w + axis * cosine + cross(axis, vector)), w * cosine - axis @ vector]
        # what rounding has taken of the length comes back
        length = array(moved) @ array(moved)
        result[iq.stop - 4 : iq.stop] = array(moved) * (1.5 - length * 0.5)
        if link.joint.type == "floating":
            speed = array(list(v[iv.start : iv.start + 3]))
            across = cross(rate, speed)
            # 2 half_sinc² = (1 - cos θ) / θ²
            first = _series(squared, [(-1) ** k / math.factorial(2 * k + 2) for k in range(11)])
            second = _series(squared, [(-1) ** k / math.factorial(2 * k + 3) for k in range(11)])
            screw = speed + across * first + cross(rate, across) * second
            place = slice(iq.start, iq.start + 3)
            result[place] = array(list(q[place])) + rotation_of(list(turn)) @ screw
    return result


def _series(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """Σ coefficient_k x^k."""
    result: Scalar = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
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
