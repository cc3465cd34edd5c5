"""The rows of a robot's constraints: their Jacobian, the accelerations of constrained frames, and the opening of loops.

Vectors are in the axes of the floating link from which a frame hangs, or in base axes if there is no such link. In
these axes J has the fewest entries that vary. The drift J̇ q̇ follows from inverse dynamics at q̈ = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dynagate.base.naming import label, scope
from dynagate.dynamics.constraints.kinds import (
    Directions,
    FramePoses,
    direction_rates,
    directions,
    is_still,
    opening,
    vector_rows,
)
from dynagate.dynamics.recursions.poses import Poses, chains, jacobian_columns, poses
from dynagate.dynamics.recursions.rnea import TorquesAndMotion
from dynagate.dynamics.spatial import Array, Scalar, array, zeros
from dynagate.dynamics.tree import Tree
from dynagate.robot.constraint import Constraint


class LinkPoses(NamedTuple):
    """Poses of all links at one configuration."""

    rotation: list[Array]
    """Rotation (3, 3) of each link, as in `Poses`."""
    position: list[Array]
    """Origin (3,) of each link, m."""
    base: list[Array]
    """Rotation (3, 3) of the base for each link."""
    q: Sequence[Scalar]
    """Configuration of all joints, with mimicking joints free."""

    @property
    def poses(self) -> Poses:
        """Return the poses of the links."""
        return Poses(self.rotation, self.position, self.base)


class Joints(NamedTuple):
    """The joints of a joint equality q₁ = p(q₂), or q₁ = constant."""

    in_q: list[int]
    """Indices of the joints' numbers in q."""
    in_v: list[int]
    """Indices of the joints' degrees of freedom."""
    parts: Sequence[float]
    """Coefficients of the polynomial p, starting with the constant."""

    def rows(self, where: LinkPoses) -> list[Scalar]:
        """Return the entries of J for the joints: 1 and -p'."""
        return [1.0, *(-_value(_slopes(self.parts), where.q[i]) for i in self.in_q[1:])]

    def opening(self, where: LinkPoses) -> Scalar:
        """Return the violation q₁ - p(q₂)."""
        first = where.q[self.in_q[0]]
        return first - (_value(self.parts, where.q[self.in_q[1]]) if self.in_q[1:] else self.parts[0])

    def drift(self, where: LinkPoses, rates: Sequence[Scalar]) -> Scalar:
        """Return J̇ q̇ = -p'' q̇₂²."""
        curved = _slopes(_slopes(self.parts))
        if not (self.in_q[1:] and any(curved)):
            return 0.0
        rate = rates[self.in_v[1]]
        return -(_value(curved, where.q[self.in_q[1]]) * (rate * rate))


def _slopes(parts: Sequence[float]) -> list[float]:
    """Return the coefficients of the derivative of a polynomial."""
    return [k * part for k, part in enumerate(parts)][1:]


def _value(parts: Sequence[float], x: Scalar) -> Scalar:
    """Evaluate a polynomial by Horner's rule."""
    result: Scalar = 0.0
    for part in reversed(parts):
        result = result * x + part
    return result


class Endpoint(NamedTuple):
    """A frame of a constraint."""

    sign: float
    """1 for the constrained frame, -1 for the other frame of a loop."""
    link: int
    """Number of the link that carries the frame, -1 for the base."""
    point: Array
    """Origin (3,) of the frame in the tree's frame of the link, m."""
    turn: Array
    """Rotation (3, 3) of the frame in the tree's frame of the link."""


