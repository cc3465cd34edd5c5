"""Robots: the immutable tree of links, the parsers of URDF, MJCF and xacro, and the robots that ship with the
package.
"""

from dynagate.robot import robots
from dynagate.robot.constraint import Constraint
from dynagate.robot.errors import RobotError, RobotWarning
from dynagate.robot.model import Robot
from dynagate.robot.parts import Frame, Joint, Link, Mimic
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
