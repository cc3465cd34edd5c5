"""Passes over the links of a robot: from the root to the leaves, from the leaves to the root, or link by link.

An algorithm in this form runs link by link on scalars (`Tree`). `graph.scan_trace` records the same code once
per kind of link, as a loop over links.
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
    """A link and its joint over any scalar. Methods count the joint's degrees of freedom from 0.

    Args:
        number: Number of the link in the tree.
        kind: Type of the joint.
        rotation: Rotation (3, 3) of the joint's frame in the parent.
        origin: Origin (3,) of the joint's frame in the parent, m.
        inertia: Spatial inertia in the link's frame.
        armature: Rotor inertia of each degree of freedom, kg m² or kg.
        damping: Damping of each degree of freedom, N m s/rad or N s/m.
        friction: Friction of these degrees of freedom, or None.
        to_file_axes: Rotation (3, 3) from the axes of this tree's link to those of the robot's file.
        moved: Distance along z by which the frame's origin was moved from that of the robot's file, m.
        base_acceleration: Minus gravity (3,), in the base frame, m/s².
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
        to_file_axes: Array,
        moved: Scalar,
        base_acceleration: Array,
    ) -> None:
        self.number, self.kind, self.rotation, self.origin = number, kind, rotation, origin
        self.inertia, self.armature, self.damping, self.friction = inertia, armature, damping, friction
        self.to_file_axes, self.moved = to_file_axes, moved
        self.base_acceleration = base_acceleration
        self.directions = kind_of(kind).directions
        self._motion = motion_of(kind)
        self.dofs = range(len(self.directions))

    def turn(self, q: Sequence[Scalar]) -> list[Scalar]:
        """Return the functions of the joint's q that `pose` needs, such as cosine and sine."""
        return self._motion.turn(self.number, q)

    def pose(self, turn: Sequence[Scalar]) -> JointTransform:
        """Return the pose of the link in its parent, from the result of `turn`."""
        return self._motion.pose(self.number, self.rotation, self.origin, turn)

    @property
    def free(self) -> bool:
        """Whether the joint leaves the link all six directions."""
        return kind_of(self.kind).free

    def axis(self, d: int) -> SpatialMotion:
        """Return S_d, column d of the joint's motion subspace, in the link's frame."""
        axis = SpatialMotion(zeros(3), zeros(3))
        half, k = divmod(self.directions[d], 3)
        axis[half][k] = 1.0
        return axis

    def along(self, d: int, force: SpatialForce) -> Scalar:
        """Return the generalized force S_dᵀ f of a spatial force in the link's frame."""
        half, k = divmod(self.directions[d], 3)
        return force[half][k]

    def motion(self, rates: Sequence[Scalar]) -> SpatialMotion:
        """Return S q̇ or S q̈ in the link's frame, for the joint's part of q̇ or q̈."""
        motion = SpatialMotion(zeros(3), zeros(3))
        for direction, rate in zip(self.directions, rates, strict=True):
            half, k = divmod(direction, 3)
            motion[half][k] = rate
        return motion

    def resistance(self, d: int, rate: Scalar) -> Scalar:
        """Return the torque of damping and friction at degree of freedom d for its velocity `rate`."""
        damped = self.damping[d] * rate
        return damped if self.friction is None else damped + label(self.friction.torque(d, rate), "friction")

    def outside(self, row: Sequence[Scalar]) -> SpatialForce:
        """Convert an external force [moment; force] (6,) from the link's frame in the robot's file to this tree's
        frame.
        """
        values = array(list(row))
        moment, force = (self.to_file_axes.T @ values[part] for part in (slice(3), slice(3, 6)))
        return SpatialForce(moment - cross(array([0.0, 0.0, self.moved]), force), force)


PerLink = Any
"""A value for every link: a sequence, or its placeholder while an algorithm is recorded."""

LinkStep = Callable[..., Any]
"""A function step(link, *values of the link) that returns the link's result."""

PassStep = Callable[..., tuple[Any, Any]]
"""A function step(link, message, *values of the link) that returns the next message and the link's result.

From root to leaves, the message comes from the parent and is None at the root. From leaves to root, it is the sum of
the children's messages and is None at a leaf.
"""

TreeStep = Callable[..., tuple[Any, ...]]
"""A function step(tree, *values) that returns results. A value has an entry per link, or none."""


class Links(ABC):
    """The links of a kinematic tree, and the passes that run over them. `part` names the algorithm in recorded
    operations.
    """

    @property
    @abstractmethod
    def tree(self) -> Any:
        """The `Tree` that these links belong to."""

    @abstractmethod
    def configurations(self, q: Any) -> PerLink:
        """Split q (nq,) by link."""

    @abstractmethod
    def velocities(self, values: Any) -> PerLink:
        """Split q̇, q̈ or τ (nv,) by link."""

    @abstractmethod
    def rows(self, values: Any) -> PerLink:
        """Split an array (links, ...) into its rows."""

    @abstractmethod
    def vector(self, values: PerLink) -> Any:
        """Join the numbers of each link's degrees of freedom to a vector (nv,)."""

    @abstractmethod
    def map(self, step: LinkStep, *values: PerLink) -> PerLink:
        """Run a step for each link independently. A loop over links stores the results from one pass to the next."""

    @abstractmethod
    def recompute(self, step: LinkStep, *values: PerLink) -> PerLink:
        """Run `map`, but recompute its results in each later pass that reads them, which saves memory in loops over
        links.
        """

    def transforms(self, q: Any) -> PerLink:
        """Return the pose of every link in its parent as `JointTransform`s."""
        turns = self.map(lambda link, own: link.turn(own), self.configurations(q))
        return self.recompute(lambda link, turn: link.pose(turn), turns)

    @abstractmethod
    def down(self, part: str, step: PassStep, *values: PerLink) -> PerLink:
        """Run a pass from the root to the leaves and return the result of each link."""

    @abstractmethod
    def up(self, part: str, step: PassStep, *values: PerLink) -> PerLink:
        """Run a pass from the leaves to the root and return the result of each link."""

    @abstractmethod
    def gather(self, part: str, step: TreeStep, by_link: Sequence[bool], *values: Any) -> tuple[Any, ...]:
        """Compute a step once for all links.

        Args:
            part: Name of the algorithm, for recorded operations.
            step: The function to run once.
            by_link: For each result, whether it has an entry for every link.
            values: Arguments of the step, with an entry for every link or one value for all.
        """

    @abstractmethod
    def broadcast(self, value: Any) -> PerLink:
        """Return one value as a value for every link."""
