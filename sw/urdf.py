"""URDF file -> Robot.

The XML is read by lxml; what URDF means, with no silent defaults for what the dynamics depend on, is read here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from dynagate.robot import (
    IDENTITY,
    JOINT_TYPES,
    STANDARD_GRAVITY,
    Joint,
    Link,
    Matrix3,
    Robot,
    RobotError,
    Vector3,
    check_inertia,
    matrix3,
    snap,
    vector3,
)

MAX_BYTES = 16 * 2**20
ROOT_JOINT = "root_joint"
"""The joint of a floating base, named as Pinocchio names it."""

NOTHING: tuple[float, Vector3, Matrix3] = (0.0, (0.0, 0.0, 0.0), ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)))


@dataclass(frozen=True)
class Options:
    """What `read_urdf` is told besides the file."""

    floating_base: bool
    gravity: Vector3
    lock: Mapping[str, float]
    damping: bool
    ignore_friction: bool
    allow_unphysical: bool
    round_rotations: float


def read_urdf(
    path: str | PathLike[str],
    *,
    floating_base: bool = False,
    gravity: Vector3 = STANDARD_GRAVITY,
    lock: Mapping[str, float] | None = None,
    damping: bool = True,
    ignore_friction: bool = False,
    allow_unphysical: bool = False,
    round_rotations: float = 1e-9,
) -> Robot:
    """Read a robot. Fixed joints are merged into the link above them; what is fixed to the base is dropped.

    floating_base: the root link moves freely, by a floating joint called ROOT_JOINT, instead of being the base.
    lock: joints to hold at a position (rad or m), by name, as if they were fixed there.
    damping: whether joint damping that the file gives is modelled. ignore_friction: leave out Coulomb friction, which
    is not modelled and otherwise refused by name. allow_unphysical: accept masses and inertias that no body has.
    round_rotations: rotation entries this near to 0 or ±1 are taken to be so. Files write π/2 with ten digits or so,
    and 5e-12 instead of 0 costs a multiplier.

    Raises RobotError: the file is missing, too large, not XML, or describes no tree of supported joints with
    physical inertias. The text starts with the file's name and names the joint or link.
    """
    path = Path(path)
    options = Options(floating_base, gravity, lock or {}, damping, ignore_friction, allow_unphysical, round_rotations)
    try:
        return _robot(_root(path), options)
    except RobotError as error:
        raise RobotError(f"{path.name}: {error}") from None


def _root(path: Path) -> Any:
    from lxml import etree

    if not path.is_file():
        raise RobotError(f"no such file ({path}); expected a URDF file")
    if path.stat().st_size > MAX_BYTES:
        raise RobotError(f"{path.stat().st_size} bytes; a URDF of more than {MAX_BYTES} bytes is refused")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        tree = etree.parse(str(path), parser=parser)
    except etree.XMLSyntaxError as error:
        raise RobotError(f"not well-formed XML: {error.msg}") from None
    if tree.docinfo.doctype:
        raise RobotError("has a document type declaration; entities are refused, expected plain URDF")
    root = tree.getroot()
    if root.tag != "robot":
        raise RobotError(f"root element is <{root.tag}>; expected <robot>")
    return root


def _robot(root: Any, options: Options) -> Robot:
    link_elements = _named(root, "link")
    joint_elements = _named(root, "joint")
    if not link_elements:
        raise RobotError("has no <link>; expected at least one")
    for name in options.lock:
        if name not in joint_elements:
            raise RobotError(f"lock names joint '{name}', which the file does not define")
    children: dict[str, list[str]] = {name: [] for name in link_elements}
    joint_above: dict[str, str] = {}
    for name, element in joint_elements.items():
        parent, child = (_end_of_joint(element, name, end, link_elements) for end in ("parent", "child"))
        if child in joint_above:
            raise RobotError(
                f"link '{child}' is the child of joints '{joint_above[child]}' and '{name}': a loop; expected a tree"
            )
        joint_above[child] = name
        children[parent].append(name)
    roots = [name for name in link_elements if name not in joint_above]
    if not roots:
        raise RobotError(f"the joints {_some(joint_elements)} form a loop; expected a tree with one root link")
    if len(roots) > 1:
        raise RobotError(f"has {len(roots)} root links ({_some(roots)}); expected one")

    links: list[Link] = []
    seen = set()
    # depth first, so that a chain's links are numbered one after another:
    # link name, the joint above it, the moving link that joint sits on, the joint's pose in that link's frame
    base = -1
    if options.floating_base:
        if ROOT_JOINT in joint_elements:
            raise RobotError(f"has a joint '{ROOT_JOINT}', which is the name of a floating base's own joint")
        base = 0
        links.append(Link(roots[0], -1, Joint(ROOT_JOINT, "floating"), *_inertial(link_elements[roots[0]], options)))
    stack: list[tuple[str, str | None, int, np.ndarray, np.ndarray]] = [(roots[0], None, base, np.eye(3), np.zeros(3))]
    while stack:
        name, joint_name, owner, rotation, translation = stack.pop()
        seen.add(name)
        if joint_name is not None:
            element = joint_elements[joint_name]
            kind = _attribute(element, "type", f"joint '{joint_name}'")
            if joint_name in options.lock and kind != "fixed":
                rotation, translation = _locked(element, joint_name, kind, rotation, translation, options)
                kind = "fixed"
            if kind != "fixed":
                joint = _joint(element, joint_name, kind, rotation, translation, options)
                links.append(Link(name, owner, joint, *_inertial(link_elements[name], options)))
                owner, rotation, translation = len(links) - 1, np.eye(3), np.zeros(3)
            elif owner >= 0:
                links[owner] = _merge(links[owner], link_elements[name], rotation, translation, options)
        for below in reversed(children[name]):
            turn, shift = _origin(joint_elements[below], f"joint '{below}'", options)
            child = joint_elements[below].find("child").get("link")
            stack.append(
                (child, below, owner, snap(rotation @ turn, options.round_rotations), rotation @ shift + translation)
            )
    unreached = [name for name in link_elements if name not in seen]
    if unreached:
        raise RobotError(f"links {_some(unreached)} form a loop away from the root '{roots[0]}'; expected a tree")
    if not options.allow_unphysical:
        for link in links:
            if link.mass != 0.0 or np.any(link.inertia):
                check_inertia(link.name, link.mass, link.com, link.inertia)
        _check_masses(links)
    return Robot(root.get("name") or "robot", tuple(links), vector3(options.gravity))


def _check_masses(links: list[Link]) -> None:
    """A link without mass moves only what is below it: frames between the axes of one joint are made so."""
    moved = [link.mass for link in links]
    for i in reversed(range(len(links))):
        if moved[i] == 0.0:
            raise RobotError(
                f"link '{links[i].name}' moves but has no mass, nor has any link beyond it; expected an <inertial>, or "
                f"lock= to hold joint '{links[i].joint.name}'"
            )
        if links[i].parent >= 0:
            moved[links[i].parent] += moved[i]


def _check_type(name: str, kind: str) -> None:
    if kind not in JOINT_TYPES:
        raise RobotError(f"joint '{name}' has type '{kind}'; supported: {', '.join(JOINT_TYPES)}, fixed")


def _axis(element: Any, where: str, options: Options) -> np.ndarray:
    """Unit vector; (1, 0, 0) where the file gives none, as URDF says."""
    found = element.find("axis")
    axis = np.array([1.0, 0.0, 0.0]) if found is None else _numbers(found, "xyz", where, 3)
    length = float(np.linalg.norm(axis))
    if length < 1e-9:
        raise RobotError(f"{where} has axis {axis.tolist()}; expected a direction that is not zero")
    return snap(axis / length, options.round_rotations)


def _locked(
    element: Any, name: str, kind: str, rotation: np.ndarray, translation: np.ndarray, options: Options
) -> tuple[np.ndarray, np.ndarray]:
    """Pose of the link below a moving joint that is held at its position."""
    _check_type(name, kind)
    if kind in ("spherical", "floating"):
        raise RobotError(
            f"joint '{name}' is {kind} and has no single position to lock it at; make it fixed in the file"
        )
    axis, position = _axis(element, f"joint '{name}'", options), options.lock[name]
    if kind == "prismatic":
        return rotation, translation + rotation @ axis * position
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    turn = np.eye(3) + math.sin(position) * cross + (1.0 - math.cos(position)) * cross @ cross  # Rodrigues
    return snap(rotation @ turn, options.round_rotations), translation


def _joint(
    element: Any, name: str, kind: str, rotation: np.ndarray, translation: np.ndarray, options: Options
) -> Joint:
    where = f"joint '{name}'"
    _check_type(name, kind)
    if element.find("mimic") is not None:
        raise RobotError(f"{where} mimics another joint; mimic joints are not supported, lock= holds them")
    free = kind in ("spherical", "floating")
    axis = np.array([0.0, 0.0, 1.0]) if free else _axis(element, where, options)
    limit = element.find("limit")
    if kind in ("revolute", "prismatic") and (
        limit is None or limit.get("lower") is None or limit.get("upper") is None
    ):
        way_out = "give them or make it continuous" if kind == "revolute" else "give them"
        raise RobotError(f"{where} is {kind} but has no <limit lower= upper=>; {way_out}")
    bounds = {
        key: None if limit is None or limit.get(key) is None else float(_numbers(limit, key, where, 1)[0])
        for key in ("lower", "upper", "velocity", "effort")
    }
    if free or kind == "continuous":
        bounds["lower"] = bounds["upper"] = None
    elif not bounds["lower"] < bounds["upper"]:  # type: ignore[operator]
        raise RobotError(f"{where} has limits [{bounds['lower']}, {bounds['upper']}]; expected lower < upper")
    for key in ("velocity", "effort"):
        value = bounds[key]
        if value is not None and value < 0.0:
            raise RobotError(f"{where} has a negative {key} limit ({value:g})")
    damping = 0.0
    dynamics = element.find("dynamics")
    if dynamics is not None:
        damping = float(_numbers(dynamics, "damping", where, 1)[0]) if dynamics.get("damping") else 0.0
        friction = float(_numbers(dynamics, "friction", where, 1)[0]) if dynamics.get("friction") else 0.0
        if friction != 0.0 and not options.ignore_friction:
            raise RobotError(
                f"{where} has friction {friction:g}; Coulomb friction is not modelled, expected 0 or ignore_friction"
            )
        if damping < 0.0:
            raise RobotError(f"{where} has damping {damping:g}; expected 0 or more")
    return Joint(
        name,
        kind,
        matrix3(rotation),
        vector3(translation),
        vector3(axis),
        lower=bounds["lower"],
        upper=bounds["upper"],
        velocity=bounds["velocity"],
        effort=bounds["effort"],
        damping=damping if options.damping else 0.0,
    )


def _inertial(link: Any, options: Options) -> tuple[float, Vector3, Matrix3]:
    """(mass, centre of mass, inertia about it) of a moving link, in the link frame; zeros where it is a mere frame."""
    inertial = link.find("inertial")
    if inertial is None:
        return NOTHING
    mass, com, inertia = _mass_distribution(inertial, f"link '{link.get('name')}'", options)
    return mass, vector3(com), matrix3(inertia)


def _mass_distribution(inertial: Any, where: str, options: Options) -> tuple[float, np.ndarray, np.ndarray]:
    mass_element, inertia_element = inertial.find("mass"), inertial.find("inertia")
    if mass_element is None:
        raise RobotError(f"{where} has an <inertial> without <mass value=>")
    if inertia_element is None:
        raise RobotError(f"{where} has an <inertial> without <inertia ixx= ... izz=>")
    mass = float(_numbers(mass_element, "value", where, 1)[0])
    if mass < 0.0 and not options.allow_unphysical:
        raise RobotError(f"{where} has mass {mass:g} kg; expected 0 or more")
    xx, xy, xz, yy, yz, zz = (
        float(_numbers(inertia_element, key, where, 1)[0]) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    )
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    rotation, com = _origin(inertial, where, options)
    return mass, com, rotation @ inertia @ rotation.T


def _merge(link: Link, fixed: Any, rotation: np.ndarray, translation: np.ndarray, options: Options) -> Link:
    """The link with a body bolted to it, whose frame has the given pose in the link's frame."""
    inertial = fixed.find("inertial")
    if inertial is None:
        return link
    mass, com, inertia = _mass_distribution(inertial, f"link '{fixed.get('name')}'", options)
    com = rotation @ com + translation
    inertia = rotation @ inertia @ rotation.T
    return link.joined(mass, vector3(com), matrix3(inertia))


