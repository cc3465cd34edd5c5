"""`Robot`: an immutable tree of links, parents first, with methods to change, read and print it.

Every moving link holds the joint that connects it to its parent. Lengths are in m, angles in rad, masses in kg and
inertias in kg m². Fixed joints do not appear: `dynagate.robot.urdf` merges their links into the links that carry them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from dynagate.base.changed_options import changed_options
from dynagate.base.explained import explained
from dynagate.base.foreign_names import answering
from dynagate.base.nearest import check_keyword
from dynagate.base.notebook import html_table
from dynagate.robot.assembled import AssembledTree
from dynagate.robot.file_formats import read_file
from dynagate.robot.joint_order import permutation
from dynagate.robot.limits import joint_table, limits, position_limits, summary
from dynagate.robot.macros import read_xacro
from dynagate.robot.mjcf import read_mjcf
from dynagate.robot.options import ReadingOptions
from dynagate.robot.tree import RobotTree
from dynagate.robot.urdf import read_urdf
from dynagate.robot.vectors import Vector3

if TYPE_CHECKING:
    from typing_extensions import Unpack


@explained
@dataclass(frozen=True)
class Robot(AssembledTree):
    """A robot: a tree of links, parents before children, each moved by the joint above it.

    The configuration q (nq,) and the velocity v (nv,) list the joints in the order of the links, which `joint_names`
    returns. `permutation` converts from the order of another library. A spherical joint has a unit quaternion (x, y, z,
    w) and the angular velocity in the link's frame. A floating base is a first link with a floating joint: a position
    and a unit quaternion in the parent's frame, and a (linear, angular) velocity in the link's frame, as in Pinocchio.

    Args:
        name: Name in the file.
        links: Links, each with its joint, its inertia and its parent.
        gravity: Acceleration of free fall in the base frame, m/s².
        rounding: Largest angle, rad, by which the parser rotated a joint or an inertia of the file to make right angles
            exact.
        frames: Named frames in addition to the links, such as links on fixed joints. They affect only functions of
            frames and constraints.
        constraints: Constraints on frames (`with_contact`, `with_loop`), for the constrained functions.
        passive: Names of joints without a motor, in addition to floating ones (`with_passive`), for constrained inverse
            dynamics and solvers.
        variable: Names of parameters that are inputs of every function (`with_variable`).
        friction_speed: Smoothing speed of joint friction, rad/s or m/s; 0 if functions leave friction out
            (`with_friction`).

    Raises:
        RobotError: There is no link, a number is not finite, or links, frames and constraints do not fit together.

    Example:
        >>> robot = dynagate.Robot.from_file(dynagate.robots.path("two_joint_arm"))
        >>> robot.nq, robot.nv, robot.joint_names
        (2, 2, ('shoulder', 'elbow'))
    """

    @classmethod
    def _of(cls, tree: RobotTree) -> Robot:
        """Return the robot for a tree that a parser made."""
        return cls(**{each.name: getattr(tree, each.name) for each in fields(tree)})

    @property
    def lower(self) -> np.ndarray:
        """Lower position limits (nq,), rad or m; -inf if the file has no limit, -1 in a quaternion.

        Limits of joints that mimic another one are taken into account.
        """
        return position_limits(self)[0]

    @property
    def upper(self) -> np.ndarray:
        """Upper position limits (nq,), rad or m; inf if the file has no limit, 1 in a quaternion."""
        return position_limits(self)[1]

    @property
    def velocity(self) -> np.ndarray:
        """Velocity limits (nv,), rad/s or m/s; inf if the file has no limit."""
        return limits(self, "velocity")

    @property
    def effort(self) -> np.ndarray:
        """Torque and force limits (nv,), N m or N; inf if the file has no limit."""
        return limits(self, "effort")

    def __str__(self) -> str:
        """Return a summary: sizes, and a line for each joint with its type, indices, limits and mass."""
        return summary(self)

    def _repr_html_(self) -> str:
        """Return a picture and a table of the joints with their limits, for a notebook."""
        picture = import_module("dynagate.views.scene.notebook").robot_svg(self)  # a later stage
        head, *rows = joint_table(self)
        return f"{picture}<p>{escape(str(self).splitlines()[0])}</p>{html_table(head, rows)}"

    def permutation(self, names: Sequence[str], *, w_first: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices that reorder this robot's coordinates to another library's order.

        The frames of velocities are not changed.

        Args:
            names: The other library's joints in its order, each of this robot's joints once. Joints that mimic others
                may be left out.
            w_first: Whether its quaternions are (w, x, y, z), as in MuJoCo and in Isaac Lab 1 and 2. Isaac Lab 3 has
                (x, y, z, w).

        Returns:
            Integer arrays q_index (nq,) for configurations and v_index (nv,) for velocities, accelerations and torques:
            theirs = ours[..., q_index] and ours = theirs[..., np.argsort(q_index)].

        Raises:
            RobotError: A name is missing, unknown or repeated.
            TypeError: A name is not a text.
        """
        return permutation(self, names, w_first=w_first)

    @classmethod
    def from_urdf(cls, path: str | PathLike[str], **options: Unpack[ReadingOptions]) -> Robot:
        """Read a robot from a URDF file.

        Args:
            path: The file.
            options: `floating_base`, `gravity` (m/s²), `lock` (rad or m by joint), `damping`, `ignore_friction`,
                `allow_unphysical`, `unlimited`, `lax` and `round_rotations` (rad), which `Robot.from_file` documents.

        Raises:
            RobotError: The file is missing, not XML, has macros, or describes no tree of supported joints with
                physical inertias. The text names the joint or link and the option that accepts it.
            ArgumentTypeError: A path or `lock` has another type.
        """
        for name in options:
            check_keyword("from_urdf", name, ReadingOptions.__annotations__)
        return cls._of(read_urdf(path, **options))

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        *,
        trust: bool = False,
        arguments: Mapping[str, str] | None = None,
        floating_base: bool = False,
        gravity: Vector3 | None = None,
        lock: Mapping[str, float] | None = None,
        damping: bool = True,
        ignore_friction: bool = False,
        allow_unphysical: bool = False,
        unlimited: bool = False,
        lax: bool = False,
        round_rotations: float = 1e-9,
    ) -> Robot:
        """Read a robot from a file: URDF, and with `trust=True` MuJoCo's format and xacro.

        Args:
            path: File that ends in .urdf, .xml, .mjcf or .xacro.
            trust: Accept MJCF and xacro. MuJoCo opens every file that an MJCF file names, and expressions in xacro can
                run any program.
            arguments: Arguments of the macros of a .xacro file, by name.
            floating_base: Let the base move freely, by a first link with a floating joint.
            gravity: Acceleration of gravity in the base frame, m/s²; that of the file, or (0, 0, -9.81), by default.
            lock: Positions of joints to lock, rad or m, by name.
            damping: Read the damping of joints.
            ignore_friction: Leave out the Coulomb friction of joints without a warning.
            allow_unphysical: Accept inertias that no rigid body has.
            unlimited: Drop unusable position limits, and velocity and effort limits that are negative or 0.
            lax: Ignore XML errors that lose nothing of the robot.
            round_rotations: Round rotations to right angles within this angle, rad.

        Raises:
            RobotError: The file is missing, cannot be read, is MJCF or xacro without `trust=True`, or describes no tree
                of supported joints with physical inertias.
            ArgumentTypeError: An argument has another type.
            MissingExtraError: MuJoCo or xacro is not installed.

        Example:
            >>> dynagate.Robot.from_file(dynagate.robots.path("two_joint_arm")).nv
            2
        """
        values = {
            "floating_base": (floating_base, False),
            "gravity": (gravity, None),
            "lock": (lock, None),
            "damping": (damping, True),
            "ignore_friction": (ignore_friction, False),
            "allow_unphysical": (allow_unphysical, False),
            "unlimited": (unlimited, False),
            "lax": (lax, False),
            "round_rotations": (round_rotations, 1e-9),
        }
        options: Any = changed_options(values)
        return cls._of(read_file(path, trust, arguments, options))

    @classmethod
    def from_mjcf(cls, path: str | PathLike[str], **options: Unpack[ReadingOptions]) -> Robot:
        """Read a robot from MuJoCo's format. A RobotWarning lists what is left out.

        Args:
            path: A file that you trust, because MuJoCo opens every file that it names.
            options: Options of `dynagate.robot.mjcf.read_mjcf`.

        Raises:
            RobotError: The file is missing or cannot be read, needs too much time or memory, or describes no tree of
                supported joints.
            MissingExtraError: MuJoCo is not installed.
        """
        return cls._of(read_mjcf(path, **options))

    @classmethod
    def from_xacro(
        cls, path: str | PathLike[str], arguments: Mapping[str, str] | None = None, **options: Unpack[ReadingOptions]
    ) -> Robot:
        """Read a robot from a URDF file that is written with xacro macros.

        Args:
            path: A file that you trust, because its expressions can run any program.
            arguments: Values of the file's <xacro:arg> elements, by name.
            options: Options of `from_urdf`.

        Raises:
            RobotError: The macros cannot be expanded or need too much time or memory, or the resulting URDF cannot be
                read.
            MissingExtraError: xacro is not installed.
        """
        for name in options:
            check_keyword("from_xacro", name, ("arguments", *ReadingOptions.__annotations__))
        return cls._of(read_xacro(path, arguments, **options))


