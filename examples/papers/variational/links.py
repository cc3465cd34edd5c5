"""A robot as arrays that compiled loops over its links read, and which robots have such arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from dynagate.dynamics import Tree
from dynagate.dynamics.spatial import inertia_from_second_moment
from dynagate.robot import Robot, RobotError


class Links(NamedTuple):
    """Links parents first, each frame at its joint with the joint's axis as z.

    parent (links,): -1 for the base; slides (links,): whether the joint is prismatic; rotation (links, 9) and offset
    (links, 3): pose of the joint frame in the parent's; mass, first (links, 3) and inertia (links, 9): about the
    frame's origin; armature, damping (links,); gravity (3,): acceleration of free fall in the base frame.
    """

    parent: np.ndarray
    slides: np.ndarray
    rotation: np.ndarray
    offset: np.ndarray
    mass: np.ndarray
    first: np.ndarray
    inertia: np.ndarray
    armature: np.ndarray
    damping: np.ndarray
    gravity: np.ndarray


def check_joints(robot: Robot) -> None:
    """Raises RobotError that names the first joint which is neither revolute nor prismatic."""
    robot.check_uncoupled("the variational baselines")
    for link in robot.links:
        if not (link.joint.kind.turning or link.joint.kind.sliding):
            raise RobotError(
                f"joint '{link.joint.name}' of robot '{robot.name}' is {link.joint.type}; the baseline takes "
                "revolute, continuous, prismatic joints, and dynagate.Rollout(robot, integrator='variational') all"
            )


def links_of(robot: Robot) -> Links:
    """The arrays of a robot. Inertias stay with their own links: the discrete Lagrangian of a link that hands mass on
    to its neighbor is another. Raises RobotError: see `check_joints`."""
    check_joints(robot)
    tree = Tree(robot, reduced=False)
    joints = [link.joint for link in tree.robot.links]

    def rows(values: Any) -> np.ndarray:
        return np.array(values, dtype=np.float64).reshape(len(joints), -1)

    return Links(
        np.array(tree.parents, dtype=np.int64),
        np.array([joint.kind.sliding for joint in joints]),
        rows([np.ravel(joint.rotation) for joint in joints]),
        rows([joint.translation for joint in joints]),
        rows([inertia.mass for inertia in tree.inertias])[:, 0],
        rows([inertia.first for inertia in tree.inertias]),
        rows([inertia_from_second_moment(inertia.second).ravel() for inertia in tree.inertias]),
        rows([joint.armature for joint in joints])[:, 0],
        rows([joint.damping for joint in joints])[:, 0],
        np.array(robot.gravity, dtype=np.float64),
    )
