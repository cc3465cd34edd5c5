"""Solution of symmetric positive definite block-tridiagonal systems by odd-even elimination.

Blocks are factored as L D Lᵀ, without square roots and with one reciprocal per pivot. Eliminating block j removes it
from the equations of its neighbors i and k, which needs only forward substitutions:

    [A_ij] -= (L⁻¹ A_ji)ᵀ D⁻¹ (L⁻¹ A_jk).

The diagonal blocks stay symmetric, and one factorization serves the three products of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynagate.base.naming import label, scope
from dynagate.dynamics.spatial import Array, Scalar, array, zeros


class Factored(NamedTuple):
    """A factored block L D Lᵀ (m, m), with forward-substituted right-hand sides."""

    lower: Array
    """Unit lower triangular L (m, m)."""
    inverse_d: list[Scalar]
    """Reciprocals 1/D (m,)."""
    halved: Array
    """L⁻¹ R (m, k) for right-hand sides R."""

    def solution(self, column: Array) -> Array:
        """Return L⁻ᵀ D⁻¹ x for a forward-substituted column x (m,): the solution of its right-hand side."""
        x = [value * pivot for value, pivot in zip(column, self.inverse_d, strict=True)]
        for k in reversed(range(len(x))):
            for i in range(k + 1, len(x)):
                x[k] = x[k] - self.lower[i, k] * x[i]
        return array(x)


def factor(block: Array, right: Array) -> Factored:
    """Factor a block, and substitute right-hand sides (m, k) forward during the factorization.

    Substitution waits for no pivot longer than the factorization itself.
    """
    a, b, size = block.copy(), right.copy(), len(block)
    lower = zeros(size, size)
    inverse_d: list[Scalar] = []
    for k in range(size):
        inverse_d.append(label(1.0 / a[k, k], "d"))
        for i in range(k + 1, size):
            lower[i, k] = a[i, k] * inverse_d[k]
            for j in range(k + 1, i + 1):
                # the square is ready early, so the next pivot waits for only one product after the division
                next_pivot = i == j == k + 1
                product = (a[i, k] * a[i, k]) * inverse_d[k] if next_pivot else lower[i, k] * a[j, k]
                a[i, j] = a[i, j] - product
            b[i] = b[i] - b[k] * lower[i, k]
    return Factored(lower, inverse_d, b)


def gram(left: Array, inverse_d: Sequence[Scalar]) -> Array:
    """Return leftᵀ D⁻¹ left (m, m), with each pair of mirrored entries computed once."""
    weighted = array(inverse_d)[:, None] * left
    count = left.shape[1]
    product = zeros(count, count)
    for i in range(count):
        for j in range(i + 1):
            product[i, j] = product[j, i] = weighted[:, i] @ left[:, j]
    return product


def odd_even_elimination(
    diagonal: Sequence[Array], upper: Sequence[Array], right: Sequence[Array], part: str = "oee"
) -> list[Array]:
    """Solve D_i x_i + U_i x_{i+1} + U_{i-1}ᵀ x_{i-1} = R_i in ceil(log2(n)) steps, for any number n of blocks.

    Each step eliminates every block from its neighbors at once, so the remaining equations couple blocks twice as far
    apart.

    Args:
        diagonal: Blocks D_i (m_i, m_i).
        upper: Blocks U_i (m_i, m_{i+1}), one less than diagonal blocks.
        right: Right-hand sides R_i (m_i,).
        part: Name of the algorithm, for recorded operations.

    Returns:
        The solution blocks x_i (m_i,).

    Reference:
        Yang, Wu & Pan 2016, eq. 19 and algorithm 2, with the sign of U corrected.
    """
    d, u, r = list(diagonal), list(upper), list(right)
    count, distance, step = len(d), 1, 0
    while distance < count:
        with scope(part, f"step{step}"):
            d, u, r = _eliminated(d, u, r, distance)
        distance, step = 2 * distance, step + 1
    solutions = []
    for i in range(count):
        with scope(part, f"link{i}"):
            last = factor(d[i], r[i][:, None])
            solutions.append(label(last.solution(last.halved[:, 0]), "x"))
    return solutions


def _eliminated(
    d: list[Array], u: list[Array], r: list[Array], distance: int
) -> tuple[list[Array], list[Array], list[Array]]:
    """Eliminate once: u[i] couples blocks i and i + apart before the step, and i and i + 2 apart after it."""
    new_d, new_r = list(d), list(r)
    new_u: list[Array] = []
    for j in range(len(d)):
        with scope(f"link{j}"):
            before, after = j - distance, j + distance
            sides = [r[j][:, None]]
            if before >= 0:
                sides.append(u[before].T)
            if after < len(d):
                sides.append(u[j])
            eliminated = factor(d[j], _joined_columns(sides))
            halved, inverse_d = eliminated.halved, array(eliminated.inverse_d)
            residual, couplings, at = halved[:, 0], {}, 1
            for i in (before, after):
                if 0 <= i < len(d):
                    couplings[i], at = halved[:, at : at + len(d[i])], at + len(d[i])
            weighted = inverse_d * residual
            for i, coupling in couplings.items():
                new_d[i] = label(new_d[i] - gram(coupling, eliminated.inverse_d), "d")
                new_r[i] = label(new_r[i] - coupling.T @ weighted, "r")
            if len(couplings) == 2:
                new_u.append(label(-(couplings[before].T @ (inverse_d[:, None] * couplings[after])), "u"))
    return new_d, new_u, new_r


def _joined_columns(columns: Sequence[Array]) -> Array:
    """Return matrices joined by columns."""
    return array([[value for part in columns for value in part[i]] for i in range(len(columns[0]))])
