"""The Delassus matrix J M⁻¹ Jᵀ of constraint rows J, computed as Yᵀ D⁻¹ Y with M = Lᵀ D L and Y = L⁻ᵀ Jᵀ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dynagate.base.naming import label, scope
from dynagate.dynamics.factor import Elimination, Factor, inwards, outwards
from dynagate.dynamics.spatial import Array, Scalar, array, symmetric


class Delassus:
    """Response of a robot to forces along constraint rows.

    Args:
        order: Order in which M was factorized.
        factor: Factors of M.
        jacobian: Rows J (rows, nv).
    """

    def __init__(self, order: Elimination, factor: Factor, jacobian: Iterable[Sequence[Scalar]]) -> None:
        self._order, self._factor = order, factor
        with scope("solve"):
            self.halves = [array(inwards(order, factor, row)) for row in jacobian]
        self._scaled = [half * array(factor.inverse_d) for half in self.halves]

    def matrix(self) -> Array:
        """Return J M⁻¹ Jᵀ (rows, rows), with each pair of mirrored entries computed once."""
        with scope("delassus"):
            return products(self._scaled, self.halves)

    def reached(self, half: Sequence[Scalar]) -> Array:
        """Return J M⁻¹ x (rows,) for a load x (nv,), from `half` = L⁻ᵀ x."""
        with scope("delassus"):
            return array([row @ array(half) for row in self._scaled])

    def answers(self) -> Array:
        """Return J M⁻¹ (rows, nv): the change of velocity for a unit impulse along each row."""
        with scope("solve"):
            return array([outwards(self._order, self._factor, list(half)) for half in self.halves])


def products(scaled: Sequence[Array], columns: Sequence[Array]) -> Array:
    """Return the symmetric matrix (n, n) of products of n scaled vectors with n columns."""
    return symmetric(lambda a, b: label(scaled[a] @ columns[b], f"s_{a}_{b}"), len(columns))
