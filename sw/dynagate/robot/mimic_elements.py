"""Mimic joints in a file: chains of <mimic> elements resolved to one leading joint, multiplier and offset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dynagate.robot.errors import RobotError
from dynagate.robot.kinds import single_kinds
from dynagate.robot.parts import SMALLEST_RATIO, Mimic
from dynagate.robot.robot_xml import attribute, number, only


class NoLeader(RobotError):
    """A <mimic> element does not lead to a moving joint with one degree of freedom.

    Args:
        text: Text of the error.
        at: Position at which the joint could be locked instead, rad or m.
    """

    def __init__(self, text: str, at: float, *, code: str = "") -> None:
        self.at = at
        super().__init__(text, code=code)


def followed(name: str, joints: Mapping[str, Any], lock: Mapping[str, float]) -> Mimic | float | None:
    """Return how a joint follows another one.

    Args:
        name: Name of the joint.
        joints: Elements of the file's joints, by name.
        lock: Positions of locked joints.

    Returns:
        None if the joint mimics no other; a position if it cannot move, because its leader is fixed or locked or the
        multiplier is 0.

    Raises:
        NoLeader: The leader does not exist, mimics itself through others or has several degrees of freedom, or the
            multiplier is too large or small.
        RobotError: Numbers cannot be read.
    """
    seen = [name]
    ratio, offset = 1.0, 0.0
    while (mimic := only(joints[seen[-1]], "mimic", f"joint '{seen[-1]}'")) is not None and seen[-1] not in lock:
        where = f"joint '{seen[-1]}'"
        leader = attribute(mimic, "joint", where)
        offset += ratio * (number(mimic, "offset", where) if mimic.get("offset") is not None else 0.0)
        ratio *= number(mimic, "multiplier", where) if mimic.get("multiplier") is not None else 1.0
        if leader in seen:
            circle = " -> ".join(f"'{joint}'" for joint in [*seen[seen.index(leader) :], leader])
            raise NoLeader(f"joint '{name}' mimics a joint that mimics it in turn ({circle})", 0.0, code="DG-URDF-010")
        if leader not in joints:
            raise NoLeader(f"{where} mimics joint '{leader}', which the file does not define", 0.0, code="DG-URDF-011")
        seen.append(leader)
    last = seen[-1]
    if len(seen) == 1:
        return None
    if last in lock:
        return _within(name, ratio * lock[last] + offset)
    kind = attribute(joints[last], "type", f"joint '{last}'")
    if kind == "fixed" or ratio == 0.0:
        return _within(name, offset)
    if kind not in single_kinds():
        raise NoLeader(
            f"joint '{name}' mimics joint '{last}', which is {kind} and has no single position", 0.0, code="DG-URDF-012"
        )
    if not SMALLEST_RATIO <= abs(ratio) <= 1.0 / SMALLEST_RATIO or abs(offset) > LARGEST:
        raise NoLeader(
            f"joint '{name}' mimics joint '{last}' with multiplier {ratio:g} and offset {offset:g}; expected a "
            f"multiplier of size {SMALLEST_RATIO:g} to {1.0 / SMALLEST_RATIO:g} and an offset up to {LARGEST:g}",
            0.0,
            code="DG-URDF-013",
        )
    return Mimic(last, ratio, offset)


LARGEST = 1e6
"""Largest position in rad or m. A float has less than ten correct digits of a larger angle."""


def _within(name: str, position: float) -> float:
    """Return a position. Raise NoLeader if it exceeds LARGEST."""
    if not abs(position) <= LARGEST:
        raise NoLeader(
            f"joint '{name}' would be held at {position:g} by what it mimics; expected up to {LARGEST:g}",
            0.0,
            code="DG-URDF-014",
        )
    return position
