"""The tree of links that a robot is: its data and what follows from their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from dynagate.base.arguments import is_whole, names_of, shown
from dynagate.robot.constraint import Constraint
from dynagate.robot.errors import RobotError
from dynagate.robot.parts import Frame, Joint, Link
from dynagate.robot.validate import check_frames, check_links, check_passive, check_world, checked_constraints, frame_of
from dynagate.robot.vectors import STANDARD_GRAVITY, Vector3, matrix3, turn_z_to, vector3, without_noise

Tree = TypeVar("Tree", bound="RobotTree")


@dataclass(frozen=True)
class RobotTree:
    """The data of a robot, as `Robot` explains them. Every part is checked when the tree is made.

    Raises:
        RobotError: There is no link, links, frames or constraints are not as `Robot` says, or a number is not finite.
    """

    name: str
    links: tuple[Link, ...]
    gravity: Vector3 = field(default=STANDARD_GRAVITY)
    rounding: float = field(default=0.0, compare=False, repr=False)
    frames: tuple[Frame, ...] = field(default=(), repr=False)
    constraints: tuple[Constraint, ...] = ()
    passive: tuple[str, ...] = ()
    variable: tuple[str, ...] = ()
    friction_speed: float = 0.0

    def __post_init__(self) -> None:
        check_world(self.name, self.links, self.gravity, self.friction_speed)
        check_frames(self.links, self.frames)
        check_links(self.links)
        checked = checked_constraints(self.name, self.links, self.frames, self.constraints)
        object.__setattr__(self, "constraints", checked)  # copies, never the constraints that the caller passed
        check_passive(self.name, self.links, self.passive)
        object.__setattr__(self, "variable", names_of("variable", self.variable))

    def frame(self, name: str) -> Frame:
        """Return a link or a frame by its name. Raise RobotError, which lists the names, if there is none."""
        return frame_of(self.name, self.links, self.frames, name)

    @property
    def undriven(self) -> list[int]:
        """The places in v of joints that nothing drives: floating ones, and those of `passive`."""
        chosen = [v for joint, _, v in self.moving() if joint.type == "floating" or joint.name in self.passive]
        return [d for part in chosen for d in range(part.start, part.stop)]

    @property
    def constraint_rows(self) -> int:
        """How many directions all constraints hold together."""
        return sum(constraint.rows for constraint in self.constraints)

    @property
    def followers(self) -> tuple[str, ...]:
        """The joints that mimic another, by name."""
        return tuple(link.joint.name for link in self.links if link.joint.mimic)

    def reach(self, joint: Joint) -> tuple[float | None, float | None]:
        """Lower and upper limit of a joint, rad or m, no further than where the joints that mimic it reach theirs.

        joint: one of the robot's. A limit that the file does not give is None."""
        low, high = joint.lower, joint.upper
        for follower in self._following:
            mimic, own = follower.mimic, (follower.lower, follower.upper)
            if mimic is None or mimic.joint != joint.name or own[0] is None or own[1] is None:
                continue
            ends = sorted((x - mimic.offset) / mimic.multiplier for x in (own[0], own[1]))
            low, high = max(ends[0], ends[0] if low is None else low), min(ends[1], ends[1] if high is None else high)
        return low, high

    def is_periodic(self, joint: Joint) -> bool:
        """Whether a joint, one of the robot's, turns for ever and comes back to the same pose after each 2π rad: it is
        continuous, no equality counts its turns, and joints that mimic it have no limits and make whole turns too."""
        mimics = [link.joint for link in self.links if link.joint.mimic and link.joint.mimic.joint == joint.name]
        whole = all(m.kind.turning and m.mimic and float(m.mimic.multiplier).is_integer() for m in mimics)
        held = any(own.of_joints and joint.name in (own.frame, own.to) for own in self.constraints)
        return joint.kind.endless and self.reach(joint) == (None, None) and whole and not held

    def uncoupled(self: Tree) -> Tree:
        """The robot with every joint that mimics another free."""
        if not self.followers:
            return self
        links = [replace(link, joint=replace(link.joint, mimic=None)) for link in self.links]
        return replace(self, links=tuple(links))

    def check_uncoupled(self, what: str) -> None:
        """Raises RobotError: joints mimic others, which what is named does not know."""
        if self.followers:
            names = ", ".join(f"'{name}'" for name in self.followers)
            raise RobotError(
                f"joints {names} of robot '{self.name}' mimic others, which {what} does not know; hold them by lock="
            )

    @property
    def nq(self) -> int:
        """Numbers in a configuration."""
        return self._places[-1][1].stop if self._places else 0

    @property
    def nv(self) -> int:
        """Degrees of freedom."""
        return self._places[-1][2].stop if self._places else 0

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints in the order of q, v, torques and links: joint i moves link i. `slices` has their places in q and
        v, where a joint that mimics another has none."""
        return tuple(link.joint.name for link in self.links)

    def slices(self) -> Iterator[tuple[Link, slice, slice]]:
        """Each link with its joint's places in q and in v."""
        return iter(self._places)

    @cached_property
    def _places(self) -> tuple[tuple[Link, slice, slice], ...]:
        """The content of `slices`, computed once because calls need it often."""
        places, iq, iv = [], 0, 0
        for link in self.links:
            nq, nv = link.joint.nq, link.joint.nv
            places.append((link, slice(iq, iq + nq), slice(iv, iv + nv)))
            iq, iv = iq + nq, iv + nv
        return tuple(places)

    @cached_property
    def _following(self) -> tuple[Joint, ...]:
        """The joints that mimic another."""
        return tuple(link.joint for link in self.links if link.joint.mimic)

    def moving(self) -> Iterator[tuple[Joint, slice, slice]]:
        """Each joint that has coordinates, not those that mimic others, with its places in q and in v."""
        return iter(self._moving)

    @cached_property
    def _moving(self) -> tuple[tuple[Joint, slice, slice], ...]:
        return tuple((link.joint, q, v) for link, q, v in self._places if link.joint.nv)

    def quaternions(self) -> list[slice]:
        """The places of unit quaternions in q."""
        return list(self._quaternions)

    @cached_property
    def _quaternions(self) -> tuple[slice, ...]:
        return tuple(slice(q.stop - 4, q.stop) for joint, q, _ in self._moving if joint.has_quaternion)

    @property
    def parents(self) -> tuple[int, ...]:
        """The parent of each link by its number, -1 for the base."""
        return tuple(link.parent for link in self.links)

    def ancestors(self, i: int) -> list[int]:
        """The links from the base to link i, both ends of the chain in order, i last. Raises RobotError: there
        is no such link."""
        chain: list[int] = []
        if not is_whole(i) or i < -1:
            raise RobotError(f"no link {shown(i)} of robot '{self.name}'; expected a whole number, -1 or more")
        if i >= len(self.links):
            raise RobotError(f"no link {i} of robot '{self.name}'; expected at most {len(self.links) - 1}, or -1")
        while i >= 0:
            chain.append(i)
            i = self.links[i].parent
        return chain[::-1]

    def aligned(self: Tree) -> Tree:
        """The same robot with every link frame turned so that its joint's axis is z and the joint frame is the link
        frame at q = 0. Joint coordinates and torques are unchanged; the algorithms work on this form."""
        turns: list[np.ndarray] = []
        links = []
        for link in self.links:
            above = turns[link.parent] if link.parent >= 0 else np.eye(3)
            turn = turn_z_to(np.array(link.joint.axis))
            turns.append(turn)
            joint = replace(
                link.joint,
                rotation=matrix3(without_noise(above.T @ np.array(link.joint.rotation) @ turn)),
                translation=vector3(without_noise(above.T @ np.array(link.joint.translation))),
                axis=(0.0, 0.0, 1.0),
            )
            links.append(
                replace(
                    link,
                    joint=joint,
                    com=vector3(without_noise(turn.T @ np.array(link.com))),
                    inertia=matrix3(without_noise(turn.T @ np.array(link.inertia) @ turn)),
                )
            )
        return replace(self, links=tuple(links))
