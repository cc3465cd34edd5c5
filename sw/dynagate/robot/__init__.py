"""Robots: the immutable tree, the URDF reader, and the robots that ship with the package."""

from dynagate.robot import robots
from dynagate.robot.model import Constraint, Frame, Joint, Link, Mimic, Robot, RobotError, RobotWarning
from dynagate.robot.shapes import Shape, collision_shapes

__all__ = [
    "Constraint",
    "Frame",
    "Joint",
    "Link",
    "Mimic",
    "Robot",
    "RobotError",
    "RobotWarning",
    "Shape",
    "collision_shapes",
    "robots",
]
