"""Forward dynamics of a robot whose frames are held, by contacts or by each other (`robot.model.Constraint`).

With the constraints' Jacobian J, the forces λ that they give, and the stabilisation k, d and compliance c of each,

    M q̈ + h = τ + Jᵀ λ,    J q̈ + J̇ q̇ + d J q̇ + k e + c λ = 0    (Featherstone 2008, §3.2 and §8.3),

where e is how far a loop is open. With M = Lᵀ D L and Y = L⁻ᵀ Jᵀ the matrix of λ is the Delassus matrix Yᵀ D⁻¹ Y + c,
which is factorised in turn. An inactive constraint has rows of zeros in J and ones on this diagonal, so its force is 0
and no other graph is needed.

Vectors are in axes of the floating link that a frame hangs from, or in base axes without one: there J has the fewest
entries that vary. The drift J̇ q̇ is what inverse dynamics finds of accelerations at q̈ = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.naming import label, scope
from dynagate.dynamics import named_frames
from dynagate.dynamics.block_ldl import solve_symmetric
from dynagate.dynamics.configuration import normalised
from dynagate.dynamics.coupling import Elimination
from dynagate.dynamics.frames import Poses, chains, poses
from dynagate.dynamics.inverse_dynamics import Balance, balance
from dynagate.dynamics.mass_matrix import CONFIGURATIONS, SINGULAR, Factor, factorise, inwards, mass_matrix, outwards
from dynagate.dynamics.spatial import Array, Force, Scalar, array, cross, zeros
from dynagate.dynamics.tree import Tree
from dynagate.robot.model import Constraint, Robot, RobotError


class _End(NamedTuple):
    """A frame of a constraint. sign: 1 for the frame that is held, -1 for that at which a loop holds it. link: that
    carries it, -1 for the base. point (3,), turn (3, 3): its pose in the tree's frame of the link."""

    sign: float
    link: int
    point: Array
    turn: Array


class _Held(NamedTuple):
    """A constraint on the tree. rows: its places among all rows. ends: its frame, and, of a loop, the other one."""

    constraint: Constraint
    rows: slice
    ends: list[_End]

    @property
    def moving(self) -> list[_End]:
        return [end for end in self.ends if end.link >= 0]

    @property
    def scope(self) -> tuple[str, str]:
        return "constraint", f"link{self.moving[0].link}"

    def in_threes(self) -> list[slice]:
        """The places of turning, where it holds that, and of moving."""
        return [slice(k, k + 3) for k in range(self.rows.start, self.rows.stop, 3)]

    def of(self, turning: Array, moving: Array) -> Array:
        """What it holds of two vectors (3,)."""
        return np.concatenate([turning, moving])[-self.constraint.rows :]


def _end(tree: Tree, name: str, sign: float) -> _End:
    frame = tree.moving.frame(name)
    if frame.link < 0:
        return _End(sign, -1, array(frame.translation), array(frame.rotation))
    return _End(
        sign, frame.link, tree.point(frame.link, frame.translation), tree.turns[frame.link].T @ array(frame.rotation)
    )


def _held(tree: Tree) -> Iterator[_Held]:
    start = 0
    for own in tree.moving.constraints:
        ends = [_end(tree, own.frame, 1.0), *([_end(tree, own.to, -1.0)] if own.to else [])]
        yield _Held(own, slice(start, start + own.rows), ends)
        start += own.rows


def _poses(tree: Tree, q: Sequence[Scalar]) -> Poses:
    """Of all links in the axes of the floating link of their chain, or of the base: also of chains that a loop ties to
    another one or to the base."""
    reference = {first: first if tree.robot.links[first].joint.kind.free else -1 for first in chains(tree)}
    for held in _held(tree):
        tied = {tree.ancestors[end.link][0] if end.link >= 0 else -1 for end in held.ends}
        if len(tied) > 1:
            reference |= dict.fromkeys(tied - {-1}, -1)
    return poses(tree, q, reference)


def _position(where: Poses, end: _End) -> Array:
    return end.point if end.link < 0 else where.position[end.link] + where.rotation[end.link] @ end.point


def _jacobian(tree: Tree, where: Poses, *, closed: bool = False) -> Array:
    """J (rows, nv) of the robot with its joints free. closed: as if the other end of a loop were where the first is."""
    result = zeros(tree.moving.constraint_rows, tree.nv)
    for held in _held(tree):
        for end in held.moving:
            with scope("constraint", f"link{end.link}"):
                at = label(_position(where, held.ends[0] if closed else end), "p")
                for d in tree.support[end.link]:
                    j = tree.link_of[d]
                    seen = tree.axis_at(d, where.rotation[j], where.position[j] - at)
                    result[held.rows, d] = result[held.rows, d] + held.of(*seen) * end.sign
    return result


