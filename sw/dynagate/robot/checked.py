"""What is taken for a robot."""

from __future__ import annotations

from typing import Any

from dynagate.base.errors import ArgumentTypeError
from dynagate.robot.model import Robot


def check_robot(robot: Any) -> None:
    """Raises TypeError: it is none, but the name of one, say."""
    if not isinstance(robot, Robot):
        raise ArgumentTypeError(
            f"robot is {robot!r:.60}; expected a Robot, such as dynagate.robots.load('two_joint_arm') or "
            "dynagate.Robot.from_urdf('arm.urdf')"
        )
