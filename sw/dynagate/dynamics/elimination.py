"""A x = b for a square A over any scalar, by elimination without exchange of rows.

No pivot vanishes where the symmetric part of A is positive definite, as of the equations of a step that is near M
(Golub & Van Loan, "Matrix Computations", 2013, §4.3.2), or where pivots of M stand before those of J M⁻¹ Jᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.base.naming import scope
from dynagate.dynamics.spatial import Array, Scalar, array, is_zero


def solve_square(matrix: Array, rhs: Array, order: Sequence[int]) -> Array:
    """x (n,) with A x = b, of A (n, n) and b (n,). order: the places of the pivots, which make all of A; entries that
    are the number 0 are left out. From the leaves of a tree to its root the zeros of M stay."""
    left, x = matrix.copy(), array(list(rhs))
    inverse: dict[int, Scalar] = {}
    for step, k in enumerate(order):
        with scope("eliminate", f"row{k}"):
            inverse[k] = 1.0 / left[k, k]
            after = [j for j in order[step + 1 :] if not is_zero(left[k, j])]
            for i in order[step + 1 :]:
                if not is_zero(left[i, k]):
                    factor = left[i, k] * inverse[k]
                    x[i] = x[i] - factor * x[k]
                    for j in after:
                        left[i, j] = left[i, j] - factor * left[k, j]
    for step, k in reversed(list(enumerate(order))):
        with scope("eliminate", f"row{k}"):
            for j in order[step + 1 :]:
                x[k] = x[k] - left[k, j] * x[j]
            x[k] = x[k] * inverse[k]
    return x