answering(
    Robot,
    {
        **dict.fromkeys(("attach", "append", "appendmodel", "merge"), "robot.with_robot(other, on=frame)"),
        **dict.fromkeys(("save", "write", "tofile", "tourdfstring", "export"), "robot.to_urdf(path)"),
        **dict.fromkeys(("check", "validate"), "dynagate.check(robot)"),
        "neutral": "dynagate.neutral(robot)",
        "q0": "dynagate.neutral(robot)",
        "integrate": "dynagate.integrate(robot, q, v)",
        "difference": "dynagate.difference(robot, q, q_next)",
        **dict.fromkeys(
            ("random", "randomconfiguration", "randomstate", "sample"),
            "dynagate.Region.of(robot).sample('mass_matrix', count, seed)['q']",
        ),
        "compile": "dynagate.compile(robot, function)",
        **dict.fromkeys(("rollout", "simulate", "step"), "dynagate.Rollout(robot, steps=..., dt=...)"),
        **dict.fromkeys(("dof", "dofs", "n", "ndof", "nu"), "robot.nv"),
        **dict.fromkeys(("joints", "njoints", "names"), "robot.joint_names"),
        **dict.fromkeys(("bodies", "nbodies", "nbody"), "robot.links"),
        **dict.fromkeys(("getframeid", "getframe", "getbodyid"), "robot.frame(name)"),
        "lowerpositionlimit": "robot.lower",
        "upperpositionlimit": "robot.upper",
        "velocitylimit": "robot.velocity",
        "effortlimit": "robot.effort",
    },
)
