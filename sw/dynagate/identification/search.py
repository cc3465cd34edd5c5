"""The search of `identify`: Newton's method on a convex cost, with numbers of joints at 0 or more.

The cost is the squared errors of torques in units of their noise, plus the distance from the robot's own parameters. It
is convex, so that there is one minimum, and infinite where a link would have an inertia that no body has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynagate.base.arrays import Array
from dynagate.identification.columns import Columns
from dynagate.identification.measured import Equations, triangle_of
from dynagate.identification.physical import OWN, divergence, parameters_by_numbers
from dynagate.robot.variable import COUNT, DYNAMIC

ITERATIONS = 100
"""Largest number of Newton iterations."""

SETTLED = 1e-9
"""Expected decrease of the cost below which a search ends; a parameter off by one standard error costs 1."""

LEAST_STEP, ENOUGH = 1e-12, 1e-4
"""Smallest part of a Newton step that is tried, and the part of the expected decrease that a step must reach."""


class _Cost(NamedTuple):
    """A cost, its half gradient (count,), and a root of its half Hessian, rows by count."""

    value: float
    gradient: Array
    root: Array


class Search:
    """A search for parameters. A point has ten numbers for each link (`physical`), and one for each of a joint.

    Numbers of joints at 0 that the cost pushes below do not move (Bertsekas, "Projected Newton methods for optimization
    problems with simple constraints", 1982).
    """

    def __init__(self, columns: Columns, equations: Equations, prior: float) -> None:
        self.columns, self.equations, self._prior = columns, equations, prior
        own, count = columns.values, len(columns.places)
        kinds = np.array(columns.places) % DYNAMIC
        self._links = [slice(k, k + COUNT) for k in np.flatnonzero(kinds == 0)]
        self._singles = np.flatnonzero(kinds >= COUNT)
        self.scale = np.zeros((count, count))
        self.start = np.zeros(count)
        for part in self._links:
            self.scale[part, part] = parameters_by_numbers(own[part])
            self.start[part] = OWN
        sizes = self._sizes()
        self.scale[self._singles, self._singles] = sizes
        self.start[self._singles] = own[self._singles] / sizes

    def _sizes(self) -> Array:
        """Return for each parameter of a joint the value with which it explains all torques of the joint."""
        matrix, right = self.equations.weighted(np.ones(len(self.equations.triangles)))
        sizes, whole = np.linalg.norm(matrix[:, self._singles], axis=0), float(np.linalg.norm(right))
        known = sizes > 1e-9 * whole
        return np.where(known, whole / np.where(known, sizes, 1.0), 1.0) if whole else np.ones(len(sizes))

    def values(self, point: Array) -> Array:
        """Return the parameters (count,) at a point."""
        return self.scale @ point

    def _at(self, point: Array, matrix: Array, right: Array) -> _Cost | None:
        """Return the cost at a point, None if a link has no such body."""
        errors = matrix @ point - right
        trust = 1.0 / self._prior**2
        away = (point - self.start)[self._singles]
        value = float(errors @ errors + trust * (away @ away))
        gradient = matrix.T @ errors
        gradient[self._singles] += trust * away
        rows = [matrix, np.eye(len(point))[self._singles] / self._prior]
        for part in self._links:
            own = divergence(point[part])
            if own is None:
                return None
            value += 2.0 * trust * own.value
            gradient[part] += trust * own.gradient
            root = np.zeros((len(own.root), len(point)))
            root[:, part] = own.root / self._prior
            rows.append(root)
        return _Cost(value, gradient, np.vstack(rows))

    def minimum(self, point: Array, weights: Array) -> tuple[Array, bool, int]:
        """Return the best point from a start, whether the search settled, and its iterations."""
        matrix, right = self.equations.weighted(weights)
        matrix = matrix @ self.scale
        cost = self._at(point, matrix, right)
        assert cost is not None  # the start is a body
        for iteration in range(ITERATIONS):
            free = np.ones(len(point), dtype=bool)
            free[self._singles] = (point[self._singles] > 0.0) | (cost.gradient[self._singles] < 0.0)
            move = np.zeros(len(point))
            move[free] = _newton(cost.root[:, free], cost.gradient[free])
            decrease = -float(cost.gradient @ move)
            if decrease <= SETTLED:
                return point, True, iteration
            after = self._along(point, move, decrease, cost, (matrix, right))
            if after is None:  # rounding hides any decrease
                return point, True, iteration
            point, cost = after
        return point, False, ITERATIONS

    def _along(
        self, point: Array, move: Array, decrease: float, cost: _Cost, model: tuple[Array, Array]
    ) -> tuple[Array, _Cost] | None:
        """Return a better point on the way of a move with its cost, or None if no step is better."""
        part = 1.0
        while part > LEAST_STEP:
            trial = point + part * move
            trial[self._singles] = np.maximum(trial[self._singles], 0.0)
            after = self._at(trial, *model)
            if after is not None and after.value < cost.value - ENOUGH * part * decrease:
                return trial, after
            part *= 0.5
        return None

    def standard_errors(self, point: Array, weights: Array) -> Array:
        """Return the standard errors (count,) of the parameters at a point."""
        matrix, right = self.equations.weighted(weights)
        cost = self._at(point, matrix @ self.scale, right)
        assert cost is not None  # the search ended there
        triangle = triangle_of(cost.root)
        return np.linalg.norm(np.linalg.solve(triangle.T, self.scale.T), axis=0)


def _newton(root: Array, gradient: Array) -> Array:
    """Return minus the inverse of rootᵀ root times the gradient."""
    triangle = triangle_of(root)
    move: Array = np.linalg.solve(triangle, np.linalg.solve(triangle.T, gradient))
    return -move
