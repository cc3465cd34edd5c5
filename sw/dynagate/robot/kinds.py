"""Kinds of joints and their properties, one class each. `dynamics.joint_motions` defines how they move a link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dynagate.base.errors import ArgumentError


class JointKind:
    """Properties that all joints of one kind share."""

    name: ClassVar[str]
    """Name in `Joint.type`."""
    directions: ClassVar[tuple[int, ...]]
    """Directions of the degrees of freedom in the link's frame, in the order of the velocity vector.

        0 to 2 rotate about x, y, z; 3 to 5 move along them. The joint axis is z (`Robot.aligned`).
    """
    has_quaternion: ClassVar[bool] = False
    """Whether the last four numbers of the configuration are a unit quaternion."""
    has_axis: ClassVar[bool] = True
    """Whether the file states an axis."""
    limited: ClassVar[bool] = True
    """Whether positions may have limits."""
    endless: ClassVar[bool] = False
    """Whether the joint returns to the same pose after each full rotation."""
    lengths: ClassVar[tuple[int, ...]] = ()
    """Indices of the configuration's numbers that are lengths in m; the others are in rad or have no unit."""

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return len(self.directions)

    @property
    def nq(self) -> int:
        """Number of numbers in a configuration: one more than the degrees of freedom with a unit quaternion."""
        return self.nv + self.has_quaternion

    @property
    def single(self) -> bool:
        """Whether the joint has one degree of freedom, so that it can mimic another one."""
        return self.nv == 1

    @property
    def turning(self) -> bool:
        """Whether the joint only rotates about its axis."""
        return self.directions == (2,)

    @property
    def sliding(self) -> bool:
        """Whether the joint only slides along its axis."""
        return self.directions == (5,)

    @property
    def free(self) -> bool:
        """Whether the joint leaves its link all six directions."""
        return len(set(self.directions)) == 6

    @property
    def units(self) -> tuple[str, str]:
        """Units of positions and forces."""
        return ("m", "N") if self.sliding else ("rad", "N m")

    @property
    def file_name(self) -> str:
        """Name in file formats that use limits to distinguish revolute from continuous joints."""
        return self.name


class Revolute(JointKind):
    """Rotates about its axis between two limits."""

    name = "revolute"
    directions = (2,)


class Continuous(Revolute):
    """Rotates about its axis without limits."""

    name = "continuous"
    limited = False
    endless = True
    file_name = "revolute"


class Prismatic(JointKind):
    """Slides along its axis."""

    name = "prismatic"
    directions = (5,)
    lengths = (0,)


class Spherical(JointKind):
    """Rotates about any axis. The configuration is a unit quaternion (x, y, z, w); the velocity is angular, in the
    link's frame.
    """

    name = "spherical"
    directions: ClassVar[tuple[int, ...]] = (0, 1, 2)
    has_quaternion = True
    has_axis = False
    limited = False


class Floating(Spherical):
    """Moves freely in space.

    The configuration is a position in the parent's frame and a unit quaternion. The velocity is (linear, angular) in
    the link's frame.
    """

    name = "floating"
    directions: ClassVar[tuple[int, ...]] = (3, 4, 5, 0, 1, 2)
    lengths = (0, 1, 2)


KINDS: dict[str, JointKind] = {
    each.name: each for each in (Revolute(), Continuous(), Prismatic(), Spherical(), Floating())
}
"""Kinds of joints by name."""


def kind_of(name: str) -> JointKind:
    """Return a kind of joint by its name. Raise ArgumentError if there is no such kind."""
    return row_of("robot.kinds.KINDS", KINDS, name)


def single_kinds() -> list[str]:
    """Return the names of the kinds with one degree of freedom."""
    return [name for name, kind in KINDS.items() if kind.single]


def row_of(table: str, rows: Mapping[str, Any], name: str) -> Any:
    """Return the row of a joint kind in a table. Raise ArgumentError if the table has no such row."""
    if name not in rows:
        raise ArgumentError(
            f"table {table} has no row for joint kind '{name}'; expected one of {', '.join(rows)}", code="DG-ROBOT-059"
        )
    return rows[name]
