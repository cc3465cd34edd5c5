"""What position-based steps, and those that they are compared with, are given: checked before any work."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.base.arguments import ABOVE_ZERO, number, real
from dynagate.base.errors import Error
from dynagate.integrators.implicit.position_based_inputs import PositionBasedError as PositionBasedError
from dynagate.integrators.implicit.position_based_inputs import check_kind as check_kind
from dynagate.integrators.implicit.position_based_inputs import check_whole as check_whole
from dynagate.robot import Robot

from examples.papers.position_based.joints import Joints
from examples.papers.position_based.links import Floats


class PositionBasedWarning(UserWarning):
    """Steps that may not or did not converge. The text has the measured limit."""


class Inputs(NamedTuple):
    """q0 (batch, nq), qd0 (batch, nv), tau and target (batch, steps, nv); single: one start without a batch's axis."""

    q0: Floats
    qd0: Floats
    tau: Floats
    target: Floats
    single: bool


def check_positive(name: str, value: object) -> None:
    """Raise PositionBasedError if a value is not a finite number above 0."""
    number(f"{name} is ", value, ABOVE_ZERO, PositionBasedError)


def check_inputs(
    robot: Robot,
    q0: npt.ArrayLike,
    qd0: npt.ArrayLike | None,
    steps: int,
    *,
    tau: npt.ArrayLike | None = None,
    target: npt.ArrayLike | None = None,
) -> Inputs:
    """Arrays of floats in full shape; 0 where there are none. Raises PositionBasedError."""
    check_whole("steps", steps)
    nq, nv = robot.nq, robot.nv
    single = np.ndim(_numbers("q0", q0)) == 1
    batch = 1 if single else len(np.atleast_1d(_numbers("q0", q0)))
    if batch == 0:
        raise PositionBasedError(f"q0 has shape {np.shape(q0)}; expected one start or more")
    start = _in_shape("q0", q0, (batch, nq))
    torque, hold = (_in_shape(name, v, (batch, steps, nv)) for name, v in (("tau", tau), ("target", target)))
    for part in robot.quaternions():
        if np.abs(np.linalg.norm(start[:, part], axis=-1) - 1.0).max() > 1e-6:
            raise PositionBasedError(f"q0[{part.start}:{part.stop}] is a quaternion whose length is not 1")
    turning = [d for link, _, part in robot.slices() if link.joint.has_quaternion for d in range(part.start, part.stop)]
    for name, values in (("tau", torque), ("target", hold)):
        if np.any(values[..., turning]):
            raise PositionBasedError(f"{name} is not 0 at a spherical or floating joint, where positions give no angle")
    return Inputs(start, _in_shape("qd0", qd0, (batch, nv)), torque, hold, single)


def check_single(
    robot: Robot, q0: npt.ArrayLike, qd0: npt.ArrayLike | None, steps: int, **forces: npt.ArrayLike | None
) -> Inputs:
    """As `check_inputs`, of one trajectory: q0 (nq,), qd0 (nv,), tau and target (steps, nv)."""
    if np.ndim(_numbers("q0", q0)) != 1:
        raise PositionBasedError(f"q0 has shape {np.shape(q0)}; expected ({robot.nq},), one start")
    inputs = check_inputs(robot, q0, qd0, steps, **forces)
    return Inputs(inputs.q0[0], inputs.qd0[0], inputs.tau[0], inputs.target[0], True)


def _numbers(name: str, values: npt.ArrayLike | None) -> Floats:
    try:
        return real(name, values).astype(np.float64, copy=False)
    except Error as error:
        raise PositionBasedError(str(error)) from None


def _in_shape(name: str, values: npt.ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    """An array of its own in this shape, from one that has the shape or its last axes; zeros for None."""
    if values is None:
        return np.zeros(shape)
    array = _numbers(name, values)
    try:
        full = np.array(np.broadcast_to(array, shape))
    except ValueError:
        full = None
    if full is None or array.ndim == 0 or array.shape[-1] != shape[-1]:
        raise PositionBasedError(f"{name} has shape {array.shape}; expected {shape} or its last axes")
    if not np.isfinite(full).all():
        raise PositionBasedError(f"{name} has a number that is not finite")
    return full


def check_servo(joints: Joints, target: Floats) -> None:
    """Raises PositionBasedError: targets that nothing pulls to."""
    if not np.any(target):
        return
    if not np.any(joints.stiffness):
        raise PositionBasedError("target is not 0 and there is no servo; expected servo=Servo(stiffness, damping)")
    loose = np.any(target, axis=tuple(range(np.ndim(target) - 1))) & (joints.stiffness == 0.0)
    if loose.any():
        raise PositionBasedError(
            f"target is not 0 at degree of freedom {np.argmax(loose)}, which no servo holds; expected 0 there, or the "
            "joint's name among the servo's joints"
        )
