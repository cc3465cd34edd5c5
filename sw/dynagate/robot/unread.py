"""List what a URDF file has that this package does not read, so that one warning names it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
    "link": frozenset(["visual", "collision", "material", "self_collision_checking", "sensor", "contact"]),
    "joint": frozenset(["safety_controller", "calibration", "hardwareInterface"]),
}
"""Children that change no rigid-body dynamics: shapes, sensors, software limits and settings of simulators. Those of
transmissions are looked at for rotors."""

ROTORS = ("rotor_inertia", "rotorInertia", "motorInertia", "armature")
"""Local names of elements in a transmission that give the inertia of a rotor."""

LOOPS = ("constraint", "ball_constraint", "loop_joint", "linear_bushing_rpy")
"""Local names of elements that close loops."""

SHOWN = 4
VERSIONS = ("1", "1.0", "1.1", "1.2")


def unread(root: Any) -> Iterator[str]:
    """Yield what is not read in a file's <robot> element, in words with the names of the elements."""
    if (version := root.get("version")) not in (None, *VERSIONS):
        yield f"version='{version}' is read as 1.2"
    left: dict[str, list[str]] = {}
    for what, name in _left(root, "robot", "robot"):
        left.setdefault(what, []).append(name)
    for what, names in left.items():
        yield f"{what} of {_listed(names)} is not read{_instead(what)}"
    rotors = [
        str(each.get("name"))
        for each in root.iterfind("transmission")
        if any(_local(part.tag) in ROTORS for part in each.iter("*"))
    ]
    if rotors:
        yield (
            f"rotor inertia and gear ratio of transmission {_listed(rotors)} are not read; "
            "robot.with_armature(rotor inertia, gear ratio) adds them"
        )


def _left(element: Any, tag: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield what is not read of an element and below it, with the name of the link or joint. Elements with a prefix are
    extensions of other programs, of which those that close loops are named."""
    attributes, children = READ[tag]
    for key in element.attrib:
        if _local(key) not in attributes and not key.startswith("{"):
            yield f"attribute '{key}' in <{tag}>", name
    for child in element.iterchildren("*"):
        own = _local(child.tag)
        if own in children:
            yield from _left(child, own, f"'{child.get('name')}'" if tag == "robot" else name)
        elif own not in WITHOUT_DYNAMICS.get(tag, ()) and (own == child.tag or own in LOOPS):
            yield f"<{own}>", f"'{child.get('name')}'" if tag == "robot" and child.get("name") else name


def _local(tag: str) -> str:
    """Return a tag without its namespace or prefix."""
    return tag.rpartition("}")[2].rpartition(":")[2]


def _instead(what: str) -> str:
    return "; robot.with_loop closes a loop" if what.strip("<>") in LOOPS else ""


def _listed(names: list[str]) -> str:
    own = list(dict.fromkeys(names))
    return ", ".join(own[:SHOWN]) + (f" and {len(own) - SHOWN} more" if len(own) > SHOWN else "")
