"""Checks of the axes and limits of joints, and of left and right twins."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dynagate.checks.finding import Finding
from dynagate.checks.source import RobotSource, UrdfBody
from dynagate.robot.errors import RobotError
from dynagate.robot.parts import Joint
from dynagate.robot.robot_xml import numbers
from dynagate.robot.tree import RobotTree

SIDES = (("left", "right"), ("l", "r"), ("lf", "rf"), ("lh", "rh"), ("fl", "fr"), ("rl", "rr"), ("hl", "hr"))
"""Words in names of the left side, and the corresponding words of the right side."""

IMPLAUSIBLE_SPEED = {"rad": 100.0, "m": 20.0}
"""Speeds in rad/s and m/s that hardly any joint reaches."""
IMPLAUSIBLE_FORCE = {"rad": 1e5, "m": 1e6}
"""Torques in N m and forces in N that hardly any joint has."""
LARGEST_ANGLE = 4.0 * math.pi
"""Largest plausible angle in rad. A larger limit is probably in degrees."""
LARGEST_TRAVEL = 10.0
"""Largest plausible travel in m. A larger limit is probably in millimetres."""


def check_joints(robot: RobotTree, source: RobotSource | None) -> Iterator[Finding]:
    """Yield findings on the axes and limits of a robot's joints. `source` is the robot's file, if known."""
    for link in robot.links:
        line = source.line(link.joint.name) if source else None
        yield from _limits(link.joint, line)
        low, high = robot.reach(link.joint)
        if low is not None and high is not None and low > high:
            text = f"joints that mimic it leave no position: {low:g} to {high:g} {link.joint.kind.units[0]}"
            yield Finding("warning", "limits", f"joint '{link.joint.name}'", text, high - low, line)
    for name, element in source.joints.items() if source else ():
        yield from _axis(name, element)


def _axis(name: str, element: Any) -> Iterator[Finding]:
    """Yield a finding if the axis of a joint element is not a unit vector."""
    child = element.find("axis")
    if child is None or element.get("type") in ("fixed", "floating", "spherical"):
        return
    try:
        axis = numbers(child, "xyz", f"joint '{name}'", 3)
    except RobotError:
        return  # the URDF parser reports this error
    size = float(np.linalg.norm(axis))
    if size > 0.0 and abs(size - 1.0) > 1e-3:
        unit = " ".join(f"{x:.9g}" for x in axis / size)
        text = f"axis has length {size:.6g}; readers bring it to 1 or refuse it"
        yield Finding("warning", "axis", f"joint '{name}'", text, size, child.sourceline, f'<axis xyz="{unit}"/>')


def _limits(joint: Joint, line: int | None) -> Iterator[Finding]:
    """Yield findings on the limits of a joint."""
    place = f"joint '{joint.name}'"
    unit, force = joint.kind.units
    for key, value, most, of in (
        ("velocity", joint.velocity, IMPLAUSIBLE_SPEED[unit], f"{unit}/s"),
        ("effort", joint.effort, IMPLAUSIBLE_FORCE[unit], force),
    ):
        if value == 0.0 and joint.mimic is None:
            text = f"{key} limit is 0, so bounds hold the joint still"
            yield Finding("warning", "limits", place, text, 0.0, line, "a limit above 0, or unlimited=True")
        elif value is not None and value > most:
            text = f"{key} limit of {value:g} {of} is more than hardly any joint has"
            yield Finding("warning", "limits", place, text, value, line)
    low, high = joint.lower, joint.upper
    if low is None or high is None:
        return
    widest = max(abs(low), abs(high))
    if joint.kind.turning and widest > LARGEST_ANGLE and widest <= 720.0:
        advice = f'if they are degrees: lower="{math.radians(low):.6g}" upper="{math.radians(high):.6g}"'
        yield Finding("warning", "limits", place, f"position limits {low:g} to {high:g} rad", widest, line, advice)
    if joint.kind.sliding and high - low > LARGEST_TRAVEL:
        advice = f'if they are millimetres: lower="{low / 1e3:g}" upper="{high / 1e3:g}"'
        yield Finding("warning", "limits", place, f"position limits {low:g} to {high:g} m", high - low, line, advice)
    if joint.mimic is None and not low <= 0.0 <= high:
        text = f"position 0 is outside its limits {low:g} to {high:g} {unit}"
        yield Finding("note", "limits", place, text, 0.0, line)


def mirrored(name: str) -> str | None:
    """Return the name of the right twin of a part on the left, or None for any other name."""
    words = re.split(r"([^A-Za-z]+)", name)
    for left, right in SIDES:
        for k, word in enumerate(words):
            if word.lower() == left:
                other = right.upper() if word.isupper() else right.title() if word.istitle() else right
                return "".join([*words[:k], other, *words[k + 1 :]])
    return None


def check_twins(robot: RobotTree, bodies: Sequence[UrdfBody], source: RobotSource | None) -> Iterator[Finding]:
    """Yield findings on left and right links that differ by more than 1 %, and on left and right joints that differ."""
    by_name = {body.name: body for body in bodies}
    for body in bodies:
        twin = by_name.get(mirrored(body.name) or "")
        if twin is not None:
            for what, unit, own, other in _quantities(body, twin):
                if abs(own - other) > 0.01 * max(abs(own), abs(other)):
                    text = f"{what} {own:.4g} {unit}, but that of its twin '{twin.name}' is {other:.4g} {unit}"
                    yield Finding("warning", "twins", body.place, text, own, body.line)
                    break
    joints = {link.joint.name: link.joint for link in robot.links}
    for name, joint in joints.items():
        other_joint = joints.get(mirrored(name) or "")
        if other_joint is None:
            continue
        for key in ("effort", "velocity", "damping", "armature"):
            values = [getattr(each, key) for each in (joint, other_joint)]
            if values[0] != values[1]:
                text = f"{key} {_shown(values[0])}, but that of its twin '{other_joint.name}' is {_shown(values[1])}"
                line = source.line(name) if source else None
                yield Finding("warning", "twins", f"joint '{name}'", text, values[0], line)


def _quantities(body: UrdfBody, twin: UrdfBody) -> Iterator[tuple[str, str, float, float]]:
    """Yield the quantities that mirrored bodies share: name, unit and both values."""
    yield "mass", "kg", body.mass, twin.mass
    distances = [float(np.linalg.norm(each.com)) for each in (body, twin)]
    if max(distances) > 1e-4:
        yield "distance of the center of mass from the joint", "m", distances[0], distances[1]
    for own, other in zip(*(np.linalg.eigvalsh(each.inertia) for each in (body, twin)), strict=True):
        yield "a principal moment of inertia", "kg m²", float(own), float(other)


def _shown(value: float | None) -> str:
    return "unlimited" if value is None else f"{value:g}"
