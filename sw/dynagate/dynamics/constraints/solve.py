"""The forces of active constraints from the Delassus matrix J M⁻¹ Jᵀ, independent of how the matrix was computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dynagate.base.naming import scope
from dynagate.dynamics.configuration import normalized
from dynagate.dynamics.constraints.augmented_delassus import ball, mass_of
from dynagate.dynamics.constraints.delassus import Delassus
from dynagate.dynamics.constraints.rows import ConstraintInstance, constraints_of, jacobian_of, poses_of
from dynagate.dynamics.factor import BlockFactor, Factor, factorize
from dynagate.dynamics.recursions.crba import mass_matrix
from dynagate.dynamics.recursions.invertible import CONFIGURATIONS
from dynagate.dynamics.spatial import Array, Inertia, Scalar
from dynagate.dynamics.tree import Tree


class ConstraintSolver:
    """Solver for the forces of a robot's active constraints. `active` (constraints,) is 1 for an active constraint,
    else 0.
    """

    def __init__(self, tree: Tree) -> None:
        self._held, self._masses = list(constraints_of(tree)), _masses(tree)

    def masked(self, rows: Array, active: Sequence[Scalar]) -> Array:
        """Return constraint rows, numbers or vectors, with 0 for inactive constraints."""
        result = rows.copy()
        for k, instance in enumerate(self._held):
            with scope(*instance.scope):
                result[instance.rows] = result[instance.rows] * active[k]
        return result

    def balls(self, active: Sequence[Scalar]) -> dict[int, Inertia]:
        """Return the inertias that links carry at constrained frames (`augmented_delassus`), by link, in the tree's
        frames.
        """
        balls: dict[int, Inertia] = {}
        for k, instance in enumerate(self._held):
            with scope(*instance.scope):
                if any(self._masses[instance.rows]):
                    (end,) = instance.moving
                    moving, turning = self._masses[instance.rows.stop - 1], self._masses[instance.rows.start]
                    is_fixed = instance.constraint.kind == "fixed"
                    own = ball(end.point, moving, turning if is_fixed else 0.0, active[k])
                    balls[end.link] = balls[end.link] + own if end.link in balls else own
        return balls

    def pushes(
        self, active: Sequence[Scalar], matrix: Array, reached: Array, rows: Array, pivots: int
    ) -> tuple[Array, Array]:
        """Solve for the constraint forces.

        Rows with compliance may depend on each other, so a pivot block of three can be singular without the compliance.
        If any row has compliance, pivot blocks therefore have one row.

        Args:
            active: (constraints,), 1 for an active constraint, else 0.
            matrix: J M⁻¹ Jᵀ (rows, rows) of masked rows, with added masses.
            reached: J M⁻¹ (τ - h) (rows,).
            rows: J̇ q̇ with its stabilization (rows,), masked.
            pivots: Rows of a pivot block, 1 or 3.

        Returns:
            The forces (rows,) with added masses, and the constraint forces λ (rows,) without them.
        """
        if any(any(instance.constraint.compliances) for instance in self._held):
            pivots = 1
        sizes = [size for instance in self._held for size in instance.pivots(pivots)]
        with scope("delassus"):
            matrix, drift = matrix.copy(), rows.copy()
            for k, instance in enumerate(self._held):
                for row, (soft, more) in enumerate(self._softness(instance), instance.rows.start):
                    matrix[row, row] = matrix[row, row] + ((1.0 + soft * more) - active[k])
                    drift[row] = rows[row] * more
            rhs = [-(d + own) for d, own in zip(drift, reached, strict=True)]
            push = BlockFactor(matrix, sizes).solve(rhs)
        force = push.copy()
        with scope("constraint"):
            for instance in self._held:
                for row, (_, more) in enumerate(self._softness(instance), instance.rows.start):
                    force[row] = (push[row] + rows[row] * self._masses[row]) * more
        return push, force

    def _softness(self, instance: ConstraintInstance) -> list[tuple[float, float]]:
        """Return c and 1 / (1 - ρ c) of each row: λ = (μ + ρ γ) / (1 - ρ c)."""
        rates = zip(instance.constraint.compliances, self._masses[instance.rows], strict=True)
        return [(soft, 1.0 / (1.0 - mass * soft)) for soft, mass in rates]


def _masses(tree: Tree) -> list[float]:
    """Return the added mass for each row of contacts and of loops to the base."""
    result = [0.0] * tree.source.constraint_rows
    random = np.random.default_rng(0)
    drawn = [normalized(tree.source, random.uniform(-1.0, 1.0, tree.source.nq)).tolist() for _ in range(CONFIGURATIONS)]
    sizes = np.array([np.square(weighted_rows(tree.numeric, q)).sum(axis=1) for q in drawn])
    for instance in constraints_of(tree):
        alone = len(instance.moving) == 1 and instance.constraint.kind in ("point", "fixed")
        for n, three in enumerate(instance.vector_slices() if alone else []):
            soft = instance.constraint.compliances[3 * n : 3 * n + 3]
            result[three] = [mass_of(sizes[:, three], soft)] * 3
    return result


def weighted_rows(tree: Tree, q: Sequence[float], *, closed: bool = False) -> npt.NDArray[np.float64]:
    """Return J L⁻¹ D^-½ (rows, nv) in numbers, whose products are J M⁻¹ Jᵀ. `jacobian_of` documents `closed`."""
    mimic = tree.mimic
    position = mimic.configuration(q)
    m, jacobian = mass_matrix(tree, position), jacobian_of(tree, poses_of(tree, position), closed=closed)
    factor: Factor = factorize(mimic, mimic.symmetric(m))
    columns = np.array(Delassus(mimic, factor, mimic.columns(jacobian)).halves, dtype=np.float64)
    columns *= np.sqrt(np.array(factor.inverse_d, dtype=np.float64))
    return columns
