"""Dynamics of a robot with contacts or closed loops (`robot.model.Constraint`).

With the constraints' Jacobian J, forces λ, stabilization gains k and d, compliance c and loop opening e, the equations
are

    M q̈ + h = τ + Jᵀ λ,    J q̈ + J̇ q̇ + d J q̇ + k e + c λ = 0    (Featherstone 2008, §3.2 and §8.3).

With M = Lᵀ D L and Y = L⁻ᵀ Jᵀ, the matrix of λ is the Delassus matrix Yᵀ D⁻¹ Y + c. It is factorized too, with
added masses that keep its numbers small (`augmented_delassus`). An inactive constraint has zero rows in J and
ones on the diagonal, so its force is 0 and one graph serves every set of active constraints.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numpy.polynomial import Chebyshev, Polynomial

from dynagate.base.naming import label, scope
from dynagate.dynamics.configuration import normalized
from dynagate.dynamics.constraints.delassus import Delassus, products
from dynagate.dynamics.constraints.rows import (
    acceleration_of,
    constraints_of,
    in_base,
    jacobian_of,
    poses_of,
    stabilized,
)
from dynagate.dynamics.constraints.solve import ConstraintSolver, weighted_rows
from dynagate.dynamics.factor import BlockFactor, factorize, inwards, outwards
from dynagate.dynamics.recursions import frames
from dynagate.dynamics.recursions.crba import mass_matrix
from dynagate.dynamics.recursions.invertible import CONFIGURATIONS, SINGULAR
from dynagate.dynamics.recursions.rnea import TorquesAndMotion, inverse_dynamics_with_motion
from dynagate.dynamics.spatial import Array, Scalar, SpatialForce, array, cross, zeros
from dynagate.dynamics.tree import Tree
from dynagate.robot.errors import RobotError
from dynagate.robot.model import Robot

REGULARIZATION = 1e-2
"""Regularization ε relative to an entry of Aᵀ A, large enough that forces of frames in line stay accurate to rounding.
"""
SERIES_TERMS = 9
"""Number of terms of the series that undoes the effect of ε where Aᵀ A is invertible."""
LARGEST_EIGENVALUE = 0.4
"""Largest ε / (σ² + ε), over eigenvalues σ² of Aᵀ A, for which the series restores full accuracy."""


class ConstraintFactors:
    """Factors that solve the equations of motion with active constraints at one configuration: M = LᵀDL and Y = L⁻ᵀJᵀ.

    Args:
        tree: The robot.
        q: Configuration (nq,), rad or m.
        active: (constraints,), 1 for an active constraint, else 0.

    Attributes:
        link_poses: Poses of the links.
        jacobian: J (rows, nv) of all constraints, active or not, in the axes of the rows.
    """

    def __init__(self, tree: Tree, q: Sequence[Scalar], active: Sequence[Scalar]) -> None:
        mimic = tree.mimic
        self._tree, self._solver, self._order = tree, ConstraintSolver(tree), mimic
        self._active = active
        position = mimic.configuration(q)
        self.where = poses_of(tree, position)
        self.jacobian = mimic.columns(jacobian_of(tree, self.where))
        self._masked = self._solver.masked(self.jacobian, active)
        m = mass_matrix(tree.carrying(self._solver.balls(active)), position)
        self._factor = factorize(mimic, mimic.symmetric(m))

    def solve(self, load: Sequence[Scalar], rows: Array, pivots: int) -> tuple[list[Scalar], Array]:
        """Return x (nv,) and λ (rows,), in base axes, with M x = load + Jᵀ λ and J x + rows + c λ = 0.

        Args:
            load: Generalized forces (nv,), N m or N.
            rows: Right-hand sides (rows,) of the constraints.
            pivots: Rows of a pivot block of the Delassus matrix, 1 or 3.
        """
        order, factor = self._order, self._factor
        rows = self._solver.masked(rows, self._active)
        with scope("solve"):
            half = inwards(order, factor, load)
        response = Delassus(order, factor, self._masked)
        matrix, reached = response.matrix(), response.reached(half)
        push, force = self._solver.pushes(self._active, matrix, reached, rows, pivots)
        with scope("solve"):
            pushed = [h + array([own[d] for own in response.halves]) @ push for d, h in enumerate(half)]
            result = outwards(order, factor, pushed)
        with scope("constraint"):
            return result, in_base(self._tree, self.where, force)


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
    """Return the accelerations q̈ and the constraint forces λ of a robot with active constraints.

    Args:
        tree: The robot.
        q: Configuration (nq,), rad or m.
        qd: Velocities (nv,), rad/s or m/s.
        tau: Joint torques (nv,), N m or N.
        active: (constraints,), 1 for an active constraint, else 0.
        acceleration: Prescribed accelerations (rows,) of the constrained frames, in the axes of the rows; None for 0.
        external: Forces on the links (links, 6), [moment; force] at each link's origin in its frame, N m and N.
        pivots: Rows of a pivot block of the Delassus matrix, 1 or 3.

    Returns:
        q̈ (nv,), rad/s² or m/s², and λ (rows,) in the order of the constraints and in base axes. A point has [force] in
        N. A fixed frame has [moment; force] in N m and N, at the frame's origin.

    Reference:
        Featherstone, "Rigid Body Dynamics Algorithms", 2008, §3.2 and §8.3.
    """
    bias, motion = _bias(tree, q, qd, [0.0] * tree.nv, external)
    equations = ConstraintFactors(tree, q, active)
    rows = acceleration_of(tree, equations.where, motion, tree.mimic.rates(qd))
    if acceleration is not None:
        rows = rows - array(list(acceleration))
    rows = stabilized(tree, equations.where, rows, lambda own: equations.jacobian[own] @ array(list(qd)))
    qdd, force = equations.solve([t - b for t, b in zip(tau, bias, strict=True)], rows, pivots)
    with scope("constraint"):
        return qdd, label(force, "force")


def _bias(
    tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], qdd: Sequence[Scalar], external: Array | None
) -> tuple[list[Scalar], TorquesAndMotion]:
    """Return the torques (nv,) of a motion in the robot's own coordinates, and the motion. `qdd` is for free joints."""
    mimic = tree.mimic
    motion = inverse_dynamics_with_motion(tree, mimic.configuration(q), mimic.rates(qd), qdd, external)
    return mimic.torques(motion.tau), motion


