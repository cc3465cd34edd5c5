"""Write a robot as a URDF file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np

from dynagate.base.storage import write
from dynagate.base.warned import warn
from dynagate.robot.arguments import path_of
from dynagate.robot.constraint import Constraint
from dynagate.robot.errors import RobotError, RobotWarning
from dynagate.robot.parts import Frame, Joint, Link
from dynagate.robot.tree import RobotTree
from dynagate.robot.vectors import IDENTITY, STANDARD_GRAVITY, Matrix3, Vector3

DRAKE = "http://drake.mit.edu"
"""XML namespace of the elements for rotor inertias."""

TYPES = {"point": "spherical", "fixed": "fixed", "hinge": "revolute"}
"""Kind of a loop -> type of a <constraint>."""


def urdf_of(robot: RobotTree) -> str:
    """Return a robot as the text of a URDF file. A RobotWarning lists what URDF cannot express.

    Raises:
        RobotError: Two links, frames or joints have the same name, or a joint has only one position limit.
    """
    from lxml import etree

    root: Any = etree.Element("robot", name=robot.name, nsmap={"drake": DRAKE})
    base = _base(robot)
    loops = [constraint for constraint in robot.constraints if _is_written(constraint)]
    ends = {name for loop in loops if _name(loop) for name in (loop.frame, loop.to)}
    frames = [frame for frame in robot.frames if frame.name != base and frame.name not in ends]
    names = [base, *(link.name for link in robot.links), *(frame.name for frame in frames)]
    fixed = _free_names([f"{frame.name}_fixed" for frame in frames], robot.joint_names)
    _check_distinct("link or frame", names)
    _check_distinct("joint", list(robot.joint_names))
    etree.SubElement(root, "link", name=base)
    above = [base, *(link.name for link in robot.links)]  # name of the link with index i at i + 1
    for link in robot.links:
        _add_link(root, link)
        _add_joint(root, link.joint, above[link.parent + 1], link.name)
    for frame, joint in zip(frames, fixed, strict=True):
        etree.SubElement(root, "link", name=frame.name)
        element = etree.SubElement(root, "joint", name=joint, type="fixed")
        _add_ends(element, above[frame.link + 1], frame.name)
        _add_origin(element, "origin", frame.rotation, frame.translation)
    for link in robot.links:
        if link.joint.armature:
            _add_rotor(root, link.joint)
    for loop in loops:
        _add_loop(root, robot, loop, above)
    left = list(_left_out(robot, loops))
    if left:
        warn(
            f"URDF cannot express {', '.join(left)} of robot '{robot.name}'; the file is without",
            RobotWarning,
            code="DG-ROBOT-129",
        )
    etree.indent(root)
    return str(etree.tostring(root, encoding="unicode")) + "\n"


def write_urdf(text: str, path: str | PathLike[str]) -> None:
    """Write the text of a robot to a file. The file is either complete or unchanged. Raise RobotError if it cannot be
    written.
    """
    write(path_of(path, "to_urdf"), text, RobotError)


def _base(robot: RobotTree) -> str:
    """Return the name of the base: that of a frame at its origin, or a new name."""
    for frame in robot.frames:
        if frame.link < 0 and frame.rotation == IDENTITY and not any(frame.translation):
            return frame.name
    return _free_names(["base"], [*(link.name for link in robot.links), *(frame.name for frame in robot.frames)])[0]


def _free_names(names: list[str], taken: Any) -> list[str]:
    """Return names with _ appended to those that already exist."""
    free: list[str] = []
    for each in names:
        name = each
        while name in taken or name in free:
            name += "_"
        free.append(name)
    return free


def _check_distinct(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise RobotError(
                f"{names.count(name)} parts have the name '{name}' of a {what}; expected one in a file",
                code="DG-ROBOT-130",
            )


def _numbers(values: Any) -> str:
    return " ".join(repr(float(value) + 0.0) for value in np.ravel(values))


def _sub(element: Any, tag: str, **attributes: str) -> Any:
    child = element.makeelement(tag, attributes)
    element.append(child)
    return child


def _add_ends(element: Any, parent: str, child: str) -> None:
    _sub(element, "parent", link=parent)
    _sub(element, "child", link=child)


def _add_origin(element: Any, tag: str, rotation: Matrix3, translation: Vector3) -> None:
    _sub(element, tag, xyz=_numbers(translation), rpy=_numbers(rpy_of(np.array(rotation))))


def rpy_of(rotation: np.ndarray) -> tuple[float, float, float]:
    """Return roll, pitch and yaw of a rotation (3, 3), rad, also if the roll and yaw axes coincide."""
    across = math.hypot(rotation[0, 0], rotation[1, 0])
    pitch = math.atan2(-rotation[2, 0], across)
    yaw = math.atan2(rotation[1, 0], rotation[0, 0])
    c, s = math.cos(yaw), math.sin(yaw)
    y = np.array([-s, c, 0.0])  # the y axis after yaw and pitch
    return math.atan2(float(-(y @ rotation[:, 2])), float(y @ rotation[:, 1])), pitch, yaw


def _add_link(root: Any, link: Link) -> None:
    """Add a <link> element with its inertia."""
    element = _sub(root, "link", name=link.name)
    if not (link.mass or np.any(link.inertia)):
        return
    inertial = _sub(element, "inertial")
    _sub(inertial, "origin", xyz=_numbers(link.com))
    _sub(inertial, "mass", value=repr(float(link.mass)))
    entries = zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), np.array(link.inertia)[np.triu_indices(3)], strict=True)
    _sub(inertial, "inertia", **{key: repr(float(value)) for key, value in entries})


def _add_joint(root: Any, joint: Joint, parent: str, child: str) -> None:
    """Add a <joint> element with its pose, axis, limits, dynamics and mimic."""
    element = _sub(root, "joint", name=joint.name, type=joint.type)
    _add_ends(element, parent, child)
    _add_origin(element, "origin", joint.rotation, joint.translation)
    if joint.kind.has_axis:
        _sub(element, "axis", xyz=_numbers(joint.axis))
    limit = {key: repr(value) for key in ("effort", "velocity") if (value := getattr(joint, key)) is not None}
    if joint.kind.limited:
        if (joint.lower is None) != (joint.upper is None):
            raise RobotError(
                f"joint '{joint.name}' has one limit of its position; expected both or none in a file",
                code="DG-ROBOT-131",
            )
        low, high = (-math.inf, math.inf) if joint.lower is None else (joint.lower, joint.upper)
        limit |= {"lower": repr(low), "upper": repr(high)}
    if limit:
        _sub(element, "limit", **limit)
    if joint.damping or joint.friction:
        _sub(element, "dynamics", damping=repr(float(joint.damping)), friction=repr(float(joint.friction)))
    if joint.mimic is not None:
        mimic = joint.mimic
        _sub(element, "mimic", joint=mimic.joint, multiplier=repr(mimic.multiplier), offset=repr(mimic.offset))


def _add_rotor(root: Any, joint: Joint) -> None:
    """Add an armature as the rotor inertia of a transmission with gear ratio 1."""
    transmission = _sub(root, "transmission", name=f"{joint.name}_transmission")
    _sub(transmission, "type").text = "transmission_interface/SimpleTransmission"
    _sub(transmission, "joint", name=joint.name)
    actuator = _sub(transmission, "actuator", name=f"{joint.name}_motor")
    _sub(actuator, f"{{{DRAKE}}}rotor_inertia", value=repr(float(joint.armature)))
    _sub(actuator, f"{{{DRAKE}}}gear_ratio", value="1")


def _is_written(constraint: Constraint) -> bool:
    """Return whether a <constraint> element can express a loop."""
    plain = not (constraint.stiffness or constraint.damping or constraint.compliance or constraint.moment_compliance)
    return bool(constraint.to) and constraint.kind in TYPES and plain


def _name(loop: Constraint) -> str:
    """Return the name of a loop whose frames are NAME_1 and NAME_2, or "" if its frames have other names."""
    name = loop.frame.removesuffix("_1")
    return name if (loop.frame, loop.to) == (f"{name}_1", f"{name}_2") else ""


def _add_loop(root: Any, robot: RobotTree, loop: Constraint, above: list[str]) -> None:
    """Add a <constraint> element for a loop. `above` holds the names of the base and of all links."""
    element = _sub(root, "constraint", name=_name(loop) or f"{loop.frame}_{loop.to}", type=TYPES[loop.kind])
    for side, name in (("parent", loop.frame), ("child", loop.to)):
        frame: Frame = robot.frame(name)
        _sub(element, side, link=above[frame.link + 1])
        _add_origin(element, f"{side}_origin", frame.rotation, frame.translation)
        _sub(element, f"{side}_axis", xyz="0 0 1")


def _left_out(robot: RobotTree, loops: list[Constraint]) -> Iterator[str]:
    """Yield descriptions of what URDF cannot express about a robot."""
    if robot.gravity != STANDARD_GRAVITY:
        yield f"gravity {robot.gravity}"
    yield from (constraint.text for constraint in robot.constraints if constraint not in loops)
    if robot.passive:
        yield f"passive joints {', '.join(robot.passive)}"
    if robot.variable:
        yield f"variable parameters {', '.join(robot.variable)}"
    if robot.friction_speed:
        yield "the speed of friction"
