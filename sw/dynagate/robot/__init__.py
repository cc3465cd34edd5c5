"""Robots: the immutable tree, the URDF reader, and the robots that ship with the package."""

from dynagate.robot import robots
from dynagate.robot.model import Joint, Link, Mimic, Robot, RobotError, RobotWarning

__all__ = ["Joint", "Link", "Mimic", "Robot", "RobotError", "RobotWarning", "robots"]
