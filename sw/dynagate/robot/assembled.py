"""Methods of a robot that add, remove, order and rename its parts, and write it as URDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from dynagate.robot import assembly
from dynagate.robot.edit import EditableTree
from dynagate.robot.tree import RobotTree, Tree
from dynagate.robot.vectors import IDENTITY
from dynagate.robot.writing import urdf_of, write_urdf


class AssembledTree(EditableTree):
    """A tree of links with methods that change its parts."""

    def with_robot(
        self: Tree,
        other: RobotTree,
        on: str,
        translation: Sequence[float] = (0.0, 0.0, 0.0),
        rotation: Any = IDENTITY,
        *,
        prefix: str = "",
    ) -> Tree:
        """Return the robot with another robot, such as a gripper or a tool, attached to a frame.

        Args:
            other: Robot to attach. If its root floats, as `floating_base=True` reads it, the root is attached with its
                mass. A fixed base has no mass, because it does not move.
            on: Name of the frame or link that carries it.
            translation: Origin (3,) of the other robot's base in that frame, m.
            rotation: Rotation (3, 3) from the axes of the other base to those of that frame.
            prefix: Text that is put before all names of the other robot.

        Returns:
            The robot, with its own joints first and with its own gravity.

        Raises:
            RobotError: There is no such frame, both robots have a part with the same name, or the numbers are not a
                pose.
            ArgumentTypeError: An argument has another type.
        """
        return assembly.with_robot(self, other, on, translation, rotation, prefix)

    def without(self: Tree, *names: str) -> Tree:
        """Return the robot without some links and everything they carry, and without some frames.

        Constraints on a removed part are removed too.

        Args:
            names: Names of links or frames.

        Raises:
            RobotError: There is no such link or frame, no link would remain, or a remaining joint mimics a removed one.
        """
        return assembly.without(self, names)

    def with_root(self: Tree, link: str) -> Tree:
        """Return a floating robot with its floating joint above another link.

        The motions and the coordinates of all other joints stay the same. Links between the old and the new root get
        new frames, at the joint that leads to the previous link.

        Args:
            link: Name of the link that becomes the root.

        Raises:
            RobotError: There is no such link, the base is fixed, or a joint between the roots has several axes.
        """
        return assembly.with_root(self, link)

    def with_names(self: Tree, names: Mapping[str, str] | None = None, prefix: str = "") -> Tree:
        """Return the robot with other names.

        Args:
            names: New names by old names of links, joints and frames. A link and a joint with the same name both
                change.
            prefix: Text that is put before all names.

        Raises:
            RobotError: A name is unknown, two parts would have the same name, or the robot has variable parameters.
            ArgumentTypeError: `names` is not a mapping of texts.
        """
        return assembly.with_names(self, {} if names is None else names, prefix)

    def with_locked(self: Tree, positions: Mapping[str, float]) -> Tree:
        """Return the robot with some joints locked; the links below are merged into the links that carry them.

        Args:
            positions: Positions by joint, rad or m. Joints that mimic a locked joint are locked with it.

        Raises:
            RobotError: There is no such joint, it has several degrees of freedom or mimics another joint, a joint
                equality constrains it, or no joint would move.
            ArgumentTypeError: `positions` is not a mapping.
        """
        return assembly.with_locked(self, positions)

    def with_scale(self: Tree, length: float, mass: float | None = None) -> Tree:
        """Return the robot in another size.

        Damping, friction, armature and limits stay the same, except position limits of sliding joints.

        Args:
            length: Factor for all lengths, above 0.
            mass: Factor for all masses; length³ by default, which keeps the density.

        Raises:
            RobotError: A factor is not finite or not above 0.
        """
        return assembly.with_scale(self, length, mass)

    def to_urdf(self, path: str | PathLike[str] | None = None) -> str:
        """Return the robot as URDF text, and write it to a file if a path is passed.

        Reading the file gives the same dynamics. Armature is written as the rotor inertia of a transmission, as in
        Drake's files. A RobotWarning lists what URDF cannot express, such as contacts.

        Args:
            path: File to write, or None.

        Raises:
            RobotError: Two parts have the same name, or the file cannot be written.
        """
        text = urdf_of(self)
        if path is not None:
            write_urdf(text, path)
        return text
