"""Changes to a robot's tree: attach or remove parts, choose another root, rename, lock or scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from dynagate.base.arguments import ABOVE_ZERO, FINITE, check_texts, number, numbers, shown
from dynagate.base.arrays import Floats
from dynagate.base.errors import ArgumentTypeError
from dynagate.base.nearest import nearest
from dynagate.robot.constraint import JOINTS, Constraint
from dynagate.robot.errors import RobotError
from dynagate.robot.parts import Frame, Joint, Link
from dynagate.robot.rotations import Rounding
from dynagate.robot.tree import RobotTree, Tree
from dynagate.robot.validate import check_frame
from dynagate.robot.vectors import Matrix3, Vector3, matrix3, summed, vector3, without_noise

Pose = tuple[Floats, Floats]
"""Rotation (3, 3) and translation (3,), m, of a frame in another frame."""


def pose_of(part: Frame | Joint) -> Pose:
    """Return the pose of a frame or joint in the link that carries it."""
    return np.array(part.rotation), np.array(part.translation)


def pose_product(first: Pose, second: Pose) -> Pose:
    """Return first ∘ second: the second pose expressed in the frame in which the first is expressed."""
    return without_noise(first[0] @ second[0]), summed(first[0] @ second[1], first[1])


def inverse_pose(pose: Pose) -> Pose:
    """Return the inverse of a pose."""
    return pose[0].T, without_noise(-pose[0].T @ pose[1])


def at_pose(part: Any, pose: Pose) -> Any:
    """Return a copy of a frame or joint at another pose."""
    return replace(part, rotation=matrix3(pose[0]), translation=vector3(pose[1]))


def body_at(link: Link, pose: Pose) -> tuple[float, Vector3, Matrix3]:
    """Return the mass, center of mass and inertia of a link at a pose, in the frame in which the pose is expressed."""
    turn, _ = pose
    com = summed(turn @ np.array(link.com), pose[1])
    return link.mass, vector3(com), matrix3(without_noise(turn @ np.array(link.inertia) @ turn.T))


def with_robot(robot: Tree, other: RobotTree, on: str, translation: Any, rotation: Any, prefix: str) -> Tree:
    """Implement `Robot.with_robot`."""
    if not isinstance(other, RobotTree):
        raise ArgumentTypeError(f"other={shown(other)}; expected a Robot", code="DG-ROBOT-007")
    if not isinstance(prefix, str):
        raise ArgumentTypeError(f"prefix={shown(prefix)}; expected a text, such as 'left_'", code="DG-ROBOT-008")
    check_texts(RobotError, on=on)
    if other.variable:
        raise RobotError(
            f"robot '{other.name}' has variable parameters; expected with_variable() after attaching it",
            code="DG-ROBOT-009",
        )
    frame = robot.frame(on)
    own = Frame(on, frame.link)
    turned = numbers("rotation=", rotation, (3, 3), FINITE, RobotError)
    own = at_pose(own, (turned, numbers("translation=", translation, (3,), FINITE, RobotError)))
    check_frame(robot.links, own)
    seat = pose_product(pose_of(frame), pose_of(own))
    other = with_names(other, {}, prefix)
    _check_free(robot, other)
    links, frames = list(robot.links), list(robot.frames)
    place = {-1: (frame.link, seat)}  # other's link -> link of the result, and its pose there
    for i, link in enumerate(other.links):
        above, pose = place[link.parent]
        if link.joint.kind.free and link.parent < 0:
            # the floating root becomes fixed
            if above >= 0:
                links[above] = links[above].joined(*body_at(link, pose))
            frames.append(at_pose(Frame(link.name, above), pose))
            place[i] = above, pose
            continue
        joint = at_pose(link.joint, pose_product(pose, pose_of(link.joint)))
        links.append(replace(link, parent=above, joint=joint))
        place[i] = len(links) - 1, (np.eye(3), np.zeros(3))
    for each in other.frames:
        above, pose = place[each.link]
        frames.append(at_pose(replace(each, link=above), pose_product(pose, pose_of(each))))
    return replace(
        robot,
        links=tuple(links),
        frames=tuple(frames),
        constraints=(*robot.constraints, *other.constraints),
        passive=(*robot.passive, *other.passive),
    )


def _check_free(robot: RobotTree, other: RobotTree) -> None:
    """Raise RobotError if the two robots have a joint, link or frame with the same name."""
    for what, names in (("joint", lambda each: each.joint_names), ("link or frame", _part_names)):
        both = sorted(set(names(robot)) & set(names(other)))
        if both:
            raise RobotError(
                f"robots '{robot.name}' and '{other.name}' both have the {what} '{both[0]}'; expected prefix=, such as "
                "prefix='tool_'",
                code="DG-ROBOT-010",
            )


def _part_names(robot: RobotTree) -> list[str]:
    return [*(link.name for link in robot.links), *(frame.name for frame in robot.frames)]


def with_names(robot: Tree, names: Mapping[str, str], prefix: str = "") -> Tree:
    """Implement `Robot.with_names`."""
    if not isinstance(names, Mapping) or not all(isinstance(x, str) for each in names.items() for x in each):
        raise ArgumentTypeError(
            f"names={shown(names)}; expected names such as {{'arm': 'upper_arm'}}", code="DG-ROBOT-011"
        )
    known = [*robot.joint_names, *_part_names(robot)]
    for name in names:
        if name not in known:
            raise RobotError(
                f"robot '{robot.name}' has no link, joint or frame '{name}'{nearest(name, known)}", code="DG-ROBOT-012"
            )
    if robot.variable and (names or prefix):
        raise RobotError(
            f"robot '{robot.name}' has variable parameters; expected with_variable() after other names",
            code="DG-ROBOT-013",
        )

    def new(name: str) -> str:
        return prefix + names.get(name, name)

    def renamed(joint: Joint) -> Joint:
        mimic = None if joint.mimic is None else replace(joint.mimic, joint=new(joint.mimic.joint))
        return replace(joint, name=new(joint.name), mimic=mimic)

    def held(constraint: Constraint) -> Constraint:
        return replace(constraint, frame=new(constraint.frame), to=new(constraint.to) if constraint.to else "")

    changed = replace(
        robot,
        links=tuple(replace(link, name=new(link.name), joint=renamed(link.joint)) for link in robot.links),
        frames=tuple(replace(frame, name=new(frame.name)) for frame in robot.frames),
        constraints=tuple(held(constraint) for constraint in robot.constraints),
        passive=tuple(new(name) for name in robot.passive),
    )
    for what, now, before in (
        ("joint", changed.joint_names, robot.joint_names),
        ("link or frame", _part_names(changed), _part_names(robot)),
    ):
        if len({*now}) < len({*before}):
            twice = next(name for k, name in enumerate(now) if name in now[:k])
            raise RobotError(
                f"two parts would have the name '{twice}' of a {what}; expected different names", code="DG-ROBOT-014"
            )
    return changed


def without(robot: Tree, names: Sequence[str]) -> Tree:
    """Implement `Robot.without`."""
    known = _part_names(robot)
    for name in names:
        check_texts(RobotError, link=name)
        if name not in known:
            raise RobotError(
                f"robot '{robot.name}' has no link or frame '{name}'{nearest(name, known)}", code="DG-ROBOT-015"
            )
    gone: set[int] = set()
    for i, link in enumerate(robot.links):
        if link.name in names or link.parent in gone:
            gone.add(i)
    if len(gone) == len(robot.links):
        raise RobotError(
            f"without() would remove all links of robot '{robot.name}'; expected one to remain", code="DG-ROBOT-016"
        )
    index = {-1: -1}
    for i in range(len(robot.links)):
        if i not in gone:
            index[i] = len(index) - 1
    links = [replace(robot.links[i], parent=index[robot.links[i].parent]) for i in index if i >= 0]
    joints = {link.joint.name for link in links}
    for link in links:
        if link.joint.mimic and link.joint.mimic.joint not in joints:
            raise RobotError(
                f"joint '{link.joint.name}' mimics joint '{link.joint.mimic.joint}', which would be removed; expected "
                "both to be removed, or the first one to be held by with_locked()",
                code="DG-ROBOT-017",
            )
    frames = [
        replace(frame, link=index[frame.link])
        for frame in robot.frames
        if frame.link not in gone and frame.name not in names
    ]
    places = {*(link.name for link in links), *(frame.name for frame in frames)}

    def remains(constraint: Constraint) -> bool:
        ends = {constraint.frame, constraint.to} - {""}
        return ends <= (joints if constraint.of_joints else places)

    return replace(
        robot,
        links=tuple(links),
        frames=tuple(frames),
        constraints=tuple(constraint for constraint in robot.constraints if remains(constraint)),
        passive=tuple(name for name in robot.passive if name in joints),
    )


def with_locked(robot: Tree, positions: Mapping[str, float]) -> Tree:
    """Implement `Robot.with_locked`."""
    if not isinstance(positions, Mapping):
        raise ArgumentTypeError(
            f"positions={shown(positions)}; expected positions by joint, such as {{'elbow': 0.5}}", code="DG-ROBOT-018"
        )
    held = _locked_positions(robot, positions)
    links: list[Link] = []
    frames: list[Frame] = []
    place: dict[int, tuple[int, Pose]] = {-1: (-1, (np.eye(3), np.zeros(3)))}
    for i, link in enumerate(robot.links):
        above, pose = place[link.parent]
        pose = pose_product(pose, pose_of(link.joint))
        if link.joint.name not in held:
            links.append(replace(link, parent=above, joint=at_pose(link.joint, pose)))
            place[i] = len(links) - 1, (np.eye(3), np.zeros(3))
            continue
        pose = pose_product(pose, _joint_pose(link.joint, held[link.joint.name]))
        place[i] = above, pose
        frames.append(at_pose(Frame(link.name, above), pose))
        if above >= 0:
            links[above] = links[above].joined(*body_at(link, pose))
    if not links:
        raise RobotError(
            f"with_locked() would hold all joints of robot '{robot.name}'; expected one to move", code="DG-ROBOT-019"
        )
    moved = []
    for frame in robot.frames:
        above, pose = place[frame.link]
        moved.append(at_pose(replace(frame, link=above), pose_product(pose, pose_of(frame))))
    return replace(
        robot,
        links=tuple(links),
        frames=(*moved, *frames),
        passive=tuple(name for name in robot.passive if name not in held),
    )


def _locked_positions(robot: RobotTree, positions: Mapping[str, float]) -> dict[str, float]:
    """Return the positions of all locked joints, including joints that mimic one."""
    joints = {link.joint.name: link.joint for link in robot.links}
    held: dict[str, float] = {}
    for name, position in positions.items():
        if name not in joints:
            raise RobotError(
                f"robot '{robot.name}' has no joint '{name}'{nearest(str(name), joints)}", code="DG-ROBOT-020"
            )
        joint = joints[name]
        if not joint.kind.single or joint.mimic is not None:
            kind = f"mimics '{joint.mimic.joint}'" if joint.mimic else f"is {joint.type}"
            raise RobotError(
                f"joint '{name}' {kind}; expected a joint of one degree of freedom of its own", code="DG-ROBOT-021"
            )
        unit = joint.kind.units[0]
        held[name] = number(
            f"position of joint '{name}' is ", position, FINITE.called(f"a number in {unit}"), RobotError
        )
    for joint in joints.values():
        if joint.mimic is not None and joint.mimic.joint in held:
            held[joint.name] = joint.mimic.multiplier * held[joint.mimic.joint] + joint.mimic.offset
    for constraint in robot.constraints:
        if constraint.kind == JOINTS and {constraint.frame, constraint.to} & set(held):
            raise RobotError(
                f"{constraint.text} is of a joint that would be held; expected the joint to stay free",
                code="DG-ROBOT-022",
            )
    return held


def _joint_pose(joint: Joint, position: float) -> Pose:
    """Return the pose of a link in its joint's frame at a position in rad or m."""
    axis = np.array(joint.axis)
    if joint.kind.sliding:
        return np.eye(3), axis * position
    return Rounding(0.0).about_axis(axis, position, joint.name), np.zeros(3)


