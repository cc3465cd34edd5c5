"""Checks of a robot's parts against each other. No check changes what a caller passed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynagate.base.arguments import AT_LEAST_ZERO, FINITE, is_finite, is_number, number, numbers, shown
from dynagate.base.nearest import nearest
from dynagate.base.upper_limits import MAX_CONSTRAINT_ROWS
from dynagate.robot.constraint import CONSTRAINT_ROWS, CONTACTS, LEAST_COMPLIANCE, LOOPS, Constraint
from dynagate.robot.errors import RobotError
from dynagate.robot.inertia import OR_TOO_LARGE, check_array, is_small
from dynagate.robot.kinds import KINDS, single_kinds
from dynagate.robot.options import GRAVITY
from dynagate.robot.parts import SMALLEST_RATIO, UNPRINTABLE, Frame, Joint, Link, Mimic
from dynagate.robot.vectors import Vector3, vector3


def check_world(name: str, links: Sequence[Link], gravity: Vector3, friction_speed: float) -> None:
    """Raise RobotError if a robot has an unprintable name, no links, or an invalid gravity or friction speed."""
    if not name.isprintable():
        raise RobotError(f"robot {name!r}: {UNPRINTABLE}", code="DG-ROBOT-075")
    if not len(links):
        raise RobotError(f"robot '{name}' has no moving joint; expected at least one", code="DG-ROBOT-076")
    numbers(f"robot '{name}' has gravity ", gravity, (3,), GRAVITY, RobotError)
    number(f"robot '{name}' has friction_speed ", friction_speed, AT_LEAST_ZERO, RobotError)


def check_links(links: Sequence[Link]) -> None:
    """Raise RobotError if a link or its joint has an invalid field."""
    for index, link in enumerate(links):
        _check_link(index, link)
        if link.joint.mimic is not None:
            _check_mimic(links, link.joint, link.joint.mimic)


def _check_link(index: int, link: Link) -> None:
    """Raise RobotError if link number `index` or its joint has an invalid field."""
    for kind, name in (("link", link.name), ("joint", link.joint.name)):
        if not name.isprintable():
            raise RobotError(f"{kind} {name!r}: {UNPRINTABLE}", code="DG-ROBOT-077")
    if not -1 <= link.parent < index:
        raise RobotError(
            f"link '{link.name}' has parent index {link.parent}; expected -1 (the base) to {index - 1}",
            code="DG-ROBOT-078",
        )
    if link.joint.type not in KINDS:
        raise RobotError(
            f"joint '{link.joint.name}' has type '{link.joint.type}'; supported: {', '.join(KINDS)}, fixed",
            code="DG-ROBOT-079",
        )
    _check_entries(link)
    if not is_small([*link.joint.translation, *np.ravel(link.joint.rotation), *link.joint.axis]):
        raise RobotError(
            f"joint '{link.joint.name}' has an origin or axis that is not finite{OR_TOO_LARGE}", code="DG-ROBOT-080"
        )
    if abs(math.hypot(*link.joint.axis) - 1.0) > 1e-9:
        raise RobotError(
            f"joint '{link.joint.name}' has axis {link.joint.axis}; expected a unit vector", code="DG-ROBOT-081"
        )
    if not link.joint.kind.has_axis and link.joint.axis != (0.0, 0.0, 1.0):
        raise RobotError(
            f"joint '{link.joint.name}' is {link.joint.type} and has no axis; leave it (0, 0, 1)", code="DG-ROBOT-082"
        )
    for name in ("damping", "armature", "friction"):
        value = getattr(link.joint, name)
        number(f"joint '{link.joint.name}' has {name} ", value, AT_LEAST_ZERO, RobotError)
    if not is_small([link.mass, *link.com, *np.ravel(link.inertia)]):
        raise RobotError(
            f"link '{link.name}' has a mass, center of mass or inertia that is not finite{OR_TOO_LARGE}",
            code="DG-ROBOT-083",
        )


def _check_entries(link: Link) -> None:
    """Raise RobotError if a field of a link or its joint is not a number, or is an array of another shape."""
    joint = link.joint
    for label, value, shape in (
        (f"joint '{joint.name}' has a translation that", joint.translation, (3,)),
        (f"joint '{joint.name}' has a rotation that", joint.rotation, (3, 3)),
        (f"joint '{joint.name}' has an axis that", joint.axis, (3,)),
        (f"link '{link.name}' has a mass that", link.mass, ()),
        (f"link '{link.name}' has a center of mass that", link.com, (3,)),
        (f"link '{link.name}' has an inertia that", link.inertia, (3, 3)),
    ):
        check_array(label, value, shape)
    for name in ("lower", "upper", "velocity", "effort"):
        value = getattr(joint, name)
        if value is not None and not (is_number(value) and value == value):
            raise RobotError(
                f"joint '{joint.name}' has {name} {shown(value)}; expected a number, or None", code="DG-ROBOT-084"
            )


def _check_mimic(links: Sequence[Link], joint: Joint, mimic: Mimic) -> None:
    """Raise RobotError if a joint cannot follow the joint that it mimics, or the multiplier or offset is invalid."""
    if not joint.kind.single:
        raise RobotError(
            f"joint '{joint.name}' is {joint.type}; expected one of {', '.join(single_kinds())} to mimic another",
            code="DG-ROBOT-085",
        )
    leaders = [link.joint for link in links if link.joint.name == mimic.joint]
    if not leaders:
        raise RobotError(
            f"joint '{joint.name}' mimics joint '{mimic.joint}', which the robot does not have", code="DG-ROBOT-086"
        )
    if len(leaders) > 1:
        raise RobotError(
            f"joint '{joint.name}' mimics '{mimic.joint}', which is the name of {len(leaders)} joints",
            code="DG-ROBOT-087",
        )
    (leader,) = leaders
    if leader.mimic is not None or not leader.kind.single:
        kind = "mimics another" if leader.mimic else f"is {leader.type}"
        raise RobotError(
            f"joint '{joint.name}' mimics joint '{leader.name}', which {kind}; expected a joint of one degree of "
            "freedom of its own",
            code="DG-ROBOT-088",
        )
    known = is_finite(mimic.multiplier) and is_finite(mimic.offset)
    if not (known and SMALLEST_RATIO <= abs(mimic.multiplier) <= 1.0 / SMALLEST_RATIO):
        raise RobotError(
            f"joint '{joint.name}' mimics joint '{mimic.joint}' with multiplier {shown(mimic.multiplier)} and "
            f"offset {shown(mimic.offset)}; expected a multiplier of size {SMALLEST_RATIO:g} to "
            f"{1.0 / SMALLEST_RATIO:g} and a finite offset",
            code="DG-ROBOT-089",
        )


def check_frames(links: Sequence[Link], frames: Sequence[Frame]) -> None:
    """Raise RobotError if a frame has an invalid field."""
    for frame in frames:
        check_frame(links, frame)


def check_frame(links: Sequence[Link], frame: Frame) -> None:
    """Raise RobotError if a frame is on a link that does not exist, or has no pose."""
    if not frame.name.isprintable():
        raise RobotError(f"frame {frame.name!r}: {UNPRINTABLE}", code="DG-ROBOT-090")
    if not -1 <= frame.link < len(links):
        raise RobotError(
            f"frame '{frame.name}' is on link {frame.link}; expected -1 to {len(links) - 1}", code="DG-ROBOT-091"
        )
    check_array(f"frame '{frame.name}' has a translation that", frame.translation, (3,))
    check_array(f"frame '{frame.name}' has a rotation that", frame.rotation, (3, 3))
    turn = np.array(frame.rotation)
    if not is_small([*turn.flat, *frame.translation]):
        raise RobotError(f"frame '{frame.name}' has a pose that is not finite{OR_TOO_LARGE}", code="DG-ROBOT-092")
    if np.abs(turn @ turn.T - np.eye(3)).max() > 1e-9 or np.linalg.det(turn) < 0.0:
        raise RobotError(
            f"frame '{frame.name}' has rotation {turn.tolist()}; expected a rotation matrix", code="DG-ROBOT-093"
        )


def frame_of(robot: str, links: Sequence[Link], frames: Sequence[Frame], name: str) -> Frame:
    """Return a link or frame by its name. Raise RobotError that lists the names if it does not exist.

    Args:
        robot: Name of the robot, for the error.
        links: Links of the robot.
        frames: Frames of the robot.
        name: Name of the link or frame.
    """
    for i, link in enumerate(links):
        if link.name == name:
            return Frame(name, i)
    for frame in frames:
        if frame.name == name:
            return frame
    names = [link.name for link in links] + [frame.name for frame in frames]
    raise RobotError(
        f"robot '{robot}' has no frame '{name}'{nearest(name, names)}; expected one of {', '.join(names)}",
        code="DG-ROBOT-094",
    )


def checked_constraints(
    robot: str, links: Sequence[Link], frames: Sequence[Frame], constraints: Sequence[Constraint]
) -> tuple[Constraint, ...]:
    """Return the constraints with normals of length 1. Raise RobotError if a constraint is invalid.

    Args:
        robot: Name of the robot, for errors.
        links: Links of the robot.
        frames: Frames of the robot.
        constraints: Constraints to check.
    """
    _check_rows(robot, constraints)
    checked: list[Constraint] = []
    for constraint in constraints:
        _check_names(robot, constraint)
        if constraint.of_joints:
            checked.append(_of_joints(robot, links, constraint))
        else:
            _check_places(robot, links, frames, constraint)
            checked.append(constraint)
        ends = [(other.of_joints, {other.frame, other.to}) for other in constraints]
        if ends.count((constraint.of_joints, {constraint.frame, constraint.to})) > 1:
            raise RobotError(
                f"robot '{robot}' has two constraints that are {constraint.text}; expected one", code="DG-ROBOT-095"
            )
        _check_gains(constraint)
        checked[-1] = _with_unit_normal(checked[-1])
        if constraint.stiffness and constraint.is_contact:
            raise RobotError(
                f"{constraint.text} has stiffness {constraint.stiffness:g}; expected 0: only loops know where to",
                code="DG-ROBOT-096",
            )
    return tuple(checked)


def _check_rows(robot: str, constraints: Sequence[Constraint]) -> None:
    """Raise RobotError if the constraints fix too many directions. Their kinds are not checked yet."""
    rows = sum(CONSTRAINT_ROWS.get(each.kind, 1) if isinstance(each.kind, str) else 1 for each in constraints)
    if rows > MAX_CONSTRAINT_ROWS:
        raise RobotError(
            f"the {len(constraints)} constraints of robot '{robot}' have {rows} rows; expected at most "
            f"{MAX_CONSTRAINT_ROWS}: hold fewer frames, or hold them at points",
            code="DG-ROBOT-097",
        )


def _check_names(robot: str, constraint: Constraint) -> None:
    """Raise RobotError if a name or the kind of a constraint is not a text."""
    for what in ("frame", "kind", "to"):
        name = getattr(constraint, what)
        if not isinstance(name, str):
            raise RobotError(
                f"a constraint of robot '{robot}' has {what}={name!r}; expected a name", code="DG-ROBOT-098"
            )


def _check_gains(constraint: Constraint) -> None:
    """Raise RobotError if a gain of a constraint is negative or not finite, or a compliance is lost in rounding."""
    for what in ("stiffness", "damping", "compliance", "moment_compliance"):
        if getattr(constraint, what) is None:
            continue
        value = number(f"{constraint.text} has {what} ", getattr(constraint, what), AT_LEAST_ZERO, RobotError)
        if what.endswith("compliance") and 0.0 < value < LEAST_COMPLIANCE:
            raise RobotError(
                f"{constraint.text} has {what} {value:g}; expected 0, or {LEAST_COMPLIANCE:g} or more",
                code="DG-ROBOT-099",
            )


def _of_joints(robot: str, links: Sequence[Link], equality: Constraint) -> Constraint:
    """Return an equality of joints with its polynomial as a tuple. Raise RobotError if the joints cannot be
    constrained.
    """
    for name in (equality.frame, equality.to) if equality.to else (equality.frame,):
        joints = [link.joint for link in links if link.joint.name == name]
        if not joints:
            names = [link.joint.name for link in links]
            raise RobotError(
                f"{equality.text}: robot '{robot}' has no joint '{name}'{nearest(name, names)}; expected one of "
                f"{', '.join(names)}",
                code="DG-ROBOT-100",
            )
        if not (len(joints) == 1 and joints[0].kind.single):
            fault = f"is {joints[0].type}" if len(joints) == 1 else f"is the name of {len(joints)} joints"
            raise RobotError(
                f"{equality.text}: '{name}' {fault}; expected one of {', '.join(single_kinds())}", code="DG-ROBOT-101"
            )
    if equality.frame == equality.to:
        raise RobotError(f"{equality.text} of robot '{robot}' is of one joint; expected two", code="DG-ROBOT-102")
    equality = replace(equality, polynomial=tuple(equality.polynomial))
    if equality.polynomial:
        numbers(f"{equality.text} has polynomial ", equality.polynomial, (None,), FINITE, RobotError)
    if not equality.polynomial or (equality.polynomial[1:] and not equality.to):
        several = "one number or more" if equality.to else "one number, without another joint,"
        raise RobotError(
            f"{equality.text} has polynomial {equality.polynomial}; expected {several} that are finite",
            code="DG-ROBOT-103",
        )
    return equality


def _check_places(robot: str, links: Sequence[Link], frames: Sequence[Frame], constraint: Constraint) -> None:
    """Raise RobotError if a contact or loop has an unknown kind, or frames that cannot be constrained."""
    kinds = LOOPS if constraint.to else CONTACTS
    if constraint.kind not in kinds:
        raise RobotError(
            f"{constraint.text} is of kind '{constraint.kind}'; expected one of {', '.join(kinds)}", code="DG-ROBOT-104"
        )
    link = frame_of(robot, links, frames, constraint.frame).link
    if constraint.to and frame_of(robot, links, frames, constraint.to).link == link:
        raise RobotError(
            f"{constraint.text} of robot '{robot}' is between places of one link; expected two links",
            code="DG-ROBOT-105",
        )
    if not constraint.to and link < 0:
        raise RobotError(
            f"{constraint.text} of robot '{robot}' is fixed to the base; expected a frame that moves",
            code="DG-ROBOT-106",
        )
    if constraint.polynomial:
        raise RobotError(
            f"{constraint.text} is of kind '{constraint.kind}' and has a polynomial; expected one of joints",
            code="DG-ROBOT-107",
        )


def _with_unit_normal(constraint: Constraint) -> Constraint:
    """Return a constraint with its normal scaled to length 1. Raise RobotError if its geometry does not fit its
    kind.
    """
    size = math.hypot(*numbers(f"{constraint.text} has normal ", constraint.normal, (3,), FINITE, RobotError))
    if not size > 0.0:
        raise RobotError(
            f"{constraint.text} has normal {constraint.normal}; expected three finite numbers, not all 0",
            code="DG-ROBOT-108",
        )
    number(f"{constraint.text} has length ", constraint.length, FINITE, RobotError)
    constraint = replace(constraint, normal=vector3(x / size for x in constraint.normal))
    if constraint.kind != "plane" and constraint.normal != (0.0, 0.0, 1.0):
        raise RobotError(
            f"{constraint.text} is of kind '{constraint.kind}' and has a normal; expected one of a plane",
            code="DG-ROBOT-109",
        )
    if constraint.kind == "distance" and not 0.0 < constraint.length < math.inf:
        raise RobotError(
            f"{constraint.text} has length {constraint.length:g}; expected a finite number above 0, in m",
            code="DG-ROBOT-110",
        )
    if constraint.kind != "distance" and constraint.length != 0.0:
        raise RobotError(
            f"{constraint.text} is of kind '{constraint.kind}' and has a length; expected one of a distance",
            code="DG-ROBOT-111",
        )
    return constraint


def check_passive(robot: str, links: Sequence[Link], passive: Sequence[str]) -> None:
    """Raise RobotError if a name in `passive` is repeated or does not belong to a joint with coordinates."""
    moving = {link.joint.name for link in links if link.joint.nv}
    for name in passive:
        if name not in moving:
            raise RobotError(
                f"robot '{robot}' has no joint '{name}' of its own to be passive; expected some of "
                f"{', '.join(sorted(moving))}",
                code="DG-ROBOT-112",
            )
        if passive.count(name) > 1:
            raise RobotError(
                f"joint '{name}' of robot '{robot}' is passive twice; expected each joint once", code="DG-ROBOT-113"
            )
