"""Algorithms as steps over the links of a robot: from the root to the leaves, back, or each link for itself.

An algorithm that is written so runs link by link on scalars (`Tree`), and is recorded once per kind of link as a loop
over them (`graph.scan_trace`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from dynagate.base.naming import label
from dynagate.dynamics.friction import FrictionModel
from dynagate.dynamics.joint_motions import motion_of
from dynagate.dynamics.spatial import Array, Inertia, Scalar, SpatialForce, SpatialMotion, array, cross, zeros
from dynagate.dynamics.transforms import JointTransform
from dynagate.robot.kinds import kind_of


class TreeLink:
    """A link and its joint, over any scalar. Degrees of freedom are counted from 0 here.

    number: in the tree. kind: the joint's type. rotation (3, 3), origin (3,): pose of the joint's frame in the parent.
    inertia: in the link's frame. armature, damping: per degree of freedom, as in `Tree`. friction: of these degrees of
    freedom; None for none. turn_out (3, 3), moved: from the link's frame to that of the robot's file, as in `Tree`.
    base_acceleration (3,): minus gravity, in the base's frame.
    """

    def __init__(
        self,
        number: int,
        kind: str,
        rotation: Array,
        origin: Array,
        inertia: Inertia,
        *,
        armature: Sequence[Scalar],
        damping: Sequence[Scalar],
        friction: FrictionModel | None,
        turn_out: Array,
        moved: Scalar,
        base_acceleration: Array,
    ) -> None:
        self.number, self.kind, self.rotation, self.origin = number, kind, rotation, origin
        self.inertia, self.armature, self.damping, self.friction = inertia, armature, damping, friction
        self.turn_out, self.moved = turn_out, moved
        self.base_acceleration = base_acceleration
        self.directions = kind_of(kind).directions
        self._motion = motion_of(kind)
        self.dofs = range(len(self.directions))

    def turn(self, q: Sequence[Scalar]) -> list[Scalar]:
        """Return the functions of the joint's own part of the configuration that `pose` needs."""
        return self._motion.turn(self.number, q)

    def pose(self, turn: Sequence[Scalar]) -> JointTransform:
        """Pose of the link in its parent."""
        return self._motion.pose(self.number, self.rotation, self.origin, turn)

    @property
    def free(self) -> bool:
        """Whether its joint leaves it all directions."""
        return kind_of(self.kind).free

    def axis(self, d: int) -> SpatialMotion:
        """S_d in the link's frame."""
        axis = SpatialMotion(zeros(3), zeros(3))
        half, k = divmod(self.directions[d], 3)
        axis[half][k] = 1.0
        return axis

    def along(self, d: int, force: SpatialForce) -> Scalar:
        """S_dᵀ f."""
        half, k = divmod(self.directions[d], 3)
        return force[half][k]

    def motion(self, rates: Sequence[Scalar]) -> SpatialMotion:
        """S times the joint's part of q̇ or q̈, in the link's frame."""
        motion = SpatialMotion(zeros(3), zeros(3))
        for direction, rate in zip(self.directions, rates, strict=True):
            half, k = divmod(direction, 3)
            motion[half][k] = rate
        return motion

    def resistance(self, d: int, rate: Scalar) -> Scalar:
        """Return the torque of damping and friction at degree of freedom d and this velocity."""
        damped = self.damping[d] * rate
        return damped if self.friction is None else damped + label(self.friction.torque(d, rate), "friction")

    def outside(self, row: Sequence[Scalar]) -> SpatialForce:
        """A force [moment; force] (6,) given in the link's frame as the robot's file has it, in the frame here."""
        values = array(list(row))
        moment, force = (self.turn_out.T @ values[part] for part in (slice(3), slice(3, 6)))
        return SpatialForce(moment - cross(array([0.0, 0.0, self.moved]), force), force)


PerLink = Any
"""A value of every link: a sequence, or what stands for one while an algorithm is recorded."""

Each = Callable[..., Any]
"""step(link, *values of the link) -> the link's result."""

Pass = Callable[..., tuple[Any, Any]]
"""step(link, what comes along, *values of the link) -> what goes on, and the link's result. From root to leaves the
parent's comes, None at the root; from leaves to root the sum of the children's, None at a leaf."""

Whole = Callable[..., tuple[Any, ...]]
"""step(tree, *values of all links, or of no link) -> the results."""


class Links(ABC):
    """The links of a tree, with what runs over them. part: of the algorithm, for names."""

    @property
    @abstractmethod
    def tree(self) -> Any:
        """The `Tree` whose links they are."""

    @abstractmethod
    def configurations(self, q: Any) -> PerLink:
        """q (nq,) by link."""

    @abstractmethod
    def velocities(self, values: Any) -> PerLink:
        """q̇, q̈ or torques (nv,) by link."""

    @abstractmethod
    def rows(self, values: Any) -> PerLink:
        """Rows of (links, ...)."""

    @abstractmethod
    def vector(self, values: PerLink) -> Any:
        """(nv,), of the numbers of each link's degrees of freedom."""

    @abstractmethod
    def map(self, step: Each, *values: PerLink) -> PerLink:
        """Each link for itself. A loop over links keeps the results from one pass to the next."""

    @abstractmethod
    def recompute(self, step: Each, *values: PerLink) -> PerLink:
        """`map`, whose results a loop over links computes again in every pass that reads them."""

    def transforms(self, q: Any) -> PerLink:
        """Pose of every link in its parent, `JointTransform`s."""
        turns = self.map(lambda link, own: link.turn(own), self.configurations(q))
        return self.recompute(lambda link, turn: link.pose(turn), turns)

    @abstractmethod
    def down(self, part: str, step: Pass, *values: PerLink) -> PerLink:
        """From the root to the leaves."""

    @abstractmethod
    def up(self, part: str, step: Pass, *values: PerLink) -> PerLink:
        """From the leaves to the root."""

    @abstractmethod
    def gather(self, part: str, step: Whole, by_link: Sequence[bool], *values: Any) -> tuple[Any, ...]:
        """Compute a step once for all links.

        values: for every link, or one for all. by_link: for each result, whether it has an entry for every link.
        """

    @abstractmethod
    def broadcast(self, value: Any) -> PerLink:
        """One value for all, as one of every link."""