def with_root(robot: Tree, name: str) -> Tree:
    """Implement `Robot.with_root`."""
    check_texts(RobotError, link=name)
    names = [link.name for link in robot.links]
    if name not in names:
        raise RobotError(f"robot '{robot.name}' has no moving link '{name}'{nearest(name, names)}", code="DG-ROBOT-023")
    roots = [i for i, link in enumerate(robot.links) if link.parent < 0]
    if len(roots) != 1 or not robot.links[roots[0]].joint.kind.free:
        raise RobotError(
            f"the base of robot '{robot.name}' is fixed, so its mass is unknown; expected a robot with one floating "
            "root, as floating_base=True reads it",
            code="DG-ROBOT-024",
        )
    chain = robot.ancestors(names.index(name))
    for i in chain[1:]:
        if not robot.links[i].joint.kind.single:
            joint = robot.links[i].joint
            raise RobotError(
                f"joint '{joint.name}' is {joint.type}; expected joints of one axis between the roots",
                code="DG-ROBOT-025",
            )
    # the frame of each link on the chain, except the last, moves to the joint after it
    shift = {i: inverse_pose(pose_of(robot.links[after].joint)) for i, after in pairwise(chain)}
    nowhere = np.eye(3), np.zeros(3)
    order = chain[::-1] + [i for i in range(len(names)) if i not in chain]
    index = {old: new for new, old in enumerate(order)}
    links = []
    for k, i in enumerate(order):
        link = robot.links[i]
        mass, com, inertia = body_at(link, shift.get(i, nowhere))
        if k == 0:
            joint, parent = at_pose(robot.links[roots[0]].joint, nowhere), -1
        elif i in shift:
            parent = index[order[k - 1]]
            joint = replace(robot.links[order[k - 1]].joint, **_reversed(robot.links[order[k - 1]].joint))
            if k > 1:  # the link that now carries the joint has another frame
                joint = at_pose(joint, shift[order[k - 1]])
        else:
            parent = index[link.parent]
            joint = at_pose(link.joint, pose_product(shift.get(link.parent, nowhere), pose_of(link.joint)))
        links.append(Link(link.name, parent, joint, mass, com, inertia))
    frames = tuple(
        at_pose(replace(frame, link=index[frame.link]), pose_product(shift.get(frame.link, nowhere), pose_of(frame)))
        if frame.link >= 0
        else frame
        for frame in robot.frames
    )
    return replace(robot, links=tuple(links), frames=frames)