def impact(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    active: Sequence[Scalar],
    restitution: Sequence[Scalar],
    *,
    pivots: int = 3,
) -> tuple[list[Scalar], Array]:
    """Return the velocity after an inelastic or elastic impact, and the impulses: M (q̇⁺ - q̇) = Jᵀ P with J q̇⁺ + e J
    q̇ + c P = 0.

    Args:
        tree: The robot.
        q: Configuration (nq,), rad or m.
        qd: Velocities (nv,) before the impact, rad/s or m/s.
        active: (constraints,), 1 for an active constraint, else 0.
        restitution: (constraints,), e from 0 to 1: the part of each frame's velocity that is reversed.
        pivots: Rows of a pivot block of the Delassus matrix, 1 or 3.

    Returns:
        q̇⁺ (nv,), rad/s or m/s, and impulses (rows,), N s and N m s, with the layout of forces in `forward_dynamics`.
    """
    equations = ConstraintFactors(tree, q, active)
    rows = zeros(tree.source.constraint_rows)
    for k, constraint in enumerate(constraints_of(tree)):
        with scope(*constraint.scope):
            rows[constraint.rows] = (equations.jacobian[constraint.rows] @ array(list(qd))) * (restitution[k] + 1.0)
    change, impulse = equations.solve([0.0] * len(qd), rows, pivots)
    with scope("constraint"):
        after = [label(v + d, "qd_after") for v, d in zip(qd, change, strict=True)]
        return after, label(impulse, "impulse")


