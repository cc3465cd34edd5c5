"""The tree of links that a robot consists of: its data, and everything that follows from the order of links."""

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
    """Data of a robot, as `Robot` documents it. Every part is checked when the tree is created.

    Raises:
        RobotError: There is no link, a link, frame or constraint is invalid, or a number is not finite.
    """

    name: str
    """Name in the file."""
    links: tuple[Link, ...]
    """Links, parents first."""
    gravity: Vector3 = field(default=STANDARD_GRAVITY)
    """Acceleration of free fall in the base frame, m/s²."""
    rounding: float = field(default=0.0, compare=False, repr=False)
    """Largest angle by which the parser corrected a rotation, rad."""
    frames: tuple[Frame, ...] = field(default=(), repr=False)
    """Named frames in addition to the links."""
    constraints: tuple[Constraint, ...] = ()
    """Constraints on frames and joints."""
    passive: tuple[str, ...] = ()
    """Names of joints without a motor."""
    variable: tuple[str, ...] = ()
    """Names of parameters that are inputs."""
    friction_speed: float = 0.0
    """Smoothing speed of joint friction, rad/s or m/s; 0 for no friction."""

    def __post_init__(self) -> None:
        check_world(self.name, self.links, self.gravity, self.friction_speed)
        check_frames(self.links, self.frames)
        check_links(self.links)
        checked = checked_constraints(self.name, self.links, self.frames, self.constraints)
        object.__setattr__(self, "constraints", checked)  # store copies instead of the caller's constraints
        check_passive(self.name, self.links, self.passive)
        object.__setattr__(self, "variable", names_of("variable", self.variable))

    def frame(self, name: str) -> Frame:
        """Return a link or frame by its name. Raise RobotError that lists the names if it does not exist."""
        return frame_of(self.name, self.links, self.frames, name)

    @property
    def undriven(self) -> list[int]:
        """Indices in v of the joints without a motor: floating ones, and those of `passive`."""
        chosen = [v for joint, _, v in self.moving() if joint.type == "floating" or joint.name in self.passive]
        return [d for part in chosen for d in range(part.start, part.stop)]

    @property
    def constraint_rows(self) -> int:
        """Number of directions that all constraints fix together."""
        return sum(constraint.rows for constraint in self.constraints)

    @property
    def followers(self) -> tuple[str, ...]:
        """Names of the joints that mimic another one."""
        return tuple(link.joint.name for link in self.links if link.joint.mimic)

    def reach(self, joint: Joint) -> tuple[float | None, float | None]:
        """Return the lower and upper limit of a joint, rad or m, with the limits of joints that mimic it taken into
        account.

        A limit that the file does not have is None.
        """
        low, high = joint.lower, joint.upper
        for follower in self._following:
            mimic, own = follower.mimic, (follower.lower, follower.upper)
            if mimic is None or mimic.joint != joint.name or own[0] is None or own[1] is None:
                continue
            ends = sorted((x - mimic.offset) / mimic.multiplier for x in (own[0], own[1]))
            low, high = max(ends[0], ends[0] if low is None else low), min(ends[1], ends[1] if high is None else high)
        return low, high

    def is_periodic(self, joint: Joint) -> bool:
        """Return whether a joint returns to the same pose after every 2π rad, without limits.

        The joint, which must belong to this robot, must be continuous. No joint equality may count its rotations, and
        joints that mimic it must have no limits and whole multipliers.
        """
        mimics = [link.joint for link in self.links if link.joint.mimic and link.joint.mimic.joint == joint.name]
        whole = all(m.kind.turning and m.mimic and float(m.mimic.multiplier).is_integer() for m in mimics)
        held = any(own.of_joints and joint.name in (own.frame, own.to) for own in self.constraints)
        return joint.kind.endless and self.reach(joint) == (None, None) and whole and not held

    def uncoupled(self: Tree) -> Tree:
        """Return the robot with every mimic joint free."""
        if not self.followers:
            return self
        links = [replace(link, joint=replace(link.joint, mimic=None)) for link in self.links]
        return replace(self, links=tuple(links))

    def check_uncoupled(self, what: str) -> None:
        """Raise RobotError if joints mimic others. `what` names the feature that does not support this."""
        if self.followers:
            names = ", ".join(f"'{name}'" for name in self.followers)
            raise RobotError(
                f"joints {names} of robot '{self.name}' mimic others, which {what} does not know; hold them by lock=",
                code="DG-ROBOT-072",
            )

    @property
    def nq(self) -> int:
        """Number of numbers in a configuration."""
        return self._places[-1][1].stop if self._places else 0

    @property
    def nv(self) -> int:
        """Number of degrees of freedom."""
        return self._places[-1][2].stop if self._places else 0

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints in the order of q, v, torques and links: joint i moves link i.

        `slices` returns their indices in q and v; a mimic joint has none.
        """
        return tuple(link.joint.name for link in self.links)

    def slices(self) -> Iterator[tuple[Link, slice, slice]]:
        """Yield each link with its joint's slices of q and v."""
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
        """The joints that mimic another one."""
        return tuple(link.joint for link in self.links if link.joint.mimic)

    def moving(self) -> Iterator[tuple[Joint, slice, slice]]:
        """Yield each joint that has coordinates, which excludes mimic joints, with its slices of q and v."""
        return iter(self._moving)

    @cached_property
    def _moving(self) -> tuple[tuple[Joint, slice, slice], ...]:
        return tuple((link.joint, q, v) for link, q, v in self._places if link.joint.nv)

    def quaternions(self) -> list[slice]:
        """Return the slices of q that are unit quaternions."""
        return list(self._quaternions)

    @cached_property
    def _quaternions(self) -> tuple[slice, ...]:
        return tuple(slice(q.stop - 4, q.stop) for joint, q, _ in self._moving if joint.has_quaternion)

    @property
    def parents(self) -> tuple[int, ...]:
        """Index of each link's parent, -1 for the base."""
        return tuple(link.parent for link in self.links)

    def ancestors(self, i: int) -> list[int]:
        """Return the links from the base to link i in order, i last. Raise RobotError if there is no such link."""
        chain: list[int] = []
        if not is_whole(i) or i < -1:
            raise RobotError(
                f"no link {shown(i)} of robot '{self.name}'; expected a whole number, -1 or more", code="DG-ROBOT-073"
            )
        if i >= len(self.links):
            raise RobotError(
                f"no link {i} of robot '{self.name}'; expected at most {len(self.links) - 1}, or -1",
                code="DG-ROBOT-074",
            )
        while i >= 0:
            chain.append(i)
            i = self.links[i].parent
        return chain[::-1]

    def aligned(self: Tree) -> Tree:
        """Return the same robot with every link frame rotated so that its joint axis is z.

        The joint frame is then the link frame at q = 0. Joint coordinates and torques do not change. Algorithms use
        this form.
        """
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