def _reversed(joint: Joint) -> dict[str, Any]:
    """Return the fields of a joint with parent and child exchanged: at the child's origin, about the opposite axis."""
    return {
        "rotation": matrix3(np.eye(3)),
        "translation": (0.0, 0.0, 0.0),
        "axis": vector3(0.0 - x for x in joint.axis),
    }


def with_scale(robot: Tree, length: Any, mass: Any) -> Tree:
    """Implement `Robot.with_scale`."""
    s = number("length=", length, ABOVE_ZERO, RobotError)
    m = s**3 if mass is None else number("mass=", mass, ABOVE_ZERO, RobotError)

    def scaled(joint: Joint) -> Joint:
        joint = replace(joint, translation=vector3(s * x for x in joint.translation))
        if joint.mimic is not None:
            leader = next(link.joint for link in robot.links if link.joint.name == joint.mimic.joint)
            ratio = (s if joint.kind.sliding else 1.0) / (s if leader.kind.sliding else 1.0)
            offset = s * joint.mimic.offset if joint.kind.sliding else joint.mimic.offset
            mimic = replace(joint.mimic, multiplier=ratio * joint.mimic.multiplier, offset=offset)
            joint = replace(joint, mimic=mimic)
        if not joint.kind.sliding:
            return joint
        lower, upper = (None if x is None else s * x for x in (joint.lower, joint.upper))
        return replace(joint, lower=lower, upper=upper)

    links = [
        Link(
            link.name,
            link.parent,
            scaled(link.joint),
            m * link.mass,
            vector3(s * x for x in link.com),
            matrix3(m * s * s * np.array(link.inertia)),
        )
        for link in robot.links
    ]
    frames = tuple(replace(frame, translation=vector3(s * x for x in frame.translation)) for frame in robot.frames)
    constraints = tuple(replace(each, length=s * each.length) for each in robot.constraints)
    return replace(robot, links=tuple(links), frames=frames, constraints=constraints)
