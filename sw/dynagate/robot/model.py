"""The robot: an immutable tree of links, parents first, with its changes, its readers and its tables.

Every moving link carries the joint that connects it to its parent. Lengths in m, angles in rad, masses in kg,
inertias in kg m². Fixed joints do not appear here: `dynagate.robot.urdf` merges them into the link they are bolted to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from dynagate.base.changed import changed_options
from dynagate.base.elsewhere import answering
from dynagate.base.explained import explained
from dynagate.base.nearest import check_keyword
from dynagate.base.notebook import html_table
from dynagate.robot.edit import EditableTree
from dynagate.robot.limits import joint_table, limits, position_limits, screen
from dynagate.robot.macros import read_xacro
from dynagate.robot.mjcf import read_mjcf
from dynagate.robot.options import ReadingOptions
from dynagate.robot.order import permutation
from dynagate.robot.reading import read_file
from dynagate.robot.tree import RobotTree
from dynagate.robot.urdf import read_urdf
from dynagate.robot.vectors import Vector3

if TYPE_CHECKING:
    from typing_extensions import Unpack


@explained
@dataclass(frozen=True)
class Robot(EditableTree):
    """A tree of links, parents before children, each moved by the joint above it. A floating base is a first link with
    a floating joint.

    name: as in its file. links: each with its joint, its inertia and its parent.
    q (nq,) lists the joints' configurations in the order of the links and v (nv,) their velocities; `joint_names` says
    that order, which may be another library's or not (`permutation`). A floating joint
    has (x, y, z, qx, qy, qz, qw), position and unit quaternion in the parent's frame, and (linear, angular) velocity in
    the link's own frame, as Pinocchio has them; a spherical joint has the quaternion and the angular velocity.
    gravity: acceleration of free fall in the base frame, m/s². rounding: the largest angle in rad by which the reader
    turned a joint or an inertia of the file to make right angles exact; no part of what the robot is. frames: places
    with a name besides the links, such as links on fixed joints; no function but those of frames and constraints
    depends on them. constraints: the frames that may be held (`with_contact`, `with_loop`), which the constrained
    functions alone know. passive: joints that nothing drives, by name, besides floating ones (`with_passive`), which
    constrained inverse dynamics alone knows. variable: names of the parameters that are inputs of every function
    (`with_variable`). friction_speed: speed, rad/s or m/s, at which 0.7 of the friction of joints acts; 0 if functions
    leave friction out (`with_friction`).
    Raises RobotError: there is no link, links, frames or constraints are not as these sentences say, or a number is not
    finite.
    """

    @classmethod
    def _of(cls, tree: RobotTree) -> Robot:
        """Return the robot that a reader made of a file."""
        return cls(**{each.name: getattr(tree, each.name) for each in fields(tree)})

    @property
    def lower(self) -> np.ndarray:
        """Lower position limits (nq,), rad or m, no further than where joints that mimic others reach theirs; -inf
        where the file gives none, -1 in a quaternion."""
        return position_limits(self)[0]

    @property
    def upper(self) -> np.ndarray:
        """Upper position limits (nq,), as `lower`; inf where the file gives none, 1 in a quaternion."""
        return position_limits(self)[1]

    @property
    def velocity(self) -> np.ndarray:
        """Velocity limits (nv,), rad/s or m/s; inf where the file gives none."""
        return limits(self, "velocity")

    @property
    def effort(self) -> np.ndarray:
        """Limits (nv,) of torques and forces, N m or N; inf where the file gives none."""
        return limits(self, "effort")

    def __str__(self) -> str:
        """A screen: sizes, and a line for each joint with its type, place, limits and mass."""
        return screen(self)

    def _repr_html_(self) -> str:
        """Return a picture and a table of the joints with their limits, for a notebook."""
        picture = import_module("dynagate.scene.notebook").robot_svg(self)  # a later stage than this one
        head, *rows = joint_table(self)
        return f"{picture}<p>{escape(str(self).splitlines()[0])}</p>{html_table(head, rows)}"

    def permutation(self, names: Sequence[str], *, w_first: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Where another library's coordinates are in this robot's, for a library with the joints in another order.

        names: its joints in its order, each of this robot's once; those that mimic others may be left out. w_first:
        its quaternions are (w, x, y, z), as in MuJoCo and Isaac Lab 1 and 2; Isaac Lab 3 has
        (x, y, z, w).
        Returns (q_index (nq,), v_index (nv,)), whole numbers: theirs = ours[..., q_index] for configurations, and with
        v_index for velocities, accelerations and torques; ours = theirs[..., np.argsort(q_index)]. The frames that
        velocities are in stay as they are. Raises RobotError: a name is missing, unknown or there twice; TypeError:
        names are no texts.
        """
        return permutation(self, names, w_first=w_first)

    @classmethod
    def from_urdf(cls, path: str | PathLike[str], **options: Unpack[ReadingOptions]) -> Robot:
        """The robot of a URDF file. path: of the file.

        options: `floating_base`, `gravity` (m/s²), `lock` (rad or m by joint), `damping`, `ignore_friction`,
        `allow_unphysical`, `unlimited`, `lax` and `round_rotations` (rad), which `dynagate.robot.urdf.read_urdf`
        explains.
        Raises RobotError: the file is missing, not XML, has macros, or describes no tree of supported joints with
        physical inertias. The text names the joint or link and the option that accepts it. TypeError: a path or `lock`
        of another type.
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
            trust: Accept MJCF and xacro. MuJoCo opens every file that an MJCF names, and expressions of xacro can run
                any program.
            arguments: Arguments of the macros of a .xacro file, by name.
            floating_base: Let the base move freely, by a first link with a floating joint.
            gravity: Acceleration of gravity in the base frame, m/s²; that of the file, or (0, 0, -9.81), unless given.
            lock: Joints that do not move, with their positions, rad or m.
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
        """Read MuJoCo's format. path: of a file that you trust, because MuJoCo opens every file that it names. options:
        those of `dynagate.robot.mjcf.read_mjcf`.

        Raises RobotError: the file is missing or cannot be read, needs too much time or memory, or describes no tree of
        supported joints; MissingExtraError: MuJoCo is not installed. A RobotWarning names what is left out."""
        return cls._of(read_mjcf(path, **options))

    @classmethod
    def from_xacro(
        cls, path: str | PathLike[str], arguments: Mapping[str, str] | None = None, **options: Unpack[ReadingOptions]
    ) -> Robot:
        """Read a URDF that is written with macros. path: of a file that you trust, because its expressions can run any
        program. arguments: of its macros, by name. options: those of `from_urdf`.

        Raises RobotError: the macros cannot be expanded or need too much time or memory, or as `from_urdf` does of what
        they make; MissingExtraError: xacro is not installed."""
        for name in options:
            check_keyword("from_xacro", name, ("arguments", *ReadingOptions.__annotations__))
        return cls._of(read_xacro(path, arguments, **options))


answering(
    Robot,
    {
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
