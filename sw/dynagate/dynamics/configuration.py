"""Configurations of a robot, and the velocities that lead from one configuration to another.

Joints with quaternions make the configuration space a manifold: q has nq numbers and velocities have nv. `integrate`
and `difference` are the manifold's plus and minus, for arrays. `advance` and `between` are the same over any scalar.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_unit_vectors, real
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.dynamics.batch import batched
from dynagate.dynamics.joint_motions import motion_of
from dynagate.dynamics.spatial import Scalar, array, zeros
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName, robot_of

Scalars = Sequence[Scalar] | Array


@explained
def neutral(robot: RobotOrName) -> Array:
    """Return the configuration with every joint at zero and every quaternion at the identity.

    Args:
        robot: A robot, the name of one that ships, or the path of a URDF file.

    Returns:
        The configuration q (nq,), rad or m.
    """
    robot = robot_of(robot)
    q = np.zeros(robot.nq)
    q[[part.stop - 1 for part in robot.quaternions()]] = 1.0
    return q


def normalized(robot: Robot, q: Array) -> Array:
    """Scale every quaternion in q (..., nq) to length 1, in place, and return q."""
    for part in robot.quaternions():
        q[..., part] /= np.linalg.norm(q[..., part], axis=-1, keepdims=True)
    return q


def _rows(label: str, value: npt.ArrayLike, size: int, *, accepts_complex: bool = False) -> Array:
    """Return an array (..., size) of finite numbers. Raise ArgumentError or ArgumentTypeError if it has another shape
    or kind, a mask, or a number that is not finite."""
    is_complex = accepts_complex and isinstance(value, np.ndarray) and value.dtype.kind == "c"
    array = value if is_complex and not isinstance(value, np.ma.MaskedArray) else real(label, value)
    assert isinstance(array, np.ndarray)
    if array.shape[-1:] != (size,):
        raise ArgumentError(f"{label} has shape {array.shape}; expected (..., {size})", code="DG-FUNCTION-001")
    if not np.isfinite(array).all():
        raise ArgumentError(f"{label} is not finite", code="DG-FUNCTION-002")
    return array


def _configurations(robot: Robot, label: str, value: npt.ArrayLike) -> Array:
    """Return q (..., nq) as an array of finite numbers. Raise ArgumentError if a quaternion has another length than
    1.
    """
    array = _rows(label, value, robot.nq)
    units = [(part.start, part.stop) for part in robot.quaternions()]
    check_unit_vectors(label, units, array.reshape(-1, robot.nq))
    return array


def _shared_axes(first: tuple[str, Array], second: tuple[str, Array]) -> tuple[int, ...]:
    """Return the broadcast leading axes of two arrays. Raise ArgumentError if they cannot be broadcast."""
    (a, x), (b, y) = first, second
    try:
        return np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    except ValueError:
        raise ArgumentError(
            f"{a} has shape {x.shape} and {b} {y.shape}; expected leading axes that numpy broadcasts",
            code="DG-FUNCTION-003",
        ) from None


@explained
def integrate(robot: RobotOrName, q: npt.ArrayLike, v: npt.ArrayLike) -> Array:
    """Return the configurations that a robot reaches by moving with a constant velocity for one second.

    Derivatives with respect to q are defined by this function: column j is the slope along v = ε e_j. A quaternion is
    multiplied from the right by exp(ω/2). A floating joint follows the screw (linear, angular) of its own frame.

    Args:
        robot: A robot, the name of one that ships, or the path of a URDF file.
        q: Configurations (..., nq), rad or m, with quaternions of length 1. The leading axes are broadcast.
        v: Velocities (..., nv), rad/s or m/s. Complex velocities of tiny size give complex steps.

    Returns:
        Configurations (..., nq), rad or m.

    Raises:
        ValueError: An array has a wrong shape, leading axes that cannot be broadcast, or a number that is not finite;
            or a quaternion has another length than 1.
        TypeError: An array is masked, or does not hold numbers; q is complex.

    Reference:
        Solà, Deray & Atchuthan, "A micro Lie theory", 2018, eqs. 172-174.
    """
    robot = robot_of(robot)
    configurations = _configurations(robot, "q", q)
    velocities = _rows("v", v, robot.nv, accepts_complex=True)
    _shared_axes(("q", configurations), ("v", velocities))
    return integrated(robot, configurations, velocities)


def integrated(robot: Robot, q: Array, v: Array) -> Array:
    """Return `integrate` without checks: q (..., nq) and v (..., nv) are arrays of finite numbers."""
    batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
    result = np.empty((*batch, robot.nq), np.result_type(q, v, np.float64))
    for link, iq, iv in robot.slices():
        if link.joint.nv:
            result[..., iq] = batched(motion_of(link.joint.type).advanced, q[..., iq], v[..., iv])
    return result


@explained
def difference(robot: RobotOrName, q: npt.ArrayLike, q_next: npt.ArrayLike) -> Array:
    """Return the constant velocity that leads from one configuration to another in one second.

    This is the inverse of `integrate`: `integrate(robot, q, difference(robot, q, q_next))` is q_next, up to the sign of
    its quaternions. Rotations take the shorter way, by at most π.

    Args:
        robot: A robot, the name of one that ships, or the path of a URDF file.
        q: Configurations (..., nq), rad or m, with quaternions of length 1. The leading axes are broadcast.
        q_next: Configurations (..., nq), with the same units and leading axes.

    Returns:
        Velocities (..., nv), rad/s or m/s.

    Raises:
        ValueError: An array has a wrong shape, leading axes that cannot be broadcast, or a number that is not finite;
            or a quaternion has another length than 1.
        TypeError: An array is masked, or does not hold real numbers.

    Reference:
        Solà, Deray & Atchuthan, "A micro Lie theory", 2018, eqs. 133 and 173.
    """
    robot = robot_of(robot)
    first, second = _configurations(robot, "q", q), _configurations(robot, "q_next", q_next)
    batch = _shared_axes(("q", first), ("q_next", second))
    result = np.empty((*batch, robot.nv))
    for link, iq, iv in robot.slices():
        if link.joint.nv:
            result[..., iv] = batched(motion_of(link.joint.type).between, first[..., iq], second[..., iq])
    return result


def advance(robot: Robot, q: Scalars, v: Scalars) -> Array:
    """Return `integrate` over any scalar, accurate to rounding for every rotation angle.

    Both the power series and the closed form are computed and one is selected, so that the function can be traced and
    built.

    Args:
        robot: The robot.
        q: Configuration (nq,), rad or m, with quaternions of length 1.
        v: Velocity (nv,), rad/s or m/s, applied for one second.

    Returns:
        The configuration (nq,).
    """
    result = zeros(robot.nq)
    for link, iq, iv in robot.slices():
        if link.joint.nv:
            result[iq] = motion_of(link.joint.type).advanced(array(list(q[iq])), array(list(v[iv])))
    return result


def between(robot: Robot, q: Scalars, q_next: Scalars) -> Array:
    """Return `difference` of two configurations (nq,) over any scalar, accurate to rounding for every angle below π."""
    result = zeros(robot.nv)
    for link, iq, iv in robot.slices():
        if link.joint.nv:
            result[iv] = motion_of(link.joint.type).between(array(list(q[iq])), array(list(q_next[iq])))
    return result


def bracket(robot: Robot, u: Scalars, v: Scalars) -> Array:
    """Return the Lie bracket [u, v] (nv,) of two velocities (nv,) over any scalar.

    The bracket measures how much the order of two motions matters. It is nonzero only for spherical and floating
    joints.
    """
    result = zeros(robot.nv)
    for link, _, iv in robot.slices():
        if link.joint.nv:
            result[iv] = motion_of(link.joint.type).bracket(array(list(u[iv])), array(list(v[iv])))
    return result


def directions_of(robot: Robot, q: Scalars, rates: Scalars) -> Array:
    """Convert the rates of a configuration's numbers, dq/dt (nq,), to the velocity (nv,) over any scalar.

    The map is the left inverse of `direction_matrix`. For robots without quaternions it is the identity.
    """
    result = zeros(robot.nv)
    moved = array(list(rates))
    for link, iq, iv in robot.slices():
        if link.joint.nv:
            result[iv] = motion_of(link.joint.type).rates(q[iq], moved[iq], link.joint.nv)
    return result


def along_columns(robot: Robot, q: Scalars, rates: Array) -> Array:
    """Apply `directions_of` to each column of rates (nq, columns) and return an array (nv, columns)."""
    return np.stack([directions_of(robot, q, column) for column in rates.T], axis=1)


def entry_weights(robot: Robot, q: Scalars, lam: Array) -> Array:
    """Convert a covector (nv,) over velocities to one (nq,) over the numbers of q: the transpose of `directions_of`.

    The part for a quaternion is orthogonal to that quaternion.
    """
    if not robot.quaternions():
        return lam
    return along_columns(robot, q, np.eye(robot.nq).astype(object)).T @ lam


def direction_matrix(robot: Robot, q: Scalars) -> Array:
    """Return ∂q/∂v (nq, nv) of `integrate` at v = 0 over any scalar: the rate of each number of q along each
    velocity.
    """
    matrix = zeros(robot.nq, robot.nv)
    for link, iq, iv in robot.slices():
        if link.joint.nv:
            matrix[iq, iv] = motion_of(link.joint.type).directions(q[iq], link.joint.nv)
    return matrix
