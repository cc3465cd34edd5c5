"""Closed loops in URDF files: <constraint>, Drake's <drake:ball_constraint> and its earlier <loop_joint>."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.robot.constraint import Constraint
from dynagate.robot.errors import RobotError
from dynagate.robot.geometry import pose_of
from dynagate.robot.parts import Frame
from dynagate.robot.robot_xml import attribute, local_name, numbers, only
from dynagate.robot.rotations import Rounding
from dynagate.robot.vectors import matrix3, turn_z_to, vector3, without_noise

KINDS = {
    **dict.fromkeys(("fixed", "weld"), "fixed"),
    **dict.fromkeys(("revolute", "continuous", "hinge"), "hinge"),
    **dict.fromkeys(("spherical", "ball", "point"), "point"),
}
"""Type of a loop in a file -> its kind in `Robot.with_loop`."""

End = tuple[str, Floats, Floats]
"""A frame on a link: the link's name, and the rotation (3, 3) and translation (3,), m, in that link's frame."""


@dataclass(frozen=True)
class Closure:
    """A loop in a file: two frames on links that are held together."""

    name: str
    """Name of the loop."""
    kind: str
    """Kind of the loop, as in `Robot.with_loop`."""
    ends: tuple[End, End]
    """The two frames."""

    def frames(self, places: Mapping[str, Frame]) -> tuple[Frame, Frame]:
        """Return the two frames, named NAME_1 and NAME_2, on the moving links that carry them.

        Args:
            places: Frame of each link of the file, by name.

        Raises:
            RobotError: The file has no link of this name.
        """
        frames = []
        for k, (link, rotation, translation) in enumerate(self.ends):
            if link not in places:
                raise RobotError(
                    f"loop '{self.name}' holds link '{link}', which the file does not define", code="DG-URDF-061"
                )
            place = places[link]
            turn = np.array(place.rotation)
            at = without_noise(turn @ translation + np.array(place.translation))
            frames.append(Frame(f"{self.name}_{k + 1}", place.link, matrix3(turn @ rotation), vector3(at)))
        return frames[0], frames[1]

    @property
    def constraint(self) -> Constraint:
        """The loop as a constraint between its two frames."""
        return Constraint(f"{self.name}_1", self.kind, f"{self.name}_2")


def take_closures(root: Any, rounding: Rounding) -> list[Closure]:
    """Return the loops in a file's <robot> element and remove them from it. Loops of unsupported types stay.

    Raises:
        RobotError: A loop has no ends, or numbers that cannot be read.
    """
    closures: list[Closure] = []
    for element in [each for each in root.iterchildren("*") if local_name(each.tag) in READERS]:
        tag = local_name(element.tag)
        number = 1 + sum(closure.name.startswith(tag) for closure in closures)
        name = element.get("name") or f"{tag}_{number}"
        kind = "point" if tag == "ball_constraint" else KINDS.get(element.get("type", ""))
        if kind is None:
            continue
        closures.append(Closure(name, kind, READERS[tag](element, f"loop '{name}'", rounding)))
        root.remove(element)
    return closures


def _constraint(element: Any, where: str, rounding: Rounding) -> tuple[End, End]:
    """Return the ends of a <constraint>: <parent>, <parent_origin>, <parent_axis>, and the same for the child."""

    def end(side: str) -> End:
        link = _only(element, side, where)
        rotation, translation = pose_of(only(element, f"{side}_origin", where), where, rounding)
        turn = _turn(element, f"{side}_axis", where, rounding)
        return attribute(link, "link", where), rotation @ turn, translation

    return end("parent"), end("child")


def _loop_joint(element: Any, where: str, rounding: Rounding) -> tuple[End, End]:
    """Return the ends of a <loop_joint>: <link1> and <link2> with their poses, which share an <axis>."""
    turn = _turn(element, "axis", where, rounding)

    def end(side: str) -> End:
        place = _only(element, side, where)
        rotation, translation = pose_of(place, where, rounding)
        return attribute(place, "link", where), rotation @ turn, translation

    return end("link1"), end("link2")


def _ball(element: Any, where: str, rounding: Rounding) -> tuple[End, End]:
    """Return the ends of a <drake:ball_constraint>: two bodies, and a point on each."""

    def end(body: str, point: str) -> End:
        name = attribute(_only(element, f"ball_constraint_body_{body}", where), "name", where)
        at = numbers(_only(element, f"ball_constraint_p_{point}", where), "value", where, 3)
        return name, np.eye(3), at

    return end("A", "AP"), end("B", "BQ")


READERS: dict[str, Callable[[Any, str, Rounding], tuple[End, End]]] = {
    "constraint": _constraint,
    "loop_joint": _loop_joint,
    "ball_constraint": _ball,
}
"""Element of a loop, without its prefix -> the function that reads its ends."""


def _turn(element: Any, tag: str, where: str, rounding: Rounding) -> Floats:
    """Return a rotation that takes z to the axis of a hinge. The axis is x if the file has none."""
    if KINDS[element.get("type")] != "hinge":
        return np.eye(3)
    axis = only(element, tag, where)
    direction = np.array([1.0, 0.0, 0.0]) if axis is None else numbers(axis, "xyz", where, 3)
    if float(np.linalg.norm(direction)) < 1e-9:
        raise RobotError(
            f"{where} has axis {direction.tolist()}; expected a direction that is not zero", code="DG-URDF-062"
        )
    return turn_z_to(rounding.axis(direction, where))


def _only(element: Any, tag: str, where: str) -> Any:
    """Return the only child element with a tag, with any prefix."""
    children = [child for child in element.iterchildren("*") if local_name(child.tag) == tag]
    if len(children) != 1:
        raise RobotError(f"{where} has {len(children)} <{tag}>; expected one", code="DG-URDF-063")
    return children[0]
