"""Helical joints: a joint that moves along its axis as it rotates, like a screw.

Its motion subspace is (axis, pitch · axis), which is not a coordinate direction of the link's frame. Rotation about an
axis and translation along it commute. A helical joint is therefore a rotating joint and a sliding joint that mimics it,
so no algorithm needs a special case: M_r = Gᵀ M G has one degree of freedom (`dynamics.mimic`).
"""

from __future__ import annotations

from dataclasses import replace

from dynagate.base.arguments import FINITE, number
from dynagate.base.errors import ArgumentTypeError
from dynagate.robot.errors import RobotError
from dynagate.robot.parts import Joint, Link, Mimic
from dynagate.robot.tree import Tree

NOTHING = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
"""Inertia of the massless link between the two joints."""
TURN, SLIDE = "{} turn", "{} slide"
"""Names of the link between the two joints, and of the joint that mimics."""


def with_helical(robot: Tree, joint: str, pitch: float) -> Tree:
    """Implement `Robot.with_helical`."""
    pitch = number("pitch=", pitch, FINITE.called("a finite number, in m/rad"), ArgumentTypeError)
    place = next((i for i, link in enumerate(robot.links) if link.joint.name == joint), None)
    if place is None:
        raise RobotError(
            f"robot '{robot.name}' has no joint '{joint}'; expected one of {', '.join(robot.joint_names)}",
            code="DG-ROBOT-046",
        )
    screw = robot.links[place]
    if not screw.joint.kind.turning or screw.joint.mimic is not None:
        kind = "mimics another" if screw.joint.mimic else f"is {screw.joint.type}"
        raise RobotError(
            f"joint '{joint}' {kind}; expected a revolute or continuous joint that mimics no other", code="DG-ROBOT-047"
        )

    def moved(index: int) -> int:
        """A link's number behind the one that is put in."""
        return index + (index >= place)

    nothing = Link(TURN.format(screw.name), screw.parent, screw.joint, 0.0, (0.0, 0.0, 0.0), NOTHING)
    slide = Joint(SLIDE.format(joint), "prismatic", axis=screw.joint.axis, mimic=Mimic(joint, float(pitch)))
    links = [replace(link, parent=moved(link.parent)) for link in robot.links]
    links[place : place + 1] = [nothing, replace(screw, parent=place, joint=slide)]
    frames = tuple(replace(frame, link=moved(frame.link)) for frame in robot.frames)
    return replace(robot, links=tuple(links), frames=frames)
