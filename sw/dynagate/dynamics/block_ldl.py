"""S x = b for a symmetric, positive definite S over any scalar, by L D Lᵀ with pivots of one or three at a time.

Three pivots at once wait for one reciprocal and not for three: the inverse of a block of 3 × 3 is its adjugate by its
determinant. The products of a determinant lose digits in a block that is nearly singular, where single pivots do not.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.base.naming import label, scope
from dynagate.dynamics.spatial import Array, Scalar, array, symmetric, zeros


def solve_symmetric(matrix: Array, rhs: Sequence[Scalar], size: int) -> Array:
    """x (n,) with S x = b, S (n, n). size: of the pivots, 1 or 3, which divides n."""
    count = len(rhs) // size
    places = [slice(size * k, size * (k + 1)) for k in range(count)]
    left = matrix.copy()
    lower: dict[tuple[int, int], Array] = {}
    inverse: list[Array] = []
    x = array(list(rhs))
    for k, pivot in enumerate(places):
        with scope(f"pivot{k}"):
            inverse.append(_inverse(left[pivot, pivot]))
            for i in range(k + 1, count):
                lower[i, k] = label(left[places[i], pivot] @ inverse[k], f"l_{i}")
            for i in range(k + 1, count):
                for j in range(k + 1, i):
                    left[places[i], places[j]] = left[places[i], places[j]] - lower[i, k] @ left[places[j], pivot].T
                left[places[i], places[i]] = _less(left[places[i], places[i]], lower[i, k], left[places[i], pivot])
                x[places[i]] = x[places[i]] - lower[i, k] @ x[pivot]
    for k in reversed(range(count)):
        with scope(f"pivot{k}"):
            x[places[k]] = inverse[k] @ x[places[k]]
            for i in range(k + 1, count):
                x[places[k]] = x[places[k]] - lower[i, k].T @ x[places[i]]
    return x


def _less(block: Array, factor: Array, column: Array) -> Array:
    """A - L Cᵀ where both are symmetric, each pair of entries once."""
    result = zeros(*block.shape)
    for a in range(len(block)):
        for b in range(a, len(block)):
            result[a, b] = result[b, a] = block[a, b] - factor[a] @ column[b]
    return result


def _inverse(block: Array) -> Array:
    """Of a symmetric block (1, 1) or (3, 3)."""
    if len(block) == 1:
        return array([[label(1.0 / block[0, 0], "d")]])

    def cofactor(a: int, b: int) -> Scalar:
        (i, k), (j, m) = ((a + 1) % 3, (a + 2) % 3), ((b + 1) % 3, (b + 2) % 3)
        return block[i, j] * block[k, m] - block[i, m] * block[k, j]

    cofactors = symmetric(cofactor)
    inverse = label(1.0 / (block[0] @ cofactors[0]), "d")
    return label(cofactors * inverse, "inverse")
