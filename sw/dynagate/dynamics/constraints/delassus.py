"""The Delassus operator J M⁻¹ Jᵀ = Yᵀ D⁻¹ Y of rows J, with M = Lᵀ D L and Y = L⁻ᵀ Jᵀ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dynagate.base.naming import label, scope
from dynagate.dynamics.factor import Elimination, Factor, inwards, outwards
from dynagate.dynamics.spatial import Array, Scalar, array, symmetric


class Delassus:
    """How a robot responds to forces along rows.

    Args:
        order: Order in which M was factorized.
        factor: Factor of M.
        jacobian: Rows J (rows, nv).
    """

    def __init__(self, order: Elimination, factor: Factor, jacobian: Iterable[Sequence[Scalar]]) -> None:
        self._order, self._factor = order, factor
        with scope("solve"):
            self.halves = [array(inwards(order, factor, row)) for row in jacobian]
        self._scaled = [half * array(factor.inverse_d) for half in self.halves]

    def matrix(self) -> Array:
        """Return J M⁻¹ Jᵀ (rows, rows), in which each pair of entries is computed once."""
        with scope("delassus"):
            return products(self._scaled, self.halves)

    def reached(self, half: Sequence[Scalar]) -> Array:
        """Return J M⁻¹ x (rows,) of a load x (nv,). half: L⁻ᵀ x."""
        with scope("delassus"):
            return array([row @ array(half) for row in self._scaled])

    def answers(self) -> Array:
        """Return J M⁻¹ (rows, nv): how velocities change by an impulse of 1 along each row."""
        with scope("solve"):
            return array([outwards(self._order, self._factor, list(half)) for half in self.halves])


def products(scaled: Sequence[Array], columns: Sequence[Array]) -> Array:
    """Return the symmetric matrix (n, n) of products of the first n vectors with the second."""
    return symmetric(lambda a, b: label(scaled[a] @ columns[b], f"s_{a}_{b}"), len(columns))
