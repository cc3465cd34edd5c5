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
    Ends,
    directions,
    is_still,
    opening,
    threes,
    turned,
)
from dynagate.dynamics.recursions.poses import Poses, chains, jacobian_columns, poses
from dynagate.dynamics.recursions.rnea import Balance
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

    def in_threes(self) -> list[slice]:
        """Return the slices of rows that form 3-vectors: angular if all of rotation is fixed, and linear."""
        return [slice(self.rows.start + k.start, self.rows.start + k.stop) for k in threes(self.constraint.kind)]

    def pivots(self, size: int) -> list[int]:
        """Return the sizes of the pivot blocks of the rows; vectors are blocks of three if `size` is 3."""
        vectors = self.in_threes() if size == 3 else []
        return [1] * (self.constraint.rows - 3 * len(vectors)) + [3] * len(vectors)

    def where(self, where: LinkPoses) -> Ends:
        """Return the poses of the constraint's frames in the axes of its rows."""
        poses = [(end.turn, end.point) if end.link < 0 else _pose(where, end) for end in self.ends]
        (turn, at), (to_turn, to_at) = poses[0], poses[-1]
        up = where.base[self.moving[0].link] @ array(self.constraint.normal)
        return Ends(turn, at, to_turn, to_at, up)

    def directions(self, where: LinkPoses) -> Directions:
        """Return the directions T and P of the rows."""
        return directions(self.constraint.kind, self.where(where), self.constraint.length)


def _end(tree: Tree, name: str, sign: float) -> Endpoint:
    frame = tree.frame(name)
    if frame.link < 0:
        return Endpoint(sign, -1, frame.translation, frame.rotation)
    return Endpoint(
        sign, frame.link, tree.point(frame.link, frame.translation), tree.turns[frame.link].T @ frame.rotation
    )


def _joints(tree: Tree, own: Constraint) -> tuple[Joints, int]:
    """Return the joints of an equality, and the link of the first one."""
    names = tree.source.joint_names
    links = [names.index(name) for name in (own.frame, own.to) if name]
    in_q = [part.start for _, part, _ in tree.robot.slices()]
    return Joints([in_q[i] for i in links], [tree.dofs[i].start for i in links], own.polynomial), links[0]


def constraints_of(tree: Tree) -> Iterator[ConstraintInstance]:
    """Yield the robot's constraints in order, located on the tree."""
    start = 0
    for own in tree.source.constraints:
        rows = slice(start, start + own.rows)
        if own.of_joints:
            yield ConstraintInstance(own, rows, [], *_joints(tree, own))
        else:
            ends = [_end(tree, own.frame, 1.0), *([_end(tree, own.to, -1.0)] if own.to else [])]
            yield ConstraintInstance(own, rows, ends, None, next(end.link for end in ends if end.link >= 0))
        start += own.rows


def tied_chains(tree: Tree) -> set[int]:
    """Return the first links of chains that a loop connects to another chain or to the base."""
    result: set[int] = set()
    for held in constraints_of(tree):
        ends = {tree.ancestors[end.link][0] if end.link >= 0 else -1 for end in held.ends}
        result |= ends - {-1} if len(ends) > 1 else set()
    return result


def poses_of(tree: Tree, q: Sequence[Scalar]) -> LinkPoses:
    """Return the poses of all links in the axes of their chain's floating link, or of the base.

    Chains that a loop connects to another chain or to the base are expressed in base axes.
    """
    reference = {first: first if tree.robot.links[first].joint.kind.free else -1 for first in chains(tree)}
    reference |= dict.fromkeys(tied_chains(tree), -1)
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
    for held in constraints_of(tree):
        if held.joints:
            with scope(*held.scope):
                result[held.rows.start, held.joints.in_v] = array(held.joints.rows(where))
            continue
        along = held.directions(where)
        first = closed and held.constraint.kind != "distance"
        for end in held.moving:
            with scope("constraint", f"link{end.link}"):
                at = label(_position(where, held.ends[0] if first else end), "p")
                rows = along.of(*jacobian_columns(tree, end.link, at, where.poses))
                for d in tree.support[end.link]:
                    result[held.rows, d] = result[held.rows, d] + rows[:, d] * end.sign
    return result


Velocity = Callable[[Endpoint], tuple[Array, Array]]
"""A function that returns the angular and linear velocity (3,) of an endpoint in the axes of the rows."""


def acceleration_of(
    tree: Tree, where: LinkPoses, motion: Balance, rates: Sequence[Scalar], velocity: Velocity | None = None
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
        turning, moving = jacobian_columns(tree, end.link, _position(where, end), where.poses)
        return turning @ array(list(rates)), moving @ array(list(rates))

    result = zeros(tree.source.constraint_rows)
    for held in constraints_of(tree):
        if held.joints:
            with scope(*held.scope):
                result[held.rows.start] = held.joints.drift(where, rates)
            continue
        along = held.directions(where)
        for end in held.moving:
            i = end.link
            with scope("constraint", f"link{i}"):
                turning = where.rotation[i] @ motion.turning[i]
                moving = where.rotation[i] @ motion.of_point(i, end.point)
                result[held.rows] = result[held.rows] + along.of(turning, moving) * end.sign
        if len(held.moving) == 1:  # else both fall
            (end,) = held.moving
            fall = where.base[end.link] @ tree.base_acceleration
            result[held.rows] = result[held.rows] - along.of(zeros(3), fall) * end.sign
        if not is_still(held.constraint.kind):
            with scope(*held.scope):
                result[held.rows] = result[held.rows] + _turned(held, where, velocity or by_columns)
    return result


def _turned(held: ConstraintInstance, where: LinkPoses, velocity: Velocity) -> Array:
    """Return the accelerations (rows,) due to the rotation of a constraint's directions."""
    spin, turning, moving = zeros(3), zeros(3), zeros(3)
    for end in held.moving:
        turns, moves = velocity(end)
        turning, moving = turning + turns * end.sign, moving + moves * end.sign
        spin = turns if end is held.ends[0] else spin
    return turned(held.constraint.kind, held.where(where), held.constraint.length, spin, (turning, moving))


def stabilized(tree: Tree, where: LinkPoses, rows: Array, velocity: Callable[[slice], Array]) -> Array:
    """Add Baumgarte's stabilization to constraint accelerations (rows,). `velocity` returns J q̇ for a slice of rows."""
    result = rows.copy()
    for held in constraints_of(tree):
        own = held.constraint
        with scope(*held.scope):
            if own.damping:
                result[held.rows] = result[held.rows] + velocity(held.rows) * own.damping
            if own.stiffness:
                result[held.rows] = result[held.rows] + _opening(where, held) * own.stiffness
    return result


def _opening(where: LinkPoses, held: ConstraintInstance) -> Array:
    """Return the opening (rows,) of a constraint."""
    if held.joints:
        return array([held.joints.opening(where)])
    return opening(held.constraint.kind, held.where(where), held.constraint.length)


def in_base(tree: Tree, where: LinkPoses, rows: Array) -> Array:
    """Rotate constraint rows, (rows,) or (rows, n), to base axes."""
    result = zeros(*rows.shape)
    for held in constraints_of(tree):
        result[held.rows] = rows[held.rows]
        for three in held.in_threes():
            result[three] = where.base[held.moving[0].link].T @ rows[three]
    return result
