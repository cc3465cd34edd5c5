"""M = Lᵀ D L with two pivots at a time: a division waits for every second pivot.

One after another, a pivot waits for the reciprocal, the product and the sum of the one before. Two neighbours k and
p of a chain, with the block [[a, b], [b, c]] of M, are eliminated together: both of their inverses and what they leave
of M come from 1/a and 1/(a c - b²), which start at once. The numerators are ready while the reciprocals are computed.

Each pair costs some twenty products and longer words. It pays where a division takes long, and not where tables give
the inverses (`fixedpoint.tabulated`).
"""

from __future__ import annotations

from dynagate.base.naming import label, scope
from dynagate.dynamics.mass_matrix import Factor
from dynagate.dynamics.spatial import Array, Scalar, zeros
from dynagate.dynamics.tree import Tree


def pairs(tree: Tree) -> dict[int, int]:
    """Degree of freedom -> the one before it in the chain, with which it is eliminated. The first of all is alone: its
    inverse is what the solution waits for, and that of a pair takes one product more."""
    paired: dict[int, int] = {}
    taken: set[int] = set()
    for p in range(1, tree.nv):
        children = [k for k in range(p + 1, tree.nv) if len(tree.chain[k]) > 1 and tree.chain[k][-2] == p]
        if p not in taken and len(children) == 1:
            paired[children[0]] = p
            taken |= {p, children[0]}
    return paired


def factorise_by_pairs(tree: Tree, m: Array) -> Factor:
    a = m.copy()
    lower = zeros(tree.nv, tree.nv)
    inverse_d: list[Scalar] = [0.0] * tree.nv
    partner = pairs(tree)
    for k in reversed(range(tree.nv)):
        if k in partner:
            _eliminate_pair(tree, a, lower, inverse_d, k, partner[k])
        elif k not in partner.values():
            _eliminate(tree, a, lower, inverse_d, k)
    return Factor(lower, inverse_d)


def _eliminate(tree: Tree, a: Array, lower: Array, inverse_d: list[Scalar], k: int) -> None:
    with scope("ltdl", *tree.where(k)):
        inverse_d[k] = label(1.0 / a[k, k], "d")
        above = tree.chain[k][:-1]
        for i in above:
            lower[k, i] = label(a[k, i] * inverse_d[k], f"l_{i}")
        for i in above:
            for j in tree.chain[i]:
                a[i, j] = a[i, j] - (a[k, i] * a[k, j]) * inverse_d[k]


def _eliminate_pair(tree: Tree, a: Array, lower: Array, inverse_d: list[Scalar], k: int, p: int) -> None:
    above = tree.chain[p][:-1]
    with scope("ltdl", *tree.where(k)):
        child, between, parent = a[k, k], a[k, p], a[p, p]
        inverse_d[k] = label(1.0 / child, "d")
        for i in (*above, p):
            lower[k, i] = label(a[k, i] * inverse_d[k], f"l_{i}")
    with scope("ltdl", *tree.where(p)):
        inverse = label(1.0 / (child * parent - between * between), "det")
        inverse_d[p] = label(child * inverse, "d")
        for i in above:
            lower[p, i] = label((child * a[p, i] - between * a[k, i]) * inverse, f"l_{i}")
        for i in above:
            # (adj B x) of the block's rows x, before their product with the inverse
            of_k = parent * a[k, i] - between * a[p, i]
            of_p = child * a[p, i] - between * a[k, i]
            for j in tree.chain[i]:
                a[i, j] = a[i, j] - (of_k * a[k, j] + of_p * a[p, j]) * inverse