class ConstraintInstance(NamedTuple):
    """A constraint of a robot, located on its tree."""

    constraint: Constraint
    """The constraint."""
    rows: slice
    """Its rows among all constraint rows."""
    ends: list[Endpoint]
    """Its frame and, for a loop, the other frame; empty for an equality of joints."""
    joints: Joints | None
    """The joints of an equality of joints, else None."""
    link: int
    """Number of the link that names intermediate values."""

    @property
    def moving(self) -> list[Endpoint]:
        """The endpoints that are not on the base."""
        return [end for end in self.ends if end.link >= 0]

    @property
    def scope(self) -> tuple[str, str]:
        """The scope that names the constraint's operations."""
        return "constraint", f"link{self.link}"

    def vector_slices(self) -> list[slice]:
        """Return the slices of rows that form 3-vectors: angular if all of rotation is fixed, and linear."""
        return [slice(self.rows.start + k.start, self.rows.start + k.stop) for k in vector_rows(self.constraint.kind)]

    def pivots(self, size: int) -> list[int]:
        """Return the sizes of the pivot blocks of the rows; vectors are blocks of three if `size` is 3."""
        vectors = self.vector_slices() if size == 3 else []
        return [1] * (self.constraint.rows - 3 * len(vectors)) + [3] * len(vectors)

    def where(self, where: LinkPoses) -> FramePoses:
        """Return the poses of the constraint's frames in the axes of its rows."""
        poses = [(end.turn, end.point) if end.link < 0 else _pose(where, end) for end in self.ends]
        (turn, at), (to_turn, to_at) = poses[0], poses[-1]
        up = where.base[self.moving[0].link] @ array(self.constraint.normal)
        return FramePoses(turn, at, to_turn, to_at, up)

    def directions(self, where: LinkPoses) -> Directions:
        """Return the directions T and P of the rows."""
        return directions(self.constraint.kind, self.where(where), self.constraint.length)


def _end(tree: Tree, name: str, sign: float) -> Endpoint:
    """Return the endpoint for a frame of the robot."""
    frame = tree.frame(name)
    if frame.link < 0:
        return Endpoint(sign, -1, frame.translation, frame.rotation)
    return Endpoint(
        sign, frame.link, tree.point(frame.link, frame.translation), tree.to_file_axes[frame.link].T @ frame.rotation
    )


def _joints(tree: Tree, constraint: Constraint) -> tuple[Joints, int]:
    """Return the joints of an equality, and the link of the first one."""
    names = tree.source.joint_names
    links = [names.index(name) for name in (constraint.frame, constraint.to) if name]
    in_q = [part.start for _, part, _ in tree.robot.slices()]
    return Joints([in_q[i] for i in links], [tree.dofs[i].start for i in links], constraint.polynomial), links[0]


def constraints_of(tree: Tree) -> Iterator[ConstraintInstance]:
    """Yield the robot's constraints in order, located on the tree."""
    start = 0
    for constraint in tree.source.constraints:
        rows = slice(start, start + constraint.rows)
        if constraint.of_joints:
            yield ConstraintInstance(constraint, rows, [], *_joints(tree, constraint))
        else:
            ends = [_end(tree, constraint.frame, 1.0), *([_end(tree, constraint.to, -1.0)] if constraint.to else [])]
            yield ConstraintInstance(constraint, rows, ends, None, next(end.link for end in ends if end.link >= 0))
        start += constraint.rows


def connected_chains(tree: Tree) -> set[int]:
    """Return the first links of chains that a loop connects to another chain or to the base."""
    result: set[int] = set()
    for instance in constraints_of(tree):
        ends = {tree.ancestors[end.link][0] if end.link >= 0 else -1 for end in instance.ends}
        result |= ends - {-1} if len(ends) > 1 else set()
    return result


def poses_of(tree: Tree, q: Sequence[Scalar]) -> LinkPoses:
    """Return the poses of all links in the axes of their chain's floating link, or of the base.

    Chains that a loop connects to another chain or to the base are expressed in base axes.
    """
    reference = {first: first if tree.robot.links[first].joint.kind.free else -1 for first in chains(tree)}
    reference |= dict.fromkeys(connected_chains(tree), -1)
    return LinkPoses(*poses(tree, q, reference), q)


def _position(where: LinkPoses, end: Endpoint) -> Array:
    """Return the origin (3,) of an endpoint."""
    return end.point if end.link < 0 else where.position[end.link] + where.rotation[end.link] @ end.point


def _pose(where: LinkPoses, end: Endpoint) -> tuple[Array, Array]:
    """Return the rotation (3, 3) and origin (3,) of an endpoint."""
    return where.rotation[end.link] @ end.turn, _position(where, end)


def jacobian_of(tree: Tree, where: LinkPoses, *, closed: bool = False) -> Array:
    """Return J (rows, nv) of a robot with free joints.

    Args:
        tree: The robot.
        where: Poses of its links.
        closed: Whether to assume closed loops: both frames at the position of the first.
    """
    result = zeros(tree.source.constraint_rows, tree.nv)
    for instance in constraints_of(tree):
        if instance.joints:
            with scope(*instance.scope):
                result[instance.rows.start, instance.joints.in_v] = array(instance.joints.rows(where))
            continue
        directions_here = instance.directions(where)
        first = closed and instance.constraint.kind != "distance"
        for end in instance.moving:
            with scope("constraint", f"link{end.link}"):
                point = label(_position(where, instance.ends[0] if first else end), "p")
                rows = directions_here.of(*jacobian_columns(tree, end.link, point, where.poses))
                for d in tree.support[end.link]:
                    result[instance.rows, d] = result[instance.rows, d] + rows[:, d] * end.sign
    return result


