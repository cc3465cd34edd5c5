"""The option `joint_bounds` of solvers."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynagate.base.arguments import Accepted, one_or_several
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.control.joint_bounds import JointBounds
from dynagate.robot import Robot

POSITIONS = Accepted(
    "positions, or positions and speeds, infinite for none",
    "positions, then speeds, infinite for none",
    -np.inf,
    np.inf,
)


def joint_bounds_of(robot: Robot, bounds: Any) -> JointBounds | None:
    """Return bounds of positions and speeds from the argument of a solver.

    Args:
        robot: The robot.
        bounds: None, True for the robot's limits, one number or (nv,) for positions in both directions, (2 nv,) for
            speeds too, or a pair of lowest and highest; rad or m, rad/s or m/s.

    Returns:
        The bounds; None if no joint has any.

    Raises:
        ArgumentError: They have another shape or order, leave no range for a joint, or are for a joint whose position
            is no single number.
    """
    if bounds is None:
        return None
    n = robot.nv
    if bounds is True:
        low, high = _limits(robot)
    elif isinstance(bounds, tuple) and len(bounds) == 2:
        low, high = (_of_state(x, n, none) for x, none in zip(bounds, (-np.inf, np.inf), strict=True))
    else:
        high = _of_state(bounds, n, np.inf)
        low = -high
    if not ((low < high) & (low < np.inf) & (high > -np.inf)).all():
        raise ArgumentError(
            f"joint_bounds of {low.tolist()} to {high.tolist()}; expected lowest and highest ones",
            code="DG-ROLLOUT-003",
        )
    for joint, _, v in robot.moving():
        if not joint.kind.single and np.isfinite([low[v], high[v]]).any():
            raise ArgumentError(
                f"joint_bounds of '{joint.name}', whose position is no number; expected infinity there",
                code="DG-ROLLOUT-004",
            )
    joints = JointBounds.of(robot, low, high)
    return joints if len(joints.places) else None


def _limits(robot: Robot) -> tuple[Array, Array]:
    """Return the robot's lower and upper limits of positions and velocities, (2 nv,) each."""
    high = np.append(np.full(robot.nv, np.inf), robot.velocity)
    low = -high
    for joint, q, v in robot.moving():
        if joint.kind.single:
            low[v], high[v] = robot.lower[q], robot.upper[q]
    return low, high


def _of_state(value: Any, n: int, none: float) -> Array:
    """Return bounds (2 nv,) of positions and speeds at one end; `none` stands for no bound."""
    array = one_or_several("joint_bounds=", value, (n, 2 * n), POSITIONS)
    return array if array.shape == (2 * n,) else np.append(np.broadcast_to(array, (n,)), np.full(n, none))
