"""The robot as the algorithms see it: frames on their joints' axes, constants as scalars of plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from dynagate.base.naming import label, scope
from dynagate.dynamics.coupling import Coupling
from dynagate.dynamics.friction import Friction
from dynagate.dynamics.joints import JointTransform
from dynagate.dynamics.kinds import motion_of
from dynagate.dynamics.parameters import inertia_of
from dynagate.dynamics.reduction import Body, bodies, moved_frames, regrouped
from dynagate.dynamics.spatial import Array, Force, Inertia, Motion, Scalar, array, cross, zeros
from dynagate.robot.model import Robot, turn_z_to


class Tree:
    """A robot with every joint's axis turned to z (`Robot.aligned`), and its constants as object arrays.

    Frames and inertias are those that take the fewest operations (`reduction`), for joint torques and what follows from
    them; where links and their masses are, `as_given` knows.

    A degree of freedom is one column of a joint's motion subspace S. All of them are unit vectors of the link's own
    frame: a revolute joint turns about z, a floating one moves along and turns about each axis.

    parameters: the ten inertial parameters (`parameters`) of links that have other ones than in the robot's file.
    friction: of the joints, besides their damping; None for none.
    parents[i]: -1 for the base; ancestors[i]: from the first link of the chain to i itself; base_acceleration: minus
    gravity (3,), m/s² in the base frame. dofs[i]: the degrees of freedom of joint i; link_of[d]: the link that has d;
    support[i]: all degrees of freedom that move link i; chain[d]: those between the base and d, d included, where a
    joint's own follow one another; damping[d]: N m s/rad or N s/m; armature[d]: kg m² or kg.

    Where joints mimic others, `coupling` says how; all else here is of the robot with each joint free, and
    `coupled` makes the robot's functions of it. moving: the robot with its couplings, whose q and v these are.
    turns[i]: from the axes of link i here to those that the robot gives it.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        reduced: bool = True,
        parameters: Mapping[int, Sequence[Scalar]] | None = None,
        friction: Friction | None = None,
    ) -> None:
        self.moving, self._given, self._parameters = robot, robot.uncoupled(), dict(parameters or {})
        self.friction = friction
        self.coupling = Coupling(robot) if robot.followers else None
        robot = self._given
        self.turns = [array(turn_z_to(np.array(link.joint.axis))) for link in robot.links]
        robot = robot.aligned()
        if reduced:
            robot, self._moved = moved_frames(robot)
            self.inertias = regrouped(robot, self._variable)
        else:
            self._moved = [0.0] * len(robot.links)
            self.inertias = [
                Inertia(link.mass, array(link.first_moment()), array(link.second_moment())) for link in robot.links
            ]
            for i, inertia in self._variable.items():
                self.inertias[i] = inertia
        self.robot = robot
        self.nq, self.nv = robot.nq, robot.nv
        self.links = range(len(robot.links))
        self.parents = robot.parents
        self.ancestors = [robot.ancestors(i) for i in self.links]
        self.base_acceleration: Array = array([-g for g in robot.gravity])
        self.dofs = [range(v.start, v.stop) for _, _, v in robot.slices()]
        self.link_of = [i for i in self.links for _ in self.dofs[i]]
        self._direction = [k for link in robot.links for k in link.joint.kind.directions]
        self.support = [[d for j in self.ancestors[i] for d in self.dofs[j]] for i in self.links]
        self.chain = [[e for e in self.support[i] if e <= d] for i in self.links for d in self.dofs[i]]
        self.armature = [robot.links[i].joint.armature for i in self.link_of]
        self.damping = [robot.links[i].joint.damping for i in self.link_of]

    @cached_property
    def as_given(self) -> Tree:
        """The tree with links where the robot has them, each with its own mass."""
        return Tree(self._given, reduced=False, parameters=self._parameters, friction=self.friction)

    @cached_property
    def nominal(self) -> Tree:
        """The tree with numbers alone: the robot's own inertias for those that are inputs."""
        return Tree(self.moving) if self._parameters else self

    @property
    def _variable(self) -> dict[int, Inertia]:
        """The inertias that are inputs, by link, in the tree's frames."""
        return {i: inertia_of(x, self.turns[i], self._moved[i]) for i, x in self._parameters.items()}

    def bodies(self, as_dipole: Sequence[bool]) -> list[Body]:
        """The links' inertias, these as dipoles where they can be (`reduction.bodies`)."""
        return bodies(self.robot, as_dipole, self._variable)

    def transforms(self, q: Sequence[Scalar]) -> list[JointTransform]:
        """Pose of every link in its parent."""
        poses = []
        for i, (link, part, _) in enumerate(self.robot.slices()):
            motion, rotation = motion_of(link.joint.type), array(link.joint.rotation)
            poses.append(motion.pose(i, rotation, array(link.joint.translation), motion.turn(i, q[part])))
        return poses

    def joint_torque(self, d: int, force: Force, qd: Sequence[Scalar], qdd: Sequence[Scalar]) -> Scalar:
        """What degree of freedom d must give for a force in its link's own frame, its resistance and its rotor."""
        return self.along(d, force) + self.resistance(d, qd) + self.armature[d] * qdd[d]

    def resistance(self, d: int, qd: Sequence[Scalar]) -> Scalar:
        """What damping and friction take from degree of freedom d at velocity qd (nv,)."""
        damped = self.damping[d] * qd[d]
        return damped if self.friction is None else damped + label(self.friction.torque(d, qd[d]), "friction")

    def damped(self, by_qd: Array, qd: Sequence[Scalar]) -> Array:
        """∂τ/∂q̇ (nv, nv) with the derivative of `resistance` at velocity qd (nv,) on its diagonal."""
        for d in range(self.nv):
            damping = self.damping[d]
            if self.friction is not None:
                with scope("grad", *self.where(d)):
                    damping = damping + label(self.friction.slope(d, qd[d]), "friction_qd")
            by_qd[d, d] = by_qd[d, d] + damping
        return by_qd

    def external_force(self, i: int, external: Array) -> Force:
        """Row i of the external forces (links, 6), given in the link's frame as the robot's file has it, in axes turned
        to the joint's, about the origin that the tree has moved along z."""
        moment, force = (self.turns[i].T @ external[i, part] for part in (slice(3), slice(3, 6)))
        return Force(moment - cross(array([0.0, 0.0, self._moved[i]]), force), force)

    def point(self, i: int, position: Sequence[float]) -> Array:
        """A place (3,) in the frame of link i as the robot's file has it, m, in the tree's frame of the link."""
        return self.turns[i].T @ array(position) - array([0.0, 0.0, self._moved[i]])

    def slides(self, d: int) -> bool:
        """Whether degree of freedom d is a distance and not an angle."""
        return self._direction[d] >= 3

    def along(self, d: int, force: Force) -> Scalar:
        """S_dᵀ f for a force in the own frame of d's link."""
        half, k = divmod(self._direction[d], 3)
        return force[half][k]

    def axis(self, d: int) -> Motion:
        """S_d in the own frame of d's link."""
        axis = Motion(zeros(3), zeros(3))
        half, k = divmod(self._direction[d], 3)
        axis[half][k] = 1.0
        return axis

    def axis_at(self, d: int, rotation: Array, position: Array) -> Motion:
        """S_d seen from a frame in which d's link has this pose."""
        half, k = divmod(self._direction[d], 3)
        along = rotation[:, k]
        return Motion(zeros(3), along) if half else Motion(along, cross(position, along))

    def joint_motion(self, i: int, rates: Sequence[Scalar]) -> Motion:
        """S_i times the joint's part of q̇ or q̈ (nv,), in link i's own frame."""
        motion = Motion(zeros(3), zeros(3))
        for d in self.dofs[i]:
            half, k = divmod(self._direction[d], 3)
            motion[half][k] = rates[d]
        return motion

    def where(self, d: int) -> tuple[str, ...]:
        """The scope of degree of freedom d: its link, and itself where its joint has several."""
        i = self.link_of[d]
        return (f"link{i}",) if len(self.dofs[i]) == 1 else (f"link{i}", f"dof{d}")
