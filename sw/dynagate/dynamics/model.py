"""Constants of a robot for algorithms: frames on the axes of joints, numbers as scalars of plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynagate.base.exact import written
from dynagate.base.naming import label, scope
from dynagate.dynamics.friction import SPEED, FrictionModel, friction_in
from dynagate.dynamics.links import TreeLink
from dynagate.dynamics.mimic import MimicMap
from dynagate.dynamics.parameters import Overrides, Pose, Values, inertia_in
from dynagate.dynamics.reduction import Body, Given, Varied, bodies, given_links, moved_frames, regrouped
from dynagate.dynamics.spatial import (
    Array,
    Inertia,
    Scalar,
    SpatialForce,
    SpatialMotion,
    array,
    cross,
    exact_rotation,
    zeros,
)
from dynagate.robot.model import Robot
from dynagate.robot.vectors import turn_z_to

if TYPE_CHECKING:
    from typing_extensions import Self  # in `typing` from Python 3.11 on


class Place(NamedTuple):
    """A frame on the tree. link: that carries it, -1 for the base. rotation (3, 3), translation (3,), m: its pose in
    the link's frame as the robot has it."""

    link: int
    rotation: Array
    translation: Array


class Model:
    """A robot with every joint's axis turned to z (`Robot.aligned`), and its constants as object arrays.

    Frames and inertias are those that take the fewest operations (`reduction`), for joint torques and what follows from
    them; where links and their masses are, `unreduced` knows.

    A degree of freedom is one column of a joint's motion subspace S. All of them are unit vectors of the link's own
    frame: a revolute joint turns about z, a floating one moves along and turns about each axis.

    values: of the robot's variable parameters, by the names of their inputs; None for the robot's own numbers.
    friction: of the joints, besides their damping; None for the robot's own (`Robot.with_friction`).
    parents[i]: -1 for the base; ancestors[i]: from the first link of the chain to i itself; base_acceleration: minus
    gravity (3,), m/s² in the base frame. dofs[i]: the degrees of freedom of joint i; link_of[d]: the link that has d;
    support[i]: all degrees of freedom that move link i; chain[d]: those between the base and d, d included, where a
    joint's own follow one another; damping[d]: N m s/rad or N s/m; armature[d]: kg m² or kg.

    mimic: the map between the coordinates of `source`, the robot with joints that mimic others, and those of all
    joints. All else here is of the robot with each joint free.
    turns[i]: from the axes of link i here to those that the robot gives it.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        reduced: bool = True,
        values: Values | None = None,
        friction: FrictionModel | None = None,
    ) -> None:
        self.source, self._given, self._values = robot, robot.uncoupled(), values
        self._overrides = Overrides() if values is None else Overrides.of(robot, values)
        self._asked_friction = friction
        self._bodies: dict[tuple[bool, ...], list[Body]] = {}
        self.mimic = MimicMap(robot)
        robot = self._given
        self.turns = [array(turn_z_to(np.array(link.joint.axis))) for link in robot.links]
        robot = robot.aligned()
        if reduced:
            robot, self._moved = moved_frames(robot, self._overrides.poses)
            self.inertias = regrouped(robot, self._varied)
        else:
            self._moved = [0.0] * len(robot.links)
            self.inertias = [
                Inertia(link.mass, array(link.first_moment()), array(link.second_moment())) for link in robot.links
            ]
            for i, inertia in self._varied.inertias.items():
                self.inertias[i] = inertia
        self.robot = robot
        self.nq, self.nv = robot.nq, robot.nv
        self.links = range(len(robot.links))
        self.parents = robot.parents
        self.ancestors = [robot.ancestors(i) for i in self.links]
        gravity = self._overrides.gravity
        self.base_acceleration: Array = -(written(robot.gravity) if gravity is None else gravity)
        self.dofs = [range(v.start, v.stop) for _, _, v in robot.slices()]
        self.link_of = [i for i in self.links for _ in self.dofs[i]]
        self.support = [[d for j in self.ancestors[i] for d in self.dofs[j]] for i in self.links]
        self.chain = [[e for e in self.support[i] if e <= d] for i in self.links for d in self.dofs[i]]
        own = self._overrides
        self.armature = [own.armature.get(i, robot.links[i].joint.armature) for i in self.link_of]
        self.damping = [own.damping.get(i, robot.links[i].joint.damping) for i in self.link_of]
        self.friction = self._friction(friction)
        self.each_link = [self.link(i) for i in self.links]

    def _friction(self, asked: FrictionModel | None) -> FrictionModel | None:
        """Return the friction of the joints: the requested one or the robot's, with what is an input."""
        friction, varied = asked or friction_in(self._given), self._overrides.friction
        if not varied:
            return friction
        forces = friction.forces if friction else (0.0,) * self.nv
        speed = friction.speed if friction else self._given.friction_speed or SPEED
        return FrictionModel(tuple(varied.get(i, forces[d]) for d, i in enumerate(self.link_of)), speed)

    def ground_friction(self, own: Scalar) -> Scalar:
        """Return the input that replaces the friction of a contact law, or the law's own where it is no input."""
        varied = self._overrides.ground_friction
        return own if varied is None else varied

    @cached_property
    def unreduced(self) -> Self:
        """The tree with links where the robot has them, each with its own mass."""
        return type(self)(self._given, reduced=False, values=self._values, friction=self._asked_friction)

    @cached_property
    def numeric(self) -> Self:
        """Return the tree with numbers only: the robot's own in place of inputs."""
        return type(self)(self.source) if self._values else self

    @cached_property
    def _given_links(self) -> list[Given]:
        return given_links(self.robot)

    @property
    def _varied(self) -> Varied:
        """Properties of the links that are inputs, in the tree's frames."""
        own = self._overrides
        inertias = {
            i: inertia_in(self._given, i, parts, self.turns[i], self._moved[i]) for i, parts in own.inertial.items()
        }
        return Varied(inertias, frozenset(own.poses), own.turned, own.gravity is not None)

    def of(self, robot: Robot) -> Self:
        """The tree of another robot with the same links and frames, with the values and friction of this one."""
        return self if robot is self.source else type(self)(robot, values=self._values, friction=self._asked_friction)

    def frame(self, name: str) -> Place:
        """Return a link or frame of the robot by its name. Raise RobotError that lists the names."""
        frame = self.source.frame(name)
        numbers = [k for k, each in enumerate(self.source.frames) if each is frame]
        pose = self._overrides.poses.get(len(self.source.links) + numbers[0]) if numbers else None
        rotation, translation = pose or Pose(None, None)
        return Place(
            frame.link,
            array(frame.rotation) if rotation is None else rotation,
            array(frame.translation) if translation is None else translation,
        )

    def _placed(self, i: int) -> tuple[Array, Array]:
        """Return rotation (3, 3) and origin (3,) of joint i's frame in the tree's frame of the parent."""
        joint = self.robot.links[i].joint
        rotation, origin = exact_rotation(joint.rotation), written(joint.translation)
        if (pose := self._overrides.poses.get(i)) is None:
            return rotation, origin
        p = self.parents[i]
        above = self.turns[p].T if p >= 0 else array(np.eye(3))
        if pose.rotation is not None:
            rotation = above @ pose.rotation @ self.turns[i]
        own = self.source.links[i].joint
        translation = written(own.translation) if pose.translation is None else pose.translation
        below = array([0.0, 0.0, self._moved[p] if p >= 0 else 0.0])
        return rotation, above @ translation + rotation[:, 2] * self._moved[i] - below

    def frictionless(self, *, weightless: bool = False) -> Self:
        """The tree whose joints neither damp nor rub. weightless: without gravity too."""
        own = copy(self)
        own.damping, own.friction = [0.0] * self.nv, None
        if weightless:
            own.base_acceleration = zeros(3)
        own.each_link = [own.link(i) for i in self.links]
        return own

    def carrying(self, loads: Mapping[int, Inertia]) -> Self:
        """The tree whose links carry more, by link, in the tree's frames; for its mass matrix and what follows."""
        own = copy(self)
        own.inertias = [inertia + loads[i] if i in loads else inertia for i, inertia in enumerate(self.inertias)]
        own.each_link = [own.link(i) for i in self.links]
        return own

    def bodies(self, as_dipole: Sequence[bool]) -> list[Body]:
        """The links' inertias, these as dipoles where they can be (`reduction.bodies`)."""
        key = tuple(as_dipole)
        if key not in self._bodies:
            self._bodies[key] = bodies(self.robot, as_dipole, self._varied, self._given_links)
        return self._bodies[key]

    def link(self, i: int) -> TreeLink:
        """Return link i."""
        link, part = self.robot.links[i], self.dofs[i]
        rotation, origin = self._placed(i)
        friction = (
            None
            if self.friction is None
            else FrictionModel(self.friction.forces[part.start : part.stop], self.friction.speed)
        )
        return TreeLink(
            i,
            link.joint.type,
            rotation,
            origin,
            self.inertias[i],
            armature=[self.armature[d] for d in part],
            damping=[self.damping[d] for d in part],
            friction=friction,
            turn_out=self.turns[i],
            moved=self._moved[i],
            base_acceleration=self.base_acceleration,
        )

    def joint_torque(self, d: int, force: SpatialForce, qd: Sequence[Scalar], qdd: Sequence[Scalar]) -> Scalar:
        """Return the torque of degree of freedom d for a force in its link's own frame, its resistance and its
        rotor.
        """
        return self.along(d, force) + self.resistance(d, qd) + self.armature[d] * qdd[d]

    def resistance(self, d: int, qd: Sequence[Scalar]) -> Scalar:
        """Return the torque of damping and friction at degree of freedom d and velocity qd (nv,)."""
        link, own = self._of(d)
        return link.resistance(own, qd[d])

    def _of(self, d: int) -> tuple[TreeLink, int]:
        """The link of degree of freedom d, and the number of d there."""
        i = self.link_of[d]
        return self.each_link[i], d - self.dofs[i].start

    def damped(self, by_qd: Array, qd: Sequence[Scalar]) -> Array:
        """∂τ/∂q̇ (nv, nv) with the derivative of `resistance` at velocity qd (nv,) on its diagonal."""
        for d in range(self.nv):
            damping = self.damping[d]
            if self.friction is not None:
                with scope("grad", *self.where(d)):
                    damping = damping + label(self.friction.slope(d, qd[d]), "friction_qd")
            by_qd[d, d] = by_qd[d, d] + damping
        return by_qd

    def external_force(self, i: int, external: Array) -> SpatialForce:
        """Row i of the external forces (links, 6), as `TreeLink.outside` takes it."""
        return self.each_link[i].outside(external[i])

    def point(self, i: int, position: Sequence[Scalar] | Array) -> Array:
        """A place (3,) in the frame of link i as the robot's file has it, m, in the tree's frame of the link."""
        return self.turns[i].T @ array(position) - array([0.0, 0.0, self._moved[i]])

    def slides(self, d: int) -> bool:
        """Whether degree of freedom d is a distance and not an angle."""
        link, own = self._of(d)
        return link.directions[own] >= 3

    def along(self, d: int, force: SpatialForce) -> Scalar:
        """S_dᵀ f for a force in the own frame of d's link."""
        link, own = self._of(d)
        return link.along(own, force)

    def axis(self, d: int) -> SpatialMotion:
        """S_d in the own frame of d's link."""
        link, own = self._of(d)
        return link.axis(own)

    def axis_at(self, d: int, rotation: Array, position: Array) -> SpatialMotion:
        """S_d seen from a frame in which d's link has this pose."""
        link, own = self._of(d)
        half, k = divmod(link.directions[own], 3)
        along = rotation[:, k]
        return SpatialMotion(zeros(3), along) if half else SpatialMotion(along, cross(position, along))

    def joint_motion(self, i: int, rates: Sequence[Scalar]) -> SpatialMotion:
        """S_i times the joint's part of q̇ or q̈ (nv,), in link i's own frame."""
        return self.each_link[i].motion(rates[self.dofs[i].start : self.dofs[i].stop])

    def where(self, d: int) -> tuple[str, ...]:
        """The scope of degree of freedom d: its link, and itself where its joint has several."""
        i = self.link_of[d]
        return (f"link{i}",) if len(self.dofs[i]) == 1 else (f"link{i}", f"dof{d}")
