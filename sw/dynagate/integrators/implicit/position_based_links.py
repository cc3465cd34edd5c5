"""Requirements of position-based steps for a robot, and the scales of its forces."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.dynamics.recursions.invertible import check_invertible
from dynagate.dynamics.tree import tree_of
from dynagate.robot.model import Robot

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def check_robot(robot: Robot) -> None:
    """Check that a robot can have position-based steps.

    Raises:
        ArgumentTypeError: The argument is not a robot.
        ArgumentError: The robot cannot move.
        RobotError: The robot has mimic joints, or joints that move no mass.
    """
    if not isinstance(robot, Robot):
        raise ArgumentTypeError(f"robot is a {type(robot).__name__}; expected a dynagate.Robot", code="DG-ROLLOUT-052")
    robot.check_uncoupled("the position-based integrator")
    if robot.nv == 0:
        raise ArgumentError(
            f"robot '{robot.name}' has no joint that moves; expected one or more", code="DG-ROLLOUT-053"
        )
    check_invertible(tree_of(robot))


def sizes(robot: Robot) -> Floats:
    """Return the unit of each degree of freedom, (nv,): 1 for a distance, the robot's reach in m for an angle."""
    directions = [k for link in robot.links for k in link.joint.kind.directions]
    return np.where(np.array(directions) >= 3, 1.0, reach(robot))


def reach(robot: Robot) -> float:
    """Return the longest path in m along the links, from the first joint to the far side of a link; 1 without any
    extent.
    """
    way = np.zeros(len(robot.links))
    extent = np.zeros(len(robot.links))
    for i, link in enumerate(robot.links):
        if link.parent >= 0:
            way[i] = way[link.parent] + float(np.linalg.norm(link.joint.translation))
        spread = float(np.trace(np.array(link.second_moment())))
        extent[i] = way[i] + (np.sqrt(spread / link.mass) if link.mass > 0.0 else 0.0)
    return float(extent.max()) or 1.0