def delassus(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Return J M⁻¹ Jᵀ (rows, rows) of all constraints, active or not, without compliance, in base axes.

    The entries are accelerations of frames for unit forces on them, in 1/kg, 1/(kg m) and 1/(kg m²).
    """
    mimic = tree.mimic
    position = mimic.configuration(q)
    m, link_poses = mass_matrix(tree, position), poses_of(tree, position)
    jacobian = mimic.columns(in_base(tree, link_poses, jacobian_of(tree, link_poses)))
    return Delassus(mimic, factorize(mimic, mimic.symmetric(m)), jacobian).matrix()


def drift(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar]) -> Array:
    """Return J̇ q̇ + d J q̇ + k e (rows,) of all constraints, active or not, in base axes, m/s² and rad/s².

    Active constraints require J q̈ to cancel the drift.
    """
    _, motion = _bias(tree, q, qd, [0.0] * tree.nv, None)
    link_poses = poses_of(tree, tree.mimic.configuration(q))
    velocity = array(list(tree.mimic.rates(qd)))
    rows = acceleration_of(tree, link_poses, motion, list(velocity))
    rows = stabilized(tree, link_poses, rows, lambda own: jacobian_of(tree, link_poses)[own] @ velocity)
    return label(in_base(tree, link_poses, rows), "constraint_drift")


def inverse_dynamics(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    active: Sequence[Scalar],
    *,
    external: Array | None = None,
) -> tuple[list[Scalar], Array]:
    """Return torques τ and constraint forces λ that produce given accelerations: M q̈ + h = τ + Jᵀ λ.

    If several forces are possible, λ has the smallest sum of squares in N and N m. Undriven joints are floating ones
    and those of `Robot.passive`; their τ is the remaining residual, which is 0 if q̈ is possible. If it is not, the
    residual has the smallest sum of squares: λ = A μ, where A is J of those joints and μ the limit of (Aᵀ A + ε) μ =
    τ_p for small ε.

    Args:
        tree: The robot.
        q: Configuration (nq,), rad or m.
        qd: Velocities (nv,), rad/s or m/s.
        qdd: Accelerations (nv,), rad/s² or m/s².
        active: (constraints,), 1 for an active constraint, else 0.
        external: Forces on the links (links, 6), as in `forward_dynamics`.

    Returns:
        τ (nv,), N m or N, and λ (rows,) as in `forward_dynamics`.
    """
    mimic, robot = tree.mimic, tree.source
    full, _ = _bias(tree, q, qd, mimic.rates(qdd), external)
    link_poses = poses_of(tree, mimic.configuration(q))
    jacobian = mimic.columns(jacobian_of(tree, link_poses))
    for k, constraint in enumerate(constraints_of(tree)):
        with scope(*constraint.scope):
            jacobian[constraint.rows] = jacobian[constraint.rows] * active[k]
    undriven = robot.undriven
    force = zeros(robot.constraint_rows)
    if undriven:
        across = jacobian[:, undriven]
        with scope("delassus"):
            force = across @ _least_squares_multipliers(
                across, [full[d] for d in undriven], _regularization(tree.numeric, undriven)
            )
    with scope("constraint"):
        pushes = jacobian.T @ force
        tau = [label(t - p, "tau") for t, p in zip(full, pushes, strict=True)]
        return tau, label(in_base(tree, link_poses, force), "force")


def _least_squares_multipliers(across: Array, load: Sequence[Scalar], least: Sequence[float]) -> Array:
    """Return μ (n,) for which A μ has the smallest sum of squares among all solutions of Aᵀ A μ = load.

    With B = (Aᵀ A + ε)⁻¹ ε, μ is (1 - B)⁻² (1 - B) ε⁻¹ B load. A polynomial that approximates (1 - g)⁻² for eigenvalues
    g from 0 to WEAKEST replaces the first factor. If Aᵀ A is 0, then B is 1 and 1 - B removes the part that no force
    can produce, so numbers stay small.

    Args:
        across: A (rows, n).
        load: Right-hand side (n,).
        least: ε of each entry (n,).
    """
    series = Chebyshev.interpolate(lambda g: (1.0 - g) ** -2.0, SERIES_TERMS - 1, domain=[0.0, LARGEST_EIGENVALUE])
    parts = [float(x) for x in series.convert(kind=Polynomial).coef]
    matrix, soft = products(list(across.T), list(across.T)), array(list(least))
    for k, own in enumerate(least):
        matrix[k, k] = matrix[k, k] + own
    factor = BlockFactor(matrix, [1] * len(matrix))
    first = factor.solve(array(list(load)))
    term = first - factor.solve(first * soft)
    result = term * parts[0]
    for part in parts[1:]:
        term = factor.solve(term * soft)
        result = result + term * part
    return result


def _regularization(tree: Tree, undriven: Sequence[int]) -> list[float]:
    """Return ε for each undriven joint: a small fraction of its diagonal entry of Aᵀ A at random configurations."""
    robot, mimic, random = tree.source, tree.mimic, np.random.default_rng(0)
    largest = np.zeros(len(undriven))
    for _ in range(CONFIGURATIONS):
        q = normalized(robot, random.uniform(-1.0, 1.0, robot.nq)).tolist()
        jacobian = mimic.columns(jacobian_of(tree, poses_of(tree, mimic.configuration(q))))
        squares = np.sum(jacobian[:, undriven].astype(np.float64) ** 2, axis=0)
        largest = np.maximum(largest, squares)
    return [REGULARIZATION * float(size or largest.max() or 1.0) for size in largest]


def residual(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    force: Sequence[Scalar],
    external: Array | None = None,
) -> tuple[list[Scalar], list[Scalar]]:
    """Return the residuals of the equations of motion with all constraints active.

    Args:
        tree: The robot.
        q: Configuration (nq,), rad or m.
        qd: Velocities (nv,), rad/s or m/s.
        qdd: Accelerations (nv,), rad/s² or m/s².
        force: Constraint forces λ (rows,) in base axes, N m and N.
        external: Forces on the links (links, 6), as in `forward_dynamics`.

    Returns:
        M q̈ + h - Jᵀ λ (nv,), N m or N, and J q̈ + J̇ q̇ + d J q̇ + k e + c λ (rows,), m/s² and rad/s².
    """
    link_poses = poses_of(tree, q)
    local = array(list(force))
    link_forces: dict[int, SpatialForce] = {}
    for constraint in constraints_of(tree):
        for three in constraint.vector_slices():
            with scope(*constraint.scope):
                local[three] = link_poses.base[constraint.moving[0].link] @ local[three]
        if constraint.joints:
            continue
        moment, push_by = constraint.directions(link_poses).push(local[constraint.rows])
        for end in constraint.moving:
            i = end.link
            with scope("constraint", f"link{i}"):
                linear = (link_poses.rotation[i].T @ push_by) * end.sign
                push = SpatialForce(cross(end.point, linear) + (link_poses.rotation[i].T @ moment) * end.sign, linear)
                link_forces[i] = link_forces[i] + push if i in link_forces else push
    motion = inverse_dynamics_with_motion(tree, q, qd, qdd, external, link_forces)
    rows = acceleration_of(tree, link_poses, motion, qd)
    rows = stabilized(tree, link_poses, rows, lambda rows: jacobian_of(tree, link_poses)[rows] @ array(list(qd)))
    torques = motion.tau
    for constraint in constraints_of(tree):
        with scope(*constraint.scope):
            for row, soft in enumerate(constraint.constraint.compliances, constraint.rows.start):
                if soft:
                    rows[row] = rows[row] + local[row] * soft
            for d, part in (
                zip(constraint.joints.in_v, constraint.joints.rows(link_poses), strict=True)
                if constraint.joints
                else ()
            ):
                torques[d] = torques[d] - part * local[constraint.rows.start]
                rows[constraint.rows.start] = rows[constraint.rows.start] + part * qdd[d]
    return torques, list(rows)


def contact_jacobian(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Return J (rows, nv) of all constraints, active or not, in base axes.

    Rows of a point give the velocity of the frame's origin. Rows of a fixed frame give [angular; linear] velocity. Rows
    of a loop give the velocity relative to the other frame. `constraints.kinds` describes the rows of other kinds.
    """
    if any(own.kind not in ("point", "fixed") for own in tree.source.constraints):
        link_poses = poses_of(tree, q)
        return label(in_base(tree, link_poses, jacobian_of(tree, link_poses)), "contact_jacobian")
    result = zeros(tree.source.constraint_rows, tree.nv)
    for constraint in constraints_of(tree):
        for end, name in zip(constraint.ends, (constraint.constraint.frame, constraint.constraint.to), strict=False):
            if end.link >= 0:
                own = frames.jacobian(tree, q, name)[-constraint.constraint.rows :]
                result[constraint.rows] = result[constraint.rows] + own * end.sign
    return label(result, "contact_jacobian")


def check_any(tree: Tree) -> None:
    """Raise RobotError if the robot has no constraints."""
    if not tree.source.constraints:
        raise RobotError(
            f"robot '{tree.source.name}' has no contacts and no loops, which constrained functions are about; expected "
            "robot.with_contact('frame') for each (--contact FRAME on the command line), or robot.with_loop(...) "
            "(--loop FRAME,FRAME)",
            code="DG-FUNCTION-004",
        )


def check_independent(tree: Tree) -> None:
    """Raise RobotError if the robot has no constraints, or if a constraint force is not unique at any configuration.

    A force is not unique if a row without compliance repeats, at every configuration, other rows without compliance or
    the restrictions of the joints. Rows with compliance always have a unique force.
    """
    check_any(tree)
    robot, random = tree.source, np.random.default_rng(0)
    dependent = set(range(len(robot.constraints)))
    for _ in range(CONFIGURATIONS):
        q = normalized(robot, random.uniform(-1.0, 1.0, robot.nq))
        dependent &= _dependent(tree.numeric, q.tolist())
    if dependent:
        names = ", ".join(robot.constraints[k].text for k in sorted(dependent))
        raise RobotError(
            f"{names} of robot '{robot.name}' holds what constraints before it or the joints hold already, so that "
            "its force is not determined; expected fewer constraints, 'point' for 'fixed', or compliance= of more than "
            "0, such as 1e-6, which every form solves",
            code="DG-FUNCTION-005",
        )


def _dependent(tree: Tree, q: Sequence[float]) -> set[int]:
    """Return the constraints with a row without compliance that depends at q on earlier such rows."""
    return _without_pivots(tree.source, weighted_rows(tree, q, closed=True))


def _without_pivots(robot: Robot, columns: npt.NDArray[np.float64]) -> set[int]:
    """Return the constraints with a row without compliance that earlier such rows span.

    Rows with compliance are skipped: J M⁻¹ Jᵀ + C is regular if and only if the rows without compliance are
    independent.

    Args:
        robot: The robot.
        columns: Weighted rows (rows, nv) of all constraints.
    """
    basis: list[npt.NDArray[np.float64]] = []
    result: set[int] = set()
    sizes = np.linalg.norm(columns, axis=1)
    row = 0
    for k, own in enumerate(robot.constraints):
        largest = sizes[row : row + own.rows].max()
        for column, soft in zip(columns[row : row + own.rows], own.compliances, strict=True):
            if soft:
                continue
            left = column.copy()
            for _ in range(2):  # twice, because rounding leaves a remainder
                for direction in basis:
                    left -= (direction @ left) * direction
            size = float(np.linalg.norm(left))
            if size**2 > SINGULAR * largest**2:
                basis.append(left / size)
            else:
                result.add(k)
        row += own.rows
    return result
