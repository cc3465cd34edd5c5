"""Cones of an interior-point method: half-lines and second-order cones, with Nesterov-Todd scaling.

A slack s and its dual z are inside the same cone. The scaling W is the symmetric matrix with W z = W⁻¹ s. Entries of a
second-order cone are (height, side, side).

References:
    Nesterov & Todd, "Self-scaled barriers and interior-point methods for convex programming", 1997.
    Vandenberghe, "The CVXOPT linear and quadratic cone program solvers", 2010, for the formulas.
"""

from __future__ import annotations

import math
from typing import Protocol

from dynagate.dynamics.spatial import Array, Scalar, array, select, sqrt, zeros

SMALLEST = 1e-100
"""Smallest number under a square root, and smallest divisor."""
NEAREST = 1e-15
"""Smallest distance of a vector from the boundary of a cone, as a part of its height: rounding cannot cross it."""

LEAST_SIDE = 1e-40
"""Smallest squared length of the sides of a vector, as a part of its squared height, that has a direction."""


class Cone(Protocol):
    """A cone with the slack and the dual of an iterate."""

    count: int
    """Number of entries."""

    @property
    def identity(self) -> Array:
        """Return the identity element (count,) of the cone."""

    def inverse_scaling(self) -> Array:
        """Return W⁻² (count, count)."""

    def scaled_back(self, step: Array) -> Array:
        """Return W⁻² ds (count,), for a step ds (count,) of the slack."""

    def stiffness(self) -> Array:
        """Return -dz/ds (count, count) of an iterate at the end, where slacks and duals remain complementary, in the
        axes of `axes`.
        """

    def axes(self) -> Array:
        """Return the orthonormal axes of the stiffness, the columns of a matrix (count, count)."""

    def centering(self, target: Scalar, slack: Array, dual: Array) -> Array:
        """Return t (count,), so that the corrected dual step is dz = t - W⁻² ds.

        Args:
            target: Complementarity to reach.
            slack: Step of the slack (count,) in the affine direction.
            dual: Step of the dual (count,) in the affine direction.
        """

    def inverse_lengths(self, slack: Array, dual: Array) -> list[Scalar]:
        """Return the reciprocals of the largest steps that stay in the cone, along ds and dz (count,). Numbers of 0 or
        less stand for no limit.
        """


class HalfLine:
    """Numbers of 0 or more."""

    count = 1
    identity = array([1.0])

    def __init__(self, slack: Array, dual: Array, stiffest: float) -> None:
        self.slack, self.dual, self.stiffest = slack[0], dual[0], stiffest
        self.inverse_slack = 1.0 / slack[0]

    def inverse_scaling(self) -> Array:
        """Return z / s as a matrix (1, 1), `stiffest` at most."""
        ratio = self.dual * self.inverse_slack
        return array([[select(ratio - self.stiffest, self.stiffest, ratio)]])

    def scaled_back(self, step: Array) -> Array:
        """Return W⁻² ds (1,)."""
        return step * self.inverse_scaling()[0, 0]

    def stiffness(self) -> Array:
        """Return z / s as a matrix (1, 1), as of `inverse_scaling`."""
        return self.inverse_scaling()

    def axes(self) -> Array:
        return array([[1.0]])

    def centering(self, target: Scalar, slack: Array, dual: Array) -> Array:
        """Return the corrected dual at ds = 0, minus the dual."""
        return array([(target - slack[0] * dual[0]) * self.inverse_slack - self.dual])

    def inverse_lengths(self, slack: Array, dual: Array) -> list[Scalar]:
        """Return -ds / s and -dz / z."""
        return [-(slack[0] * self.inverse_slack), -(dual[0] * (1.0 / self.dual))]