def _origin(element: Any, where: str, options: Options) -> tuple[np.ndarray, np.ndarray]:
    """Rotation (roll, pitch, yaw about fixed axes) and translation of <origin>; the identity where it is absent."""
    origin = element.find("origin")
    if origin is None:
        return np.array(IDENTITY), np.zeros(3)
    xyz = _numbers(origin, "xyz", where, 3) if origin.get("xyz") is not None else np.zeros(3)
    roll, pitch, yaw = _numbers(origin, "rpy", where, 3) if origin.get("rpy") is not None else np.zeros(3)
    (cr, sr), (cp, sp), (cy, sy) = ((math.cos(a), math.sin(a)) for a in (roll, pitch, yaw))
    rotation: Matrix3 = (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )
    return snap(rotation, options.round_rotations), xyz


def _named(root: Any, tag: str) -> dict[str, Any]:
    elements: dict[str, Any] = {}
    for element in root.findall(tag):
        name = element.get("name")
        if not name:
            raise RobotError(f"line {element.sourceline}: a <{tag}> has no name")
        if name in elements:
            raise RobotError(f"line {element.sourceline}: a second <{tag}> is named '{name}'")
        elements[name] = element
    return elements


def _end_of_joint(element: Any, joint: str, end: str, links: dict[str, Any]) -> str:
    found = element.find(end)
    name = None if found is None else found.get("link")
    if not name:
        raise RobotError(f"joint '{joint}' has no <{end} link=>")
    if name not in links:
        raise RobotError(f"joint '{joint}' has {end} link '{name}', which the file does not define")
    return name


def _attribute(element: Any, key: str, where: str) -> str:
    value = element.get(key)
    if value is None:
        raise RobotError(f"{where}: <{element.tag}> has no attribute '{key}'")
    return value


def _numbers(element: Any, key: str, where: str, count: int) -> np.ndarray:
    text = _attribute(element, key, where)
    try:
        values = np.array([float(word) for word in text.split()])
    except ValueError:
        raise RobotError(f"{where}: <{element.tag} {key}='{text}'> is not made of numbers") from None
    if len(values) != count or not np.isfinite(values).all():
        raise RobotError(f"{where}: <{element.tag} {key}='{text}'>; expected {count} finite number(s)")
    return values


def _some(names: Any) -> str:
    names = sorted(names)
    shown = ", ".join(f"'{name}'" for name in names[:4])
    return shown + (", ..." if len(names) > 4 else "")
