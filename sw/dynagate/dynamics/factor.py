"""Linear systems over any scalar, without pivoting: L D Lᵀ for symmetric matrices and elimination for square ones.

`factorize` computes M = Lᵀ D L from the last row to the first and keeps the sparsity of the kinematic tree
(Featherstone 2008, §6.5). `BlockFactor` eliminates one or three rows at a time. A block of three rows waits for one
reciprocal instead of three: its inverse is its adjugate divided by its determinant. In a nearly singular block, the
determinant loses more digits than single pivots do. `solve_square` needs no symmetry. Its pivots do not vanish if the
symmetric part of the matrix is positive definite (Golub & Van Loan, "Matrix Computations", 2013, §4.3.2), or if the
pivots of M come before those of J M⁻¹ Jᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol

from dynagate.base.naming import label, scope
from dynagate.dynamics.spatial import Array, Scalar, array, is_zero, symmetric, zeros


class Elimination(Protocol):
    """Order in which M is factorized, from the last degree of freedom to the first, with the sparsity of its factor."""

    nv: int
    """Number of degrees of freedom."""
    chain: list[list[int]]
    """Columns that row d of the factor L may have nonzero, in increasing order with d last."""

    def where(self, d: int) -> tuple[str, ...]: ...


class Factor(NamedTuple):
    """Factors of M = Lᵀ D L with a unit lower triangular L (Featherstone 2008, §6.5)."""

    lower: Array
    """L (nv, nv), nonzero only at (d, k) for k in the chain of d."""
    inverse_d: list[Scalar]
    """The reciprocals 1/D (nv,)."""


class Dense:
    """The `Elimination` of a full matrix (n, n)."""

    def __init__(self, n: int) -> None:
        self.nv = n
        self.chain = [list(range(d + 1)) for d in range(n)]

    def where(self, d: int) -> tuple[str, ...]:
        return (f"row{d}",)


def factorize(order: Elimination, m: Array) -> Factor:
    """Return the factors of a symmetric positive definite matrix M = Lᵀ D L over any scalar.

    Args:
        order: The order of elimination and the sparsity of L.
        m: The matrix (nv, nv).

    Reference:
        Featherstone, "Rigid Body Dynamics Algorithms", 2008, table 6.3.
    """
    a = m.copy()
    lower = zeros(order.nv, order.nv)
    inverse_d: list[Scalar] = [0.0] * order.nv
    for k in reversed(range(order.nv)):
        with scope("ltdl", *order.where(k)):
            inverse_d[k] = label(1.0 / a[k, k], "d")
            above = order.chain[k][:-1]
            for i in above:
                lower[k, i] = label(a[k, i] * inverse_d[k], f"l_{i}")
            for i in above:
                for j in order.chain[i]:
                    # the square is ready early, so the next pivot waits for only one product after the division
                    next_pivot = i == j == above[-1]
                    product = (a[k, i] * a[k, i]) * inverse_d[k] if next_pivot else lower[k, i] * a[k, j]
                    a[i, j] = a[i, j] - product
    return Factor(lower, inverse_d)


def solve(order: Elimination, factor: Factor, rhs: Sequence[Scalar]) -> list[Scalar]:
    """Return x (nv,) with M x = rhs, by two sparse substitutions with the factors of M."""
    with scope("solve"):
        return outwards(order, factor, inwards(order, factor, rhs))


def inwards(order: Elimination, factor: Factor, rhs: Sequence[Scalar]) -> list[Scalar]:
    """Return L⁻ᵀ rhs (nv,), the first half of `solve`, from the leaves to the base."""
    x = list(rhs)
    for k in reversed(range(order.nv)):
        for i in order.chain[k][:-1]:
            x[i] = x[i] - factor.lower[k, i] * x[k]
    return x


def outwards(order: Elimination, factor: Factor, half: Sequence[Scalar]) -> list[Scalar]:
    """Return L⁻¹ D⁻¹ half (nv,), the second half of `solve`, from the base to the leaves."""
    x = list(half)
    for k in range(order.nv):
        x[k] = x[k] * factor.inverse_d[k]
        for i in order.chain[k][:-1]:
            x[k] = x[k] - factor.lower[k, i] * x[i]
    return x


def inverse_from_factor(order: Elimination, factor: Factor) -> Array:
    """Return M⁻¹ = L⁻¹ D⁻¹ L⁻ᵀ (nv, nv).

    L⁻¹ has the sparsity of L, so M⁻¹ is zero between branches that share no link.
    """
    inverse_lower = zeros(order.nv, order.nv)
    minv = zeros(order.nv, order.nv)
    for k in range(order.nv):
        with scope("minv", *order.where(k)):
            inverse_lower[k, k] = 1.0
            above = order.chain[k][:-1]
            for i in reversed(above):
                # solve X L = 1 instead of L X = 1: rows follow the pivots, so only one step waits for the last pivot
                terms = [inverse_lower[k, j] * factor.lower[j, i] for j in above if i in order.chain[j][:-1]]
                inverse_lower[k, i] = label(-sum(terms, factor.lower[k, i]), f"x_{i}")
    for a in range(order.nv):
        for b in range(a, order.nv):
            with scope("minv", *order.where(a)):
                shared = [k for k in order.chain[a] if k in order.chain[b]]
                terms = [(inverse_lower[a, k] * factor.inverse_d[k]) * inverse_lower[b, k] for k in shared]
                minv[a, b] = minv[b, a] = label(sum(terms[1:], terms[0]), f"m_{b}") if terms else 0.0
    return minv


class BlockFactor:
    """Block L D Lᵀ factors of a symmetric matrix S, used to solve S x = b.

    Args:
        matrix: S (n, n).
        sizes: Sizes of the pivot blocks, 1 or 3 each, with sum n.
    """

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
        """Return x (n,) with S x = b for a right-hand side b (n,)."""
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
    """Return A - L Cᵀ for a symmetric result, computing each pair of mirrored entries once."""
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


def solve_square(matrix: Array, rhs: Array, order: Sequence[int]) -> Array:
    """Return x (n,) with A x = b by Gaussian elimination without pivoting.

    Args:
        matrix: A (n, n). Entries that are the number 0 are skipped.
        rhs: b (n,).
        order: The rows of A in the order of elimination. From a tree's leaves to its root, the zeros of M stay zero.
    """
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
