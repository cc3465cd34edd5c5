"""Planar, universal and screw joints in URDF files, written as chains of joints with one axis each.

URDF has planar joints, and Drake's <drake:joint> adds universal and screw joints. Massless links connect the
resulting joints, which every algorithm supports.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.robot.errors import RobotError
from dynagate.robot.parts import SMALLEST_RATIO
from dynagate.robot.robot_xml import attribute, local_name, number, numbers, only

SAME = {"ball": "spherical", "quaternion_floating": "floating", "rpy_floating": "floating", "weld": "fixed"}
"""Drake's types of joints -> the types here."""

Part = tuple[str, str, Floats]
"""A joint with one axis: the suffix of its name, its type and its axis (3,)."""


def compose(root: Any) -> list[str]:
    """Replace the joints with several axes in a file's <robot> element.

    Returns:
        Descriptions of what is left out, with the names of the joints.

    Raises:
        RobotError: A joint with several axes mimics another joint, has no child link, has numbers that cannot be read,
            or needs a name that the file already uses.
    """
    left: list[str] = []
    for element in [each for each in root.iterchildren("*") if local_name(each.tag) == "joint"]:
        element.tag = "joint"
        kind = element.get("type")
        if kind in SAME:
            element.set("type", SAME[kind])
        elif kind in PARTS:
            left += _replace(root, element, kind)
    return left


def _planar(element: Any, where: str) -> list[Part]:
    """Return two slides across the axis and a rotation about it, with MuJoCo's names and directions."""
    x, y, z = _axis(element, where)
    # the smallest rotation that takes z to the axis
    turn = np.diag([1.0, -1.0, -1.0])
    if z > -1.0 + 1e-12:
        cross = np.array([[0.0, 0.0, x], [0.0, 0.0, y], [-x, -y, 0.0]])
        turn = np.eye(3) + cross + cross @ cross / (1.0 + z)
    columns = np.where(np.abs(turn) < 1e-15, 0.0, turn).T
    ends, kinds = ("_TX", "_TY", "_RZ"), ("prismatic", "prismatic", "continuous")
    return list(zip(ends, kinds, columns, strict=True))


def _universal(element: Any, where: str) -> list[Part]:
    """Return a rotation about the joint frame's x axis, followed by one about its y axis."""
    return [("_RX", "continuous", np.eye(3)[0]), ("_RY", "continuous", np.eye(3)[1])]


def _screw(element: Any, where: str) -> list[Part]:
    """Return a hinge with the joint's name, and a slide that follows it."""
    axis = _axis(element, where)
    return [("", "continuous", axis), ("_TZ", "prismatic", axis)]


PARTS: dict[str, Callable[[Any, str], list[Part]]] = {"planar": _planar, "universal": _universal, "screw": _screw}
"""Type of a joint with several axes -> function that returns its parts, parent first, from its element and its name."""


def _axis(element: Any, where: str) -> Floats:
    """Return the unit vector of a joint's axis."""
    child = only(element, "axis", where)
    axis = np.array([1.0, 0.0, 0.0]) if child is None else numbers(child, "xyz", where, 3)
    size = float(np.linalg.norm(axis))
    if size < 1e-9:
        raise RobotError(
            f"{where} has axis {axis.tolist()}; expected a direction that is not zero", code="DG-ROBOT-027"
        )
    return axis / size


def _replace(root: Any, element: Any, kind: str) -> Iterator[str]:
    """Replace one joint by its parts. Yield descriptions of what is left out."""
    name = attribute(element, "name", f"line {element.sourceline}: a joint")
    where = f"joint '{name}'"
    if element.find("mimic") is not None:
        raise RobotError(
            f"{where} is {kind} and mimics another; expected a joint of one axis to mimic another", code="DG-ROBOT-028"
        )
    limit = only(element, "limit", where)
    if limit is not None and {"lower", "upper"} & set(limit.keys()):
        yield f"position limits of joint '{name}' are not read, because it is {kind}"
    parts = PARTS[kind](element, where)
    names = [name + end for end, _, _ in parts]
    links = [f"{each}_link" for each in names[:-1]]
    taken = {other.get("name") for other in root.iterchildren("link", "joint") if other is not element}
    for each in (*names, *links):
        if each in taken:
            raise RobotError(
                f"{where} is {kind}, which needs the name '{each}'; expected no other part of this name",
                code="DG-ROBOT-029",
            )
    index = root.index(element)
    for k, (_, type_, axis) in enumerate(parts):
        joint = root.makeelement("joint", name=names[k], type=type_)
        ends = {"parent": links[k - 1] if k else None, "child": links[k] if k < len(links) else None}
        for end, link in ends.items():
            joint.extend([root.makeelement(end, link=link)] if link else copy.deepcopy(element.findall(end)))
        joint.append(root.makeelement("axis", xyz=" ".join(repr(float(x)) for x in axis)))
        if not k:
            joint.extend(copy.deepcopy(element.findall("origin")))
        if kind == "screw" and k:
            joint.append(root.makeelement("mimic", joint=name, multiplier=repr(_thread(element, where))))
        else:
            joint.extend(_resistance(element, limit))
        joint.sourceline = element.sourceline
        root.insert(index + 1 + k, joint)
    root.remove(element)
    root.extend(root.makeelement("link", name=link) for link in links)


def _resistance(element: Any, limit: Any) -> Iterator[Any]:
    """Yield the speed and effort limits, the damping and the friction of a joint, for one of its parts."""
    yield from copy.deepcopy(element.findall("dynamics"))
    own = element.makeelement("limit", lower="-inf", upper="inf")
    for key in () if limit is None else limit.keys():
        if key not in ("lower", "upper"):
            own.set(key, limit.get(key))
    yield own


def _thread(element: Any, where: str) -> float:
    """Return the translation of a screw in m/rad. Files write it in m per 2π rad."""
    pitch = next((each for each in element.iterchildren("*") if local_name(each.tag) == "screw_thread_pitch"), None)
    if pitch is None:
        raise RobotError(
            f"{where} is a screw without <drake:screw_thread_pitch value=>; expected m for each turn",
            code="DG-ROBOT-030",
        )
    value = number(pitch, "value", where) / (2.0 * math.pi)
    if not abs(value) >= SMALLEST_RATIO:
        raise RobotError(
            f"{where} has a pitch of {value:g} m/rad; expected {SMALLEST_RATIO:g} or more", code="DG-ROBOT-031"
        )
    return value
