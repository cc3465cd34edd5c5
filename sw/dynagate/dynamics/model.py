"""Constants of a robot as the algorithms need them: link frames with z on the joint axis, and numbers as scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
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
    """A frame fixed to a link or to the base."""

    link: int
    """Number of the link that carries the frame, -1 for the base."""
    rotation: Array
    """Rotation (3, 3) from the frame's axes to those of the link in the robot's file."""
    translation: Array
    """Origin (3,) of the frame in the link's frame of the robot's file, m."""


class Model:
    """A robot with every joint axis aligned to z (`Robot.aligned`), and its constants as object arrays.

    Frames and inertias are the ones that need the fewest operations (`reduction`). They preserve joint torques and
    everything that follows from torques, but not the positions and masses of links: use `unreduced` for those.

    A degree of freedom is one column of a joint's motion subspace S, a unit vector of the link's frame: a revolute
    joint rotates about z, and a floating joint moves along and rotates about each axis.

    Args:
        robot: The robot.
        reduced: Whether to move frames and inertias to the ones that need the fewest operations.
        values: Variable parameters of the robot by the names of their inputs; None uses the robot's own numbers.
        friction: Friction of the joints, in addition to damping; None uses the robot's own (`Robot.with_friction`).

    Attributes:
        source: The robot that was passed. Its joints may mimic others; all other attributes describe free joints.
        mimic: The map between the coordinates of `source` and those of all joints.
        parents: Number of each link's parent, -1 for the base.
        ancestors: For each link, the links from the first one of its chain to itself.
        base_acceleration: Minus gravity (3,) in the base frame, m/s².
        dofs: Degrees of freedom of each link's joint.
        link_of: Link of each degree of freedom.
        support: For each link, all degrees of freedom that move it.
        chain: For each degree of freedom d, those between the base and d, d included.
        damping: Damping of each degree of freedom, N m s/rad or N s/m.
        armature: Rotor inertia of each degree of freedom, kg m² or kg.
        to_file_axes: Rotation (3, 3) from the axes of each link here to those of the robot's file.
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
        self._requested_friction = friction
        self._bodies: dict[tuple[bool, ...], list[Body]] = {}
        self.mimic = MimicMap(robot)
        robot = self._given
        self.to_file_axes = [array(turn_z_to(np.array(link.joint.axis))) for link in robot.links]
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

    def _friction(self, requested: FrictionModel | None) -> FrictionModel | None:
        """Return the requested friction, or the robot's own, with the forces that are inputs in their places."""
        friction, varied = requested or friction_in(self._given), self._overrides.friction
        if not varied:
            return friction
        forces = friction.forces if friction else (0.0,) * self.nv
        speed = friction.speed if friction else self._given.friction_speed or SPEED
        own = tuple(varied.get(i, forces[d]) for d, i in enumerate(self.link_of))
        return replace(friction, forces=own) if friction else FrictionModel(own, speed)

    def ground_friction(self, coefficient: Scalar) -> Scalar:
        """Return the input that replaces the friction coefficient of a contact law, or the law's own if there is no
        input.
        """
        replacement = self._overrides.ground_friction
        return coefficient if replacement is None else replacement

    @cached_property
    def unreduced(self) -> Self:
        """The tree with each link's frame and mass where the robot's file has them."""
        return type(self)(self._given, reduced=False, values=self._values, friction=self._requested_friction)

    @cached_property
    def numeric(self) -> Self:
        """The tree with the robot's own numbers in place of inputs."""
        return type(self)(self.source) if self._values else self

    @cached_property
    def _given_links(self) -> list[Given]:
        return given_links(self.robot)

    @property
    def _varied(self) -> Varied:
        """The properties of links that are inputs, in this tree's frames."""
        overrides = self._overrides
        inertias = {
            i: inertia_in(self._given, i, parts, self.to_file_axes[i], self._moved[i])
            for i, parts in overrides.inertial.items()
        }
        return Varied(inertias, frozenset(overrides.poses), overrides.turned, overrides.gravity is not None)

    def of(self, robot: Robot) -> Self:
        """Return the tree of another robot with the same links and frames, with this tree's inputs and friction."""
        return (
            self if robot is self.source else type(self)(robot, values=self._values, friction=self._requested_friction)
        )

    def frame(self, name: str) -> Place:
        """Return the place of a link or frame by its name. Raise RobotError that lists the names if it does not
        exist.
        """
        frame = self.source.frame(name)
        numbers = [k for k, candidate in enumerate(self.source.frames) if candidate is frame]
        pose = self._overrides.poses.get(len(self.source.links) + numbers[0]) if numbers else None
        rotation, translation = pose or Pose(None, None)
        return Place(
            frame.link,
            array(frame.rotation) if rotation is None else rotation,
            array(frame.translation) if translation is None else translation,
        )

    def _placed(self, i: int) -> tuple[Array, Array]:
        """Return the rotation (3, 3) and origin (3,), m, of joint i's frame in this tree's frame of the parent."""
        joint = self.robot.links[i].joint
        rotation, origin = exact_rotation(joint.rotation), written(joint.translation)
        if (pose := self._overrides.poses.get(i)) is None:
            return rotation, origin
        p = self.parents[i]
        parent_axes = self.to_file_axes[p].T if p >= 0 else array(np.eye(3))
        if pose.rotation is not None:
            rotation = parent_axes @ pose.rotation @ self.to_file_axes[i]
        own = self.source.links[i].joint
        translation = written(own.translation) if pose.translation is None else pose.translation
        below = array([0.0, 0.0, self._moved[p] if p >= 0 else 0.0])
        return rotation, parent_axes @ translation + rotation[:, 2] * self._moved[i] - below

    def frictionless(self, *, weightless: bool = False) -> Self:
        """Return the tree without damping and friction; with `weightless` also without gravity."""
        tree = copy(self)
        tree.damping, tree.friction = [0.0] * self.nv, None
        if weightless:
            tree.base_acceleration = zeros(3)
        tree.each_link = [tree.link(i) for i in self.links]
        return tree

    def carrying(self, loads: Mapping[int, Inertia]) -> Self:
        """Return the tree with additional inertias on some links, for its mass matrix and everything that follows from
        it.

        Args:
            loads: Inertia to add by link number, in this tree's frame of the link.
        """
        tree = copy(self)
        tree.inertias = [inertia + loads[i] if i in loads else inertia for i, inertia in enumerate(self.inertias)]
        tree.each_link = [tree.link(i) for i in self.links]
        return tree

    def bodies(self, as_dipole: Sequence[bool]) -> list[Body]:
        """Return the inertias of links, as dipoles where `as_dipole` requests it and it is possible
        (`reduction.bodies`).
        """
        key = tuple(as_dipole)
        if key not in self._bodies:
            self._bodies[key] = bodies(self.robot, as_dipole, self._varied, self._given_links)
        return self._bodies[key]

    def link(self, i: int) -> TreeLink:
        """Return link i."""
        link, dofs = self.robot.links[i], self.dofs[i]
        rotation, origin = self._placed(i)
        friction = (
            None
            if self.friction is None
            else replace(self.friction, forces=self.friction.forces[dofs.start : dofs.stop])
        )
        return TreeLink(
            i,
            link.joint.type,
            rotation,
            origin,
            self.inertias[i],
            armature=[self.armature[d] for d in dofs],
            damping=[self.damping[d] for d in dofs],
            friction=friction,
            to_file_axes=self.to_file_axes[i],
            moved=self._moved[i],
            base_acceleration=self.base_acceleration,
        )

    def joint_torque(self, d: int, force: SpatialForce, qd: Sequence[Scalar], qdd: Sequence[Scalar]) -> Scalar:
        """Return the torque of degree of freedom d: the force on its link, resistance, and the rotor's inertia.

        Args:
            d: The degree of freedom.
            force: Spatial force on the subtree of the link, in the link's frame.
            qd: Velocities (nv,), rad/s or m/s.
            qdd: Accelerations (nv,), rad/s² or m/s².
        """
        return self.along(d, force) + self.resistance(d, qd) + self.armature[d] * qdd[d]

    def resistance(self, d: int, qd: Sequence[Scalar]) -> Scalar:
        """Return the torque of damping and friction at degree of freedom d for velocities qd (nv,)."""
        link, own = self._of(d)
        return link.resistance(own, qd[d])

    def _of(self, d: int) -> tuple[TreeLink, int]:
        """Return the link of degree of freedom d, and the number of d within its joint."""
        i = self.link_of[d]
        return self.each_link[i], d - self.dofs[i].start

    def damped(self, by_qd: Array, qd: Sequence[Scalar]) -> Array:
        """Add the derivative of `resistance` to the diagonal of ∂τ/∂q̇ (nv, nv), in place, and return the matrix."""
        for d in range(self.nv):
            damping = self.damping[d]
            if self.friction is not None:
                with scope("grad", *self.where(d)):
                    damping = damping + label(self.friction.slope(d, qd[d]), "friction_qd")
            by_qd[d, d] = by_qd[d, d] + damping
        return by_qd

    def external_force(self, i: int, external: Array) -> SpatialForce:
        """Return the external force on link i in this tree's frame, from forces (links, 6) in the frames of the robot's
        file.
        """
        return self.each_link[i].outside(external[i])

    def point(self, i: int, position: Sequence[Scalar] | Array) -> Array:
        """Convert a point (3,), m, from link i's frame in the robot's file to this tree's frame of the link."""
        return self.to_file_axes[i].T @ array(position) - array([0.0, 0.0, self._moved[i]])

    def slides(self, d: int) -> bool:
        """Whether degree of freedom d is a distance instead of an angle."""
        link, own = self._of(d)
        return link.directions[own] >= 3

    def along(self, d: int, force: SpatialForce) -> Scalar:
        """Return the generalized force S_dᵀ f of a spatial force in the frame of d's link."""
        link, own = self._of(d)
        return link.along(own, force)

    def axis(self, d: int) -> SpatialMotion:
        """Return S_d in the frame of d's link."""
        link, own = self._of(d)
        return link.axis(own)

    def axis_at(self, d: int, rotation: Array, position: Array) -> SpatialMotion:
        """Return S_d in a frame in which d's link has the given rotation (3, 3) and position (3,)."""
        link, own = self._of(d)
        half, k = divmod(link.directions[own], 3)
        along = rotation[:, k]
        return SpatialMotion(zeros(3), along) if half else SpatialMotion(along, cross(position, along))

    def joint_motion(self, i: int, rates: Sequence[Scalar]) -> SpatialMotion:
        """Return S_i q̇_i or S_i q̈_i in link i's frame, from q̇ or q̈ (nv,)."""
        return self.each_link[i].motion(rates[self.dofs[i].start : self.dofs[i].stop])

    def where(self, d: int) -> tuple[str, ...]:
        """Return the scope of degree of freedom d: its link, then d if the joint has several."""
        i = self.link_of[d]
        return (f"link{i}",) if len(self.dofs[i]) == 1 else (f"link{i}", f"dof{d}")
