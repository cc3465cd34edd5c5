"""Conversion of an argument, a robot, a name or a path, to a robot."""

from __future__ import annotations

from os import PathLike

from dynagate.base.errors import ArgumentTypeError
from dynagate.robot import robots
from dynagate.robot.model import Robot

RobotOrName = Robot | str | PathLike[str]
"""A robot, the name of one that ships, or the path of its URDF file."""


def robot_of(robot: RobotOrName) -> Robot:
    """Return a robot, or load the one that a name or path refers to (`robots.load`).

    Raises:
        ArgumentTypeError: The argument is neither a robot, nor a text, nor a path.
        RobotError: There is no such robot, or its file cannot be read.
    """
    if isinstance(robot, Robot):
        return robot
    if isinstance(robot, str | PathLike):
        return robots.load(robot)
    raise ArgumentTypeError(
        f"robot is {robot!r:.60}; expected a Robot, a name such as 'two_joint_arm', or the path of a URDF file",
        code="DG-ROBOT-026",
    )
