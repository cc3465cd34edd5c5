"""A robot's limits as arrays in the order of q and v, and its summary as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.base.text_table import aligned
from dynagate.robot.parts import Link
from dynagate.robot.tree import RobotTree

MAX_SUMMARY_JOINTS = 60
"""Largest number of joints that the summary lists."""


def position_limits(robot: RobotTree) -> tuple[Floats, Floats]:
    """Return the lower and upper limits (nq,) of a configuration, rad or m.

    A joint without limits has ±∞, and each entry of a quaternion ±1.
    """
    lower, upper = np.full(robot.nq, -np.inf), np.full(robot.nq, np.inf)
    for joint, at, _ in robot.moving():
        if joint.has_quaternion:
            lower[at.stop - 4 : at.stop], upper[at.stop - 4 : at.stop] = -1.0, 1.0
            continue
        low, high = robot.reach(joint)
        lower[at] = -np.inf if low is None else low
        upper[at] = np.inf if high is None else high
    return lower, upper


def limits(robot: RobotTree, kind: str) -> Floats:
    """Return the limits (nv,) of one kind, "velocity" or "effort", as the joints have them."""
    result = np.full(robot.nv, np.inf)
    for joint, _, at in robot.moving():
        limit = getattr(joint, kind)
        if limit is not None:
            result[at] = limit
    return result


def summary(robot: RobotTree) -> str:
    """Return a summary of a robot: name, sizes and mass, a line for each joint, and the names of frames and
    constraints.
    """
    mass = sum(link.mass for link in robot.links)
    gravity = ", ".join(f"{x:g}" for x in robot.gravity)
    head = f"{robot.name}: {len(robot.links)} joints, nq {robot.nq}, nv {robot.nv}, {mass:.4g} kg, gravity ({gravity})"
    lines = aligned(joint_table(robot)[: MAX_SUMMARY_JOINTS + 1])
    if len(robot.links) > MAX_SUMMARY_JOINTS:
        lines.append(f"... and {len(robot.links) - MAX_SUMMARY_JOINTS} joints more")
    if robot.frames:
        lines.append(_names("frames", [frame.name for frame in robot.frames]))
    if robot.constraints:
        lines.append(_names("constraints", [constraint.text for constraint in robot.constraints]))
    return "\n".join([head, "rad, m, rad/s, m/s, N m, N; - where the file gives no limit", *lines])


def joint_table(robot: RobotTree) -> list[list[str]]:
    """Return the column titles, and a row for each joint with its type, indices, limits and mass."""
    head = ["", "joint", "type", "link", "on", "q", "v", "position", "velocity", "effort", "kg"]
    return [head, *(_row(robot, i, *each) for i, each in enumerate(robot.slices()))]


def _row(robot: RobotTree, i: int, link: Link, q: slice, v: slice) -> list[str]:
    """Return the row of one joint."""
    joint = link.joint
    kind = joint.type
    if joint.mimic is not None:
        kind += f" {joint.mimic.multiplier:g} {joint.mimic.joint}" + f" {joint.mimic.offset:+g}" * bool(
            joint.mimic.offset
        )
    range_ = "" if joint.has_quaternion else f"{_limit(joint.lower)} to {_limit(joint.upper)}"
    above = robot.links[link.parent].name if link.parent >= 0 else "base"
    places = [_indices(q), _indices(v)]
    return [
        *(str(i), joint.name, kind, link.name, above, *places, range_),
        *(_limit(joint.velocity), _limit(joint.effort), f"{link.mass:.4g}"),
    ]


def _limit(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}"


def _indices(part: slice) -> str:
    if part.stop == part.start:
        return ""
    return str(part.start) if part.stop - part.start == 1 else f"{part.start}:{part.stop}"


def _names(what: str, names: list[str]) -> str:
    shown = ", ".join(names[:12])
    return f"{what}: {shown}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")
