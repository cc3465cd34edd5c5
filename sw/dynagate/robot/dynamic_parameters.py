"""Dynamic parameters of a robot as one array: what torques are linear in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dynagate.base.arguments import FINITE, numbers
from dynagate.base.arrays import Array
from dynagate.robot.errors import RobotError
from dynagate.robot.inertia import check_inertia
from dynagate.robot.parts import Link
from dynagate.robot.tree import RobotTree, Tree
from dynagate.robot.variable import ARMATURE, COUNT, DAMPING, DYNAMIC, FRICTION, MOMENTS
from dynagate.robot.vectors import matrix3, vector3

OF_JOINT = (ARMATURE, DAMPING, FRICTION)
"""Parameters of a link's joint, after the inertial ones."""

FRICTION_SPEED = 0.01
"""Speed, rad/s or m/s, at which 0.7 of the friction acts if the robot has none yet."""


def dynamic_parameters(robot: RobotTree) -> Array:
    """Return the numbers (links, 13) of `Robot.dynamic_parameters`."""
    joints = [link.joint for link in robot.links]
    rubs = bool(robot.friction_speed)
    of_joints = [[joint.armature, joint.damping, joint.friction if rubs else 0.0] for joint in joints]
    return np.hstack([[link.parameters() for link in robot.links], of_joints])


def with_dynamic_parameters(robot: Tree, values: Any) -> Tree:
    """Return the robot with other numbers (links, 13). Raises RobotError as `Robot.with_dynamic_parameters` does."""
    rows = numbers("dynamic parameters are ", values, (len(robot.links), DYNAMIC), FINITE, RobotError)
    links = tuple(_changed(link, row) for link, row in zip(robot.links, rows, strict=True))
    speed = robot.friction_speed or (FRICTION_SPEED if rows[:, -1].any() else 0.0)
    if not speed:  # friction of the file, which no function has
        links = tuple(
            replace(link, joint=replace(link.joint, friction=own.joint.friction))
            for link, own in zip(links, robot.links, strict=True)
        )
    return replace(robot, links=links, friction_speed=speed)


def _changed(link: Link, row: Array) -> Link:
    """Return a link with the numbers (13,) of a row, its own where they are the same to rounding."""
    for name, value in zip(OF_JOINT, row[COUNT:], strict=True):
        if value < 0.0:
            raise RobotError(
                f"joint '{link.joint.name}' has {name} {value:g}; expected a number of 0 or more", code="DG-ROBOT-032"
            )
    armature, damping, friction = map(float, row[COUNT:])
    joint = replace(link.joint, armature=armature, damping=damping, friction=friction)
    own = link.parameters()
    if (np.abs(row[:COUNT] - own) <= 1e-15 * np.abs(own).max()).all():
        return replace(link, joint=joint)
    mass, center = float(row[0]), row[1:4] / row[0] if row[0] > 0.0 else row[1:4]
    about = np.zeros((3, 3))
    for (a, b), value in zip(MOMENTS, row[4:COUNT], strict=True):
        about[a, b] = about[b, a] = value
    inertia = matrix3(about - mass * (center @ center * np.eye(3) - np.outer(center, center)))
    check_inertia(link.name, mass, vector3(center), inertia)
    return replace(link, joint=joint, mass=mass, com=vector3(center), inertia=inertia)
