"""Search a URDF file for content that this package does not read, so that one warning lists it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynagate.robot.robot_xml import local_name

READ: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    tag: (frozenset(attributes.split()), frozenset(children.split()))
    for tag, attributes, children in (
        ("robot", "name version", "link joint"),
        ("link", "name type", "inertial"),
        ("joint", "name type", "origin parent child axis limit dynamics mimic"),
        ("inertial", "", "origin mass inertia"),
        ("origin", "xyz rpy quat_xyzw", ""),
        ("mass", "value", ""),
        ("inertia", "ixx ixy ixz iyy iyz izz", ""),
        ("parent", "link", ""),
        ("child", "link", ""),
        ("axis", "xyz", ""),
        ("limit", "lower upper velocity effort", ""),
        ("dynamics", "damping friction", ""),
        ("mimic", "joint multiplier offset", ""),
    )
}
"""Each element that is read -> its attributes and its child elements that are read."""

WITHOUT_DYNAMICS: dict[str, frozenset[str]] = {
    "robot": frozenset(
        ["material", "transmission", "gazebo", "sensor", "plugin", "ros2_control", "group", "disable_collisions"]
    ),
    "link": frozenset(
        [
            *("visual", "collision", "material", "sensor", "contact", "surface"),
            *("self_collision_checking", "collision_checking", "self_filter"),
        ]
    ),
    "joint": frozenset(["safety_controller", "calibration", "hardwareInterface"]),
}
"""Child elements without effect on rigid-body dynamics: shapes, sensors, software limits and settings of simulators.

<gazebo> elements are searched for `SIMULATED`, and `dynagate.robot.urdf_rotors` reads transmissions.
"""

SETTINGS: dict[str, frozenset[str]] = {
    "joint": frozenset(["dont_collapse"]),
    "limit": frozenset(["command_effort", "current", "gear_velocity"]),
}
"""Attributes without effect on rigid-body dynamics: limits of a motor, and settings of importers."""

SIMULATED = ("joint", "springStiffness")
"""Elements in <gazebo> that stand for parts of the mechanism: joints that close loops, and springs unless they are 0.

Settings of the simulation, such as gravity that is off for one link, do not belong to the robot.
"""

LOOPS = ("constraint", "ball_constraint", "loop_joint", "linear_bushing_rpy")
"""Local names of elements that close loops. `dynagate.robot.urdf_loops` removes the ones that it can read."""

MAX_LISTED = 4
"""Largest number of names in a list."""
VERSIONS = ("1", "1.0", "1.1", "1.2")
"""Versions of URDF that are read without a remark."""


def unread(root: Any) -> Iterator[str]:
    """Yield descriptions of everything in a file's <robot> element that is not read, with the names of the elements."""
    if (version := root.get("version")) not in (None, *VERSIONS):
        yield f"version='{version}' is read as 1.2"
    attributes: dict[str, list[tuple[str, str]]] = {}
    elements: dict[str, list[str]] = {}
    for tag, attribute, name in _unread(root, "robot", "robot"):
        if attribute:
            attributes.setdefault(tag, []).append((attribute, name))
        else:
            elements.setdefault(tag, []).append(name)
    for tag, pairs in attributes.items():
        keys, names = ([pair[k] for pair in pairs] for k in (0, 1))
        several = len(set(keys)) > 1
        yield f"attribute{'s' if several else ''} {listed(keys)} in <{tag}> of {listed(names)} " + (
            "are not read" if several else "is not read"
        )
    for tag, names in elements.items():
        yield f"<{tag}> of {listed(names)} is not read{_hint(tag)}"


def _unread(element: Any, tag: str, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield everything that is not read, from an element down: its tag, its attribute or "", and its link or joint.

    `tag` is the element's own tag, and `name` the link or joint that it belongs to.
    Elements with a prefix are extensions of other programs; only those that close loops are yielded.
    """
    known, children = READ[tag]
    for key, value in element.attrib.items():
        own = local_name(key)
        if own not in known and own not in SETTINGS.get(tag, ()) and not key.startswith("{") and not _is_zero(value):
            yield tag, f"'{key}'", name
    for child in element.iterchildren("*"):
        own = local_name(child.tag)
        of = f"'{child.get('name')}'" if tag == "robot" and child.get("name") else name
        if own in children:
            yield from _unread(child, own, of)
        elif own == "gazebo":
            yield from _simulated(child)
        elif (
            own not in WITHOUT_DYNAMICS.get(tag, ())
            and (own == child.tag or own in LOOPS)
            and not _without_effect(child, own)
        ):
            yield own, "", of


def _without_effect(element: Any, tag: str) -> bool:
    """Return whether all numbers of an element are 0, or 1 for gravity, so that it changes nothing."""
    text = (element.text or "").strip().lower()
    if tag == "gravity":
        return text in ("1", "true")
    values = [*element.attrib.values(), *([text] if text else [])]
    return bool(values) and not len(element) and all(map(_is_zero, values))


def _simulated(gazebo: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the elements of `SIMULATED` in a <gazebo> element, in the form of `_unread`."""
    for child in gazebo.iterchildren(*SIMULATED):
        if child.tag == "joint" or not _is_zero(child.text or "0"):
            yield f"{child.tag}> in <gazebo", "", f"'{child.get('name') or gazebo.get('reference') or 'robot'}'"


def _is_zero(text: str) -> bool:
    """Return whether a text holds only zeros."""
    try:
        return not any(float(word) for word in text.split())
    except ValueError:
        return text == "false"


def _hint(tag: str) -> str:
    closes = tag in LOOPS or tag.startswith("joint>")
    return "; robot.with_loop closes a loop" if closes else ""


def listed(names: list[str]) -> str:
    """Return the first names as one text, and how many more there are."""
    own = list(dict.fromkeys(names))
    return ", ".join(own[:MAX_LISTED]) + (f" and {len(own) - MAX_LISTED} more" if len(own) > MAX_LISTED else "")