class SecondOrder:
    """Vectors (height, side, side) whose sides are together at most as long as the height."""

    count = 3
    identity = array([1.0, 0.0, 0.0])

    def __init__(self, slack: Array, dual: Array) -> None:
        self._pair = slack, dual
        (self.slack, slack_size), (self.dual, dual_size) = _unit(slack), _unit(dual)
        self.inverse_slack, self.inverse_dual = 1.0 / slack_size, 1.0 / dual_size
        inverse = 1.0 / sqrt((1.0 + self.slack @ self.dual) * 2.0)
        self.axis = (self.slack + _mirrored(self.dual)) * inverse
        """Direction of the scaling: W = β (2 w½ w½ᵀ - J) maps the unit dual to the unit slack for w = axis."""
        self.size = sqrt(slack_size * self.inverse_dual)
        self.inverse_size = 1.0 / self.size
        self.point = self._scaled(dual, 1.0) * self.size

    def inverse_scaling(self) -> Array:
        """Return (2 (J w)(J w)ᵀ - J) / β²."""
        w, factor = _mirrored(self.axis), self.inverse_size * self.inverse_size
        signs = (1.0, -1.0, -1.0)
        return array(
            [[(w[i] * w[k] * 2.0 - (signs[i] if i == k else 0.0)) * factor for k in range(3)] for i in range(3)]
        )

    def scaled_back(self, step: Array) -> Array:
        """Return W⁻² ds (3,), by two products with W⁻¹, which lose fewer digits than one with W⁻²."""
        return self._scaled(self._scaled(step, -1.0), -1.0) * (self.inverse_size * self.inverse_size)

    def stiffness(self) -> Array:
        """Return the slope of z = μ s⁻¹ by the eigenvalues of s and z, a diagonal matrix (3, 3).

        The duals of an iterate are not exactly those of the central path, so W⁻² has not the curvature of the cone.
        """
        slack, dual = self._pair
        side, pull = (sqrt(_at_least(x[1:] @ x[1:])) for x in (slack, dual))
        result = zeros(3, 3)
        result[0, 0] = (dual[0] + pull) * (1.0 / _at_least(slack[0] - side, slack[0] * NEAREST))
        result[1, 1] = _at_least(dual[0] - pull, 0.0) * (1.0 / (slack[0] + side))
        result[2, 2] = dual[0] * (1.0 / slack[0])
        return result

    def axes(self) -> Array:
        """Return the axes across the boundary at s, along s, and along the boundary."""
        height, first, second = self._pair[0]
        square = first * first + second * second
        clear = square - height * height * LEAST_SIDE
        inverse = 1.0 / sqrt(select(clear, square, 1.0))
        a, b = select(clear, first * inverse, 1.0), select(clear, second * inverse, 0.0)
        half = math.sqrt(0.5)
        return array([[half, half, 0.0], [-(a * half), a * half, -b], [-(b * half), b * half, a]])

    def centering(self, target: Scalar, slack: Array, dual: Array) -> Array:
        """Return W⁻¹ (λ ⧵ (target e - (W⁻¹ ds) ∘ (W dz)) - λ), in which λ = W z."""
        product = _product(self._scaled(slack, -1.0) * self.inverse_size, self._scaled(dual, 1.0) * self.size)
        right = array([target - product[0], -product[1], -product[2]])
        return self._scaled(_divided(self.point, right) - self.point, -1.0) * self.inverse_size

    def inverse_lengths(self, slack: Array, dual: Array) -> list[Scalar]:
        """Return the reciprocals of the steps to the boundary along ds and along dz."""
        steps = ((self.slack, slack * self.inverse_slack), (self.dual, dual * self.inverse_dual))
        return [_inverse_length(point, step) for point, step in steps]

    def _scaled(self, vector: Array, sign: float) -> Array:
        """Return W v / β, or W⁻¹ v β for the sign -1."""
        w, sides = self.axis, self.axis[1:] * sign
        along = sides @ vector[1:]
        factor = along * (1.0 / (w[0] + 1.0)) + vector[0]
        return array([w[0] * vector[0] + along, *(vector[1:] + sides * factor)])


def _mirrored(vector: Array) -> Array:
    """Return J v, in which J = diag(1, -1, -1)."""
    return array([vector[0], -vector[1], -vector[2]])


def _at_least(x: Scalar, low: Scalar = SMALLEST) -> Scalar:
    return select(x - low, x, low)


def _unit(vector: Array) -> tuple[Array, Scalar]:
    """Return v / √(vᵀ J v) and √(vᵀ J v)."""
    side = sqrt(_at_least(vector[1] * vector[1] + vector[2] * vector[2]))
    size = sqrt(_at_least(vector[0] - side, vector[0] * NEAREST) * (vector[0] + side))
    return vector * (1.0 / size), size


def _product(a: Array, b: Array) -> Array:
    """Return the Jordan product a ∘ b."""
    return array([a @ b, *(b[1:] * a[0] + a[1:] * b[0])])


def _divided(a: Array, b: Array) -> Array:
    """Return x with a ∘ x = b, for a inside the cone."""
    side = sqrt(_at_least(a[1] * a[1] + a[2] * a[2]))
    inverse = 1.0 / (_at_least(a[0] - side, a[0] * NEAREST) * (a[0] + side))
    height = (a[0] * b[0] - a[1:] @ b[1:]) * inverse
    return array([height, *((b[1:] - a[1:] * height) * (1.0 / a[0]))])


def _inverse_length(point: Array, step: Array) -> Scalar:
    """Return the reciprocal of the largest step from a point of vᵀ J v = 1, 0 or less for no limit."""
    along = point[0] * step[0] - point[1:] @ step[1:]
    sides = step[1:] - point[1:] * ((along + step[0]) * (1.0 / (point[0] + 1.0)))
    return sqrt(_at_least(sides @ sides)) - along
