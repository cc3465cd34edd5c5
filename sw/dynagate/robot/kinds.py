"""Kinds of joints: one class each. What they do to a link is in `dynamics.joint_motions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dynagate.base.errors import ArgumentError


class JointKind:
    """Properties that all joints of a kind share.

    name: the name in `Joint.type`. directions: of its degrees of freedom in the link's own frame, in the order of the
    velocity vector: 0 to 2 rotate about x, y, z, 3 to 5 move along them. An axis is z here (`Robot.aligned`).
    has_quaternion: the last four numbers of its configuration are a unit quaternion, for three directions of rotation.
    has_axis: the file states an axis. limited: its positions may have limits. endless: it returns to the same pose
    after each turn. lengths: indices of the numbers of its configuration that are in m; the others have no unit or rad.
    """

    name: ClassVar[str]
    directions: ClassVar[tuple[int, ...]]
    has_quaternion: ClassVar[bool] = False
    has_axis: ClassVar[bool] = True
    limited: ClassVar[bool] = True
    endless: ClassVar[bool] = False
    lengths: ClassVar[tuple[int, ...]] = ()

    @property
    def nv(self) -> int:
        """Degrees of freedom."""
        return len(self.directions)

    @property
    def nq(self) -> int:
        """Numbers in a configuration: a unit quaternion is one more than its degrees of freedom."""
        return self.nv + self.has_quaternion

    @property
    def single(self) -> bool:
        """Whether it has one degree of freedom, so that it may mimic another or be mimicked."""
        return self.nv == 1

    @property
    def turning(self) -> bool:
        """Whether it turns about its axis and does nothing else."""
        return self.directions == (2,)

    @property
    def sliding(self) -> bool:
        """Whether it slides along its axis and does nothing else."""
        return self.directions == (5,)

    @property
    def free(self) -> bool:
        """Whether its link goes anywhere."""
        return len(set(self.directions)) == 6

    @property
    def units(self) -> tuple[str, str]:
        """Units of its positions and forces."""
        return ("m", "N") if self.sliding else ("rad", "N m")

    @property
    def file_name(self) -> str:
        """Its name in files that say by limits whether a joint is endless."""
        return self.name


class Revolute(JointKind):
    """Turns about its axis between two limits."""

    name = "revolute"
    directions = (2,)


class Continuous(Revolute):
    """Turns about its axis for ever."""

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
    """Turns any way. Its configuration is a unit quaternion (x, y, z, w), its velocity angular, in the link's frame."""

    name = "spherical"
    directions: ClassVar[tuple[int, ...]] = (0, 1, 2)
    has_quaternion = True
    has_axis = False
    limited = False


class Floating(Spherical):
    """Goes anywhere. Its configuration is a position in the parent's frame and a unit quaternion, its velocity (linear,
    angular) in the link's frame."""

    name = "floating"
    directions: ClassVar[tuple[int, ...]] = (3, 4, 5, 0, 1, 2)
    lengths = (0, 1, 2)


KINDS: dict[str, JointKind] = {
    each.name: each for each in (Revolute(), Continuous(), Prismatic(), Spherical(), Floating())
}
"""Kinds by name."""


def kind_of(name: str) -> JointKind:
    """Raises ValueError: there is no such kind."""
    return row_of("robot.kinds.KINDS", KINDS, name)


def single_kinds() -> list[str]:
    """Names of those with one degree of freedom."""
    return [name for name, kind in KINDS.items() if kind.single]


def row_of(table: str, rows: Mapping[str, Any], name: str) -> Any:
    """The row of a kind in a table. Raises ValueError: it has none."""
    if name not in rows:
        raise ArgumentError(f"table {table} has no row for joint kind '{name}'; expected one of {', '.join(rows)}")
    return rows[name]