Velocity = Callable[[Endpoint], tuple[Array, Array]]
"""A function that returns the angular and linear velocity (3,) of an endpoint in the axes of the rows."""


def acceleration_of(
    tree: Tree, where: LinkPoses, motion: TorquesAndMotion, rates: Sequence[Scalar], velocity: Velocity | None = None
) -> Array:
    """Return the accelerations (rows,) of constrained frames, relative to the other frame for loops.

    Equalities of joints contribute only J̇ q̇.

    Args:
        tree: The robot.
        where: Poses of its links.
        motion: Accelerations of its links.
        rates: q̇ of all joints, with mimicking joints free.
        velocity: Velocity of an endpoint; None computes it from J and q̇.
    """

    def by_columns(end: Endpoint) -> tuple[Array, Array]:
        angular, linear = jacobian_columns(tree, end.link, _position(where, end), where.poses)
        return angular @ array(list(rates)), linear @ array(list(rates))

    result = zeros(tree.source.constraint_rows)
    for instance in constraints_of(tree):
        if instance.joints:
            with scope(*instance.scope):
                result[instance.rows.start] = instance.joints.drift(where, rates)
            continue
        directions_here = instance.directions(where)
        for end in instance.moving:
            i = end.link
            with scope("constraint", f"link{i}"):
                angular = where.rotation[i] @ motion.angular_acceleration[i]
                linear = where.rotation[i] @ motion.point_acceleration(i, end.point)
                result[instance.rows] = result[instance.rows] + directions_here.of(angular, linear) * end.sign
        if len(instance.moving) == 1:  # between two moving frames, gravity cancels
            (end,) = instance.moving
            fall = where.base[end.link] @ tree.base_acceleration
            result[instance.rows] = result[instance.rows] - directions_here.of(zeros(3), fall) * end.sign
        if not is_still(instance.constraint.kind):
            with scope(*instance.scope):
                result[instance.rows] = result[instance.rows] + _turned(instance, where, velocity or by_columns)
    return result


def _turned(instance: ConstraintInstance, where: LinkPoses, velocity: Velocity) -> Array:
    """Return the accelerations (rows,) due to the rotation of a constraint's directions."""
    spin, turning, moving = zeros(3), zeros(3), zeros(3)
    for end in instance.moving:
        to_file_axes, moves = velocity(end)
        turning, moving = turning + to_file_axes * end.sign, moving + moves * end.sign
        spin = to_file_axes if end is instance.ends[0] else spin
    return direction_rates(
        instance.constraint.kind, instance.where(where), instance.constraint.length, spin, (turning, moving)
    )


def stabilized(tree: Tree, where: LinkPoses, rows: Array, velocity: Callable[[slice], Array]) -> Array:
    """Add Baumgarte's stabilization to constraint accelerations (rows,). `velocity` returns J q̇ for a slice of rows."""
    result = rows.copy()
    for instance in constraints_of(tree):
        own = instance.constraint
        with scope(*instance.scope):
            if own.damping:
                result[instance.rows] = result[instance.rows] + velocity(instance.rows) * own.damping
            if own.stiffness:
                result[instance.rows] = result[instance.rows] + _opening(where, instance) * own.stiffness
    return result


def _opening(where: LinkPoses, instance: ConstraintInstance) -> Array:
    """Return the opening (rows,) of a constraint."""
    if instance.joints:
        return array([instance.joints.opening(where)])
    return opening(instance.constraint.kind, instance.where(where), instance.constraint.length)


def in_base(tree: Tree, where: LinkPoses, rows: Array) -> Array:
    """Rotate constraint rows, (rows,) or (rows, n), to base axes."""
    result = zeros(*rows.shape)
    for instance in constraints_of(tree):
        result[instance.rows] = rows[instance.rows]
        for three in instance.vector_slices():
            result[three] = where.base[instance.moving[0].link].T @ rows[three]
    return result