def _acceleration(tree: Tree, where: Poses, motion: Balance) -> Array:
    """Accelerations of the frames that are held, of loops beside the other ones (rows,)."""
    result = zeros(tree.moving.constraint_rows)
    for held in _held(tree):
        for end in held.moving:
            i = end.link
            with scope("constraint", f"link{i}"):
                turning = where.rotation[i] @ motion.turning[i]
                moving = where.rotation[i] @ motion.of_point(i, end.point)
                result[held.rows] = result[held.rows] + held.of(turning, moving) * end.sign
        if len(held.moving) == 1:  # else both fall
            (end,) = held.moving
            fall = where.base[end.link] @ tree.base_acceleration
            result[held.rows] = result[held.rows] - held.of(zeros(3), fall) * end.sign
    return result


def _stabilised(tree: Tree, where: Poses, rows: Array, velocity: Callable[[slice], Array]) -> Array:
    """Rows of accelerations with what Baumgarte's stabilisation adds. velocity: of some rows."""
    result = rows.copy()
    for held in _held(tree):
        own = held.constraint
        with scope(*held.scope):
            if own.damping:
                result[held.rows] = result[held.rows] + velocity(held.rows) * own.damping
            if own.stiffness:
                result[held.rows] = result[held.rows] + _opening(where, held) * own.stiffness
    return result


def _opening(where: Poses, held: _Held) -> Array:
    """How far a loop is open: the distance of its frames, and ½ Σ b × a over their axes, which is the angle between
    them to third order."""
    turns = [end.turn if end.link < 0 else where.rotation[end.link] @ end.turn for end in held.ends]
    a, b = (turn.T for turn in turns)
    angle = (cross(b[0], a[0]) + cross(b[1], a[1]) + cross(b[2], a[2])) * 0.5
    first, second = (_position(where, end) for end in held.ends)
    return held.of(angle, first - second)


def _in_base(tree: Tree, where: Poses, rows: Array) -> Array:
    """Rows of constraints, turned into base axes."""
    result = zeros(len(rows))
    for held in _held(tree):
        for three in held.in_threes():
            result[three] = where.base[held.moving[0].link].T @ rows[three]
    return result


def forward_dynamics(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    active: Sequence[Scalar],
    acceleration: Sequence[Scalar] | None = None,
    *,
    external: Array | None = None,
    pivots: int = 3,
) -> tuple[list[Scalar], Array]:
    """q̈ (nv,) in rad/s² or m/s², and the forces λ (rows,) on the frames that are held, in their order and in base
    axes: of a point [force] in N, of a fixed one [moment; force] in N m and N, about and at the frame's origin.

    active (constraints,): 1 where a constraint holds, 0 where it does not. acceleration (rows,): what the frames are to
    have instead of 0, in the axes of the rows. pivots: of the Delassus matrix at a time, 1 or 3.
    """
    coupling = tree.coupling
    order: Elimination = coupling or tree
    position, velocity = (coupling.configuration(q), coupling.rates(qd)) if coupling else (q, qd)
    motion = balance(tree, position, velocity, [0.0] * tree.nv, external)
    bias, m = motion.tau, mass_matrix(tree, position)
    if coupling:
        bias, m = coupling.torques(bias), coupling.symmetric(m)
    factor = factorise(order, m)
    where = _poses(tree, position)
    jacobian = _jacobian(tree, where)
    if coupling:
        jacobian = coupling.columns(jacobian)
    drift = _acceleration(tree, where, motion)
    if acceleration is not None:
        drift = drift - array(list(acceleration))
    drift = _stabilised(tree, where, drift, lambda rows: jacobian[rows] @ array(list(qd)))
    for k, held in enumerate(_held(tree)):
        with scope(*held.scope):
            jacobian[held.rows] = jacobian[held.rows] * active[k]
            drift[held.rows] = drift[held.rows] * active[k]
    with scope("solve"):
        half = inwards(order, factor, [t - b for t, b in zip(tau, bias, strict=True)])
        columns = [inwards(order, factor, row) for row in jacobian]
    scaled = [array(column) * array(factor.inverse_d) for column in columns]
    with scope("delassus"):
        delassus = _delassus(scaled, columns)
        for k, held in enumerate(_held(tree)):
            for row in range(held.rows.start, held.rows.stop):
                delassus[row, row] = delassus[row, row] + ((1.0 + held.constraint.compliance) - active[k])
        rhs = [-(d + column @ array(half)) for d, column in zip(drift, scaled, strict=True)]
        force = solve_symmetric(delassus, rhs, pivots)
    with scope("solve"):
        pushed = [h + array([column[d] for column in columns]) @ force for d, h in enumerate(half)]
        qdd = outwards(order, factor, pushed)
    with scope("constraint"):
        return qdd, label(_in_base(tree, where, force), "force")


def _delassus(scaled: Sequence[Array], columns: Sequence[Sequence[Scalar]]) -> Array:
    """Yᵀ D⁻¹ Y, each pair of entries once."""
    n = len(columns)
    result = zeros(n, n)
    for a in range(n):
        for b in range(a, n):
            result[a, b] = result[b, a] = label(scaled[a] @ array(columns[b]), f"s_{a}_{b}")
    return result


