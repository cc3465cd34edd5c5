"""S x = b for a symmetric, positive definite S over any scalar, by L D Lᵀ with pivots of one or three at a time.

Three pivots at once wait for one reciprocal and not for three: the inverse of a block of 3 × 3 is its adjugate by its
determinant. The products of a determinant lose digits in a block that is nearly singular, where single pivots do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from dynagate.base.naming import label, scope
from dynagate.dynamics.spatial import Array, Scalar, array, symmetric


class BlockFactor:
    """S (n, n) = L D Lᵀ, with which S x = b is solved. sizes: of the pivots, 1 or 3 each, which make n."""

    def __init__(self, matrix: Array, sizes: Sequence[int]) -> None:
        ends = [0, *accumulate(sizes)]
        self._places = places = [slice(start, stop) for start, stop in pairwise(ends)]
        count = len(places)
        left = matrix.copy()
        self._lower: dict[tuple[int, int], Array] = {}
        self._inverse: list[Array] = []
        for k, pivot in enumerate(places):
            with scope(f"pivot{k}"):
                self._inverse.append(_inverse(left[pivot, pivot]))
                for i in range(k + 1, count):
                    self._lower[i, k] = label(left[places[i], pivot] @ self._inverse[k], f"l_{i}")
                for i in range(k + 1, count):
                    row, factor = places[i], self._lower[i, k]
                    for column in places[k + 1 : i]:
                        left[row, column] = left[row, column] - factor @ left[column, pivot].T
                    left[row, row] = _less(left[row, row], factor, left[row, pivot])

    def solve(self, rhs: Any) -> Array:
        """x (n,) of b (n,)."""
        places = self._places
        x = array(list(rhs))
        for k, pivot in enumerate(places):
            with scope(f"pivot{k}"):
                for i in range(k + 1, len(places)):
                    x[places[i]] = x[places[i]] - self._lower[i, k] @ x[pivot]
        for k in reversed(range(len(places))):
            with scope(f"pivot{k}"):
                x[places[k]] = self._inverse[k] @ x[places[k]]
                for i in range(k + 1, len(places)):
                    x[places[k]] = x[places[k]] - self._lower[i, k].T @ x[places[i]]
        return x


def _less(block: Array, factor: Array, column: Array) -> Array:
    """A - L Cᵀ where both are symmetric, each pair of entries once."""
    return symmetric(lambda a, b: block[a, b] - factor[a] @ column[b], len(block))


def _inverse(block: Array) -> Array:
    """Return the inverse of a symmetric block (1, 1) or (3, 3)."""
    if len(block) == 1:
        return array([[label(1.0 / block[0, 0], "d")]])

    def cofactor(a: int, b: int) -> Scalar:
        (i, k), (j, m) = ((a + 1) % 3, (a + 2) % 3), ((b + 1) % 3, (b + 2) % 3)
        return block[i, j] * block[k, m] - block[i, m] * block[k, j]

    cofactors = symmetric(cofactor)
    inverse = label(1.0 / (block[0] @ cofactors[0]), "d")
    return label(cofactors * inverse, "inverse")
