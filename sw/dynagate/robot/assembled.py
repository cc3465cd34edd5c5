"""A robot's tree with the changes that add, remove, order and name its parts, and its text as URDF."""

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
    """A tree of links with the changes of its parts."""

    def with_robot(
        self: Tree,
        other: RobotTree,
        on: str,
        translation: Sequence[float] = (0.0, 0.0, 0.0),
        rotation: Any = IDENTITY,
        *,
        prefix: str = "",
    ) -> Tree:
        """Return the robot with another robot, a gripper or a tool bolted to a frame.

        Args:
            other: What is attached. If its root floats, as `floating_base=True` reads it, the root is bolted on with
                its mass. A fixed base has no mass, because it does not move.
            on: Name of the frame or link that carries it.
            translation: Place (3,) of the other base in that frame, m.
            rotation: Axes (3, 3) of the other base in that frame.
            prefix: Text before all names of the other robot.

        Returns:
            The robot, with its own joints first. Gravity is that of this robot.

        Raises:
            RobotError: There is no such frame, both robots have a name, or the numbers are no pose.
            ArgumentTypeError: An argument has another type.
        """
        return assembly.with_robot(self, other, on, translation, rotation, prefix)

    def without(self: Tree, *names: str) -> Tree:
        """Return the robot without links and all that they carry, and without frames.

        Constraints that hold a removed part are removed with it.

        Args:
            names: Names of links or frames.

        Raises:
            RobotError: There is no such link or frame, no link would remain, or a joint that remains mimics one that
                would be removed.
        """
        return assembly.without(self, names)

    def with_root(self: Tree, link: str) -> Tree:
        """Return a floating robot whose floating joint is above another link.

        The motions are the same, and so are the coordinates of all other joints. Links between the two roots have
        other frames: each lies where the joint to the link before it lies.

        Args:
            link: Name of the link that becomes the root.

        Raises:
            RobotError: There is no such link, the base is fixed, or a joint between the roots has several axes.
        """
        return assembly.with_root(self, link)

    def with_names(self: Tree, names: Mapping[str, str] | None = None, prefix: str = "") -> Tree:
        """Return the robot with other names.

        Args:
            names: New names by old names of links, joints and frames. A link and a joint of one name both change.
            prefix: Text before all names.

        Raises:
            RobotError: A name is unknown, two parts would have one name, or the robot has variable parameters.
            ArgumentTypeError: The names are no mapping of texts.
        """
        return assembly.with_names(self, {} if names is None else names, prefix)

    def with_locked(self: Tree, positions: Mapping[str, float]) -> Tree:
        """Return the robot with joints that are held, and their links merged into those that carry them.

        Args:
            positions: Positions by joint, rad or m. Joints that mimic a held joint are held with it.

        Raises:
            RobotError: There is no such joint, it has several degrees of freedom or mimics another joint, a joint
                equality holds it, or no joint would move.
            ArgumentTypeError: The positions are no mapping.
        """
        return assembly.with_locked(self, positions)

    def with_scale(self: Tree, length: float, mass: float | None = None) -> Tree:
        """Return the robot in another size.

        Damping, friction, armature and limits other than those of slides stay.

        Args:
            length: Factor of all lengths, above 0.
            mass: Factor of all masses; length³, which keeps the density, unless given.

        Raises:
            RobotError: A factor is not above 0 and finite.
        """
        return assembly.with_scale(self, length, mass)

    def to_urdf(self, path: str | PathLike[str] | None = None) -> str:
        """Return the robot as URDF, and write it to a file on request.

        Reading the file gives the same dynamics. Armature is the rotor inertia of a transmission, as in Drake's files.
        A RobotWarning names what URDF cannot express, such as contacts.

        Args:
            path: File to write.

        Raises:
            RobotError: Two parts have one name, or the file cannot be written.
        """
        text = urdf_of(self)
        if path is not None:
            write_urdf(text, path)
        return text