def residual(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    force: Sequence[Scalar],
    external: Array | None = None,
) -> tuple[list[Scalar], list[Scalar]]:
    """The torques (nv,) that are left of M q̈ + h - Jᵀ λ, and the rows J q̈ + J̇ q̇ + d J q̇ + k e + c λ, where all
    constraints are active. force: λ (rows,) in base axes."""
    where = _poses(tree, q)
    local = array(list(force))
    pushes: dict[int, Force] = {}
    for held in _held(tree):
        for three in held.in_threes():
            with scope(*held.scope):
                local[three] = where.base[held.moving[0].link] @ local[three]
        for end in held.moving:
            i = end.link
            with scope("constraint", f"link{i}"):
                turned = [(where.rotation[i].T @ local[three]) * end.sign for three in held.in_threes()]
                moment = cross(end.point, turned[-1]) + (turned[0] if len(turned) == 2 else zeros(3))
                push = Force(moment, turned[-1])
                pushes[i] = pushes[i] + push if i in pushes else push
    motion = balance(tree, q, qd, qdd, external, pushes)
    rows = _acceleration(tree, where, motion)
    rows = _stabilised(tree, where, rows, lambda rows: _jacobian(tree, where)[rows] @ array(list(qd)))
    for held in _held(tree):
        if held.constraint.compliance:
            with scope(*held.scope):
                rows[held.rows] = rows[held.rows] + local[held.rows] * held.constraint.compliance
    return motion.tau, list(rows)


def contact_jacobian(tree: Tree, q: Sequence[Scalar]) -> Array:
    """J (rows, nv) of all constraints, active or not, in base axes: of a point the velocity of the frame's origin by q̇,
    of a fixed one [angular; linear], and of loops this less that of the other frame."""
    result = zeros(tree.moving.constraint_rows, tree.nv)
    for held in _held(tree):
        for end, name in zip(held.ends, (held.constraint.frame, held.constraint.to), strict=False):
            if end.link >= 0:
                own = named_frames.jacobian(tree, q, name)[-held.constraint.rows :]
                result[held.rows] = result[held.rows] + own * end.sign
    return label(result, "contact_jacobian")


def check_any(tree: Tree) -> None:
    """Raises RobotError: the robot has no constraints."""
    if not tree.moving.constraints:
        raise RobotError(
            f"robot '{tree.moving.name}' has no contacts and no loops, which constrained functions are about; expected "
            "robot.with_contact('frame') for each (--contact FRAME on the command line), or robot.with_loop(...) "
            "(--loop FRAME,FRAME)"
        )


def check_independent(tree: Tree) -> None:
    """Raises RobotError: as `check_any`, or a constraint holds, at every configuration, what those before it and the
    robot's joints hold already, and has no compliance, so that its force is not determined."""
    check_any(tree)
    robot, random = tree.moving, np.random.default_rng(0)
    dependent = set(range(len(robot.constraints)))
    for _ in range(CONFIGURATIONS):
        q = normalised(robot, random.uniform(-1.0, 1.0, robot.nq))
        dependent &= _dependent(tree.nominal, q.tolist())
    if dependent:
        names = ", ".join(robot.constraints[k].text for k in sorted(dependent))
        raise RobotError(
            f"{names} of robot '{robot.name}' holds what constraints before it or the joints hold already, so that "
            "its force is not determined; expected fewer constraints, 'point' for 'fixed', or compliance= of more than "
            "0, such as 1e-6"
        )


def _dependent(tree: Tree, q: Sequence[float]) -> set[int]:
    """Constraints with a row that those before it make at q, and no compliance."""
    coupling = tree.coupling
    order: Elimination = coupling or tree
    position = coupling.configuration(q) if coupling else q
    m, jacobian = mass_matrix(tree, position), _jacobian(tree, _poses(tree, position), closed=True)
    if coupling:
        m, jacobian = coupling.symmetric(m), coupling.columns(jacobian)
    factor: Factor = factorise(order, m)
    columns = np.array([inwards(order, factor, row) for row in jacobian], dtype=np.float64)
    columns *= np.sqrt(np.array(factor.inverse_d, dtype=np.float64))
    return _without_pivots(tree.moving, columns)


def _without_pivots(robot: Robot, columns: npt.NDArray[np.float64]) -> set[int]:
    """Constraints with a row, of `columns` (rows, nv), of which nothing is left beside those before it."""
    basis: list[npt.NDArray[np.float64]] = []
    result: set[int] = set()
    sizes = np.linalg.norm(columns, axis=1)
    row = 0
    for k, own in enumerate(robot.constraints):
        largest = sizes[row : row + own.rows].max()
        for column in columns[row : row + own.rows]:
            left = column.copy()
            for _ in range(2):  # once more, for what rounding left
                for direction in basis:
                    left -= (direction @ left) * direction
            size = float(np.linalg.norm(left))
            if size**2 > SINGULAR * largest**2:
                basis.append(left / size)
            elif not own.compliance:
                result.add(k)
        row += own.rows
    return result
