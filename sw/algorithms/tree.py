"""The robot as the algorithms see it: z-aligned frames, constants as scalars of plain Python."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from dynagate.robot import Robot, turn_z_to
from dynagate.spatial import Array, Force, Inertia, JointTransform, Motion, Scalar, array, joint_transforms, zeros


class Tree:
    """A robot with every joint's axis turned to z (`Robot.aligned`), and its constants as object arrays.

    parents[i]: -1 for the base; ancestors[i]: from the first link of the chain to i itself; slides[i]: whether joint i
    is prismatic, which makes S = (0, z) instead of (z, 0); base_acceleration: minus gravity (3,), m/s² in the base
    frame; damping[i]: N m s/rad or N s/m; armature[i]: kg m² or kg.
    """

    def __init__(self, robot: Robot) -> None:
        self._turns = [array(turn_z_to(np.array(link.joint.axis))) for link in robot.links]
        robot = robot.aligned()
        self.n = robot.n
        self.links = range(robot.n)
        self.parents = robot.parents
        self.ancestors = [robot.ancestors(i) for i in self.links]
        self.inertias = [
            Inertia(link.mass, array(link.first_moment()), array(link.second_moment())) for link in robot.links
        ]
        self.slides = [link.joint.type == "prismatic" for link in robot.links]
        self.armature = [link.joint.armature for link in robot.links]
        self.damping = [link.joint.damping for link in robot.links]
        self.base_acceleration: Array = array([-g for g in robot.gravity])
        self._rotations = [link.joint.rotation for link in robot.links]
        self._translations = [link.joint.translation for link in robot.links]

    def transforms(self, q: Sequence[Scalar]) -> list[JointTransform]:
        """Pose of every link in its parent."""
        return joint_transforms(self._rotations, self._translations, self.slides, q)

    def joint_torque(self, i: int, force: Force, qd: Scalar, qdd: Scalar) -> Scalar:
        """What joint i must give for a force in its link's own frame, its damping and its rotor."""
        return self.along_axis(i, force) + self.damping[i] * qd + self.armature[i] * qdd

    def external_force(self, i: int, external: Array) -> Force:
        """Row i of the external forces (n, 6), given in the link's frame as the robot's file has it, in axes turned to
        the joint's."""
        return Force(self._turns[i].T @ external[i, :3], self._turns[i].T @ external[i, 3:])

    def along_axis(self, i: int, force: Force) -> Scalar:
        """Sᵢᵀ f for a force in link i's own frame: what the joint itself must give."""
        return force.linear[2] if self.slides[i] else force.angular[2]

    def axis(self, i: int) -> Motion:
        """Sᵢ in link i's own frame."""
        z = array([0.0, 0.0, 1.0])
        return Motion(zeros(3), z) if self.slides[i] else Motion(z, zeros(3))

    def is_ancestor(self, i: int, j: int) -> bool:
        """Whether link i lies on the chain from the base to link j, ends included."""
        return i in self.ancestors[j]
