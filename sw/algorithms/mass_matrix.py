"""The joint-space inertia matrix, its sparse factor and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynagate.algorithms.tree import Tree
from dynagate.naming import label, scope
from dynagate.spatial import (
    Array,
    Inertia,
    JointTransform,
    Scalar,
    symmetric,
    zeros,
)


def mass_matrix(tree: Tree, q: Sequence[Scalar]) -> Array:
    """M (n, n) in kg m²: composite rigid bodies in body frames (Featherstone 2008, §6.2)."""
    joints = tree.transforms(q)
    composite = list(tree.inertias)
    m = zeros(tree.n, tree.n)
    for i in reversed(tree.links):
        with scope("crba", f"link{i}"):
            force = composite[i] @ tree.axis(i)
            m[i, i] = label(tree.along_axis(i, force) + tree.armature[i], "m")
            j = i
            while tree.parents[j] >= 0:
                force = joints[j].force_to_parent(force)
                j = tree.parents[j]
                m[i, j] = m[j, i] = label(tree.along_axis(j, force), f"m_{j}")
            p = tree.parents[i]
            if p >= 0:
                composite[p] = composite[p] + _inertia_in_parent(composite[i], joints[i])
    return m


def _inertia_in_parent(inertia: Inertia, joint: JointTransform) -> Inertia:
    """The second moment moves as Σ + t hᵀ + h tᵀ + m t tᵀ = Σ + t uᵀ + u tᵀ with u = h + m t / 2."""
    mass, t = inertia.mass, joint.translation
    first = joint.to_parent(inertia.first)
    turned = joint.symmetric_to_parent(inertia.second)
    u = first + t * (0.5 * mass)
    second = symmetric(lambda a, b: turned[a, b] + (t[a] * u[b] + u[a] * t[b]))
    return Inertia(mass, first + t * mass, second)


class Factor(NamedTuple):
    """M = Lᵀ D L with unit lower L, nonzero only at (link, ancestor) (Featherstone 2008, §6.5). inverse_d: 1 / D."""

    lower: Array
    inverse_d: list[Scalar]


def factorise(tree: Tree, m: Array) -> Factor:
    a = m.copy()
    lower = zeros(tree.n, tree.n)
    inverse_d: list[Scalar] = [0.0] * tree.n
    for k in reversed(tree.links):
        with scope("ltdl", f"link{k}"):
            inverse_d[k] = label(1.0 / a[k, k], "d")
            above = tree.ancestors[k][:-1]
            for i in above:
                lower[k, i] = label(a[k, i] * inverse_d[k], f"l_{i}")
            for i in above:
                for j in tree.ancestors[i]:
                    a[i, j] = a[i, j] - lower[k, i] * a[k, j]
    return Factor(lower, inverse_d)


def solve(tree: Tree, factor: Factor, rhs: Sequence[Scalar]) -> list[Scalar]:
    """x (n,) with M x = rhs, by two sparse substitutions."""
    x = list(rhs)
    with scope("solve"):
        for k in reversed(tree.links):
            for i in tree.ancestors[k][:-1]:
                x[i] = x[i] - factor.lower[k, i] * x[k]
        for k in tree.links:
            x[k] = x[k] * factor.inverse_d[k]
            for i in tree.ancestors[k][:-1]:
                x[k] = x[k] - factor.lower[k, i] * x[i]
    return x


def inverse_from_factor(tree: Tree, factor: Factor) -> Array:
    """M⁻¹ = L⁻¹ D⁻¹ L⁻ᵀ; L⁻¹ has the sparsity of L, so M⁻¹ is zero between branches that share no link."""
    inverse_lower = zeros(tree.n, tree.n)
    minv = zeros(tree.n, tree.n)
    for k in tree.links:
        with scope("minv", f"link{k}"):
            inverse_lower[k, k] = 1.0
            above = tree.ancestors[k][:-1]
            for i in reversed(above):
                terms = [factor.lower[k, j] * inverse_lower[j, i] for j in above if tree.is_ancestor(i, j)]
                inverse_lower[k, i] = label(-sum(terms[1:], terms[0]), f"x_{i}")
    for a in tree.links:
        for b in range(a, tree.n):
            with scope("minv", f"link{a}"):
                shared = [k for k in tree.ancestors[a] if tree.is_ancestor(k, b)]
                terms = [(inverse_lower[a, k] * factor.inverse_d[k]) * inverse_lower[b, k] for k in shared]
                minv[a, b] = minv[b, a] = label(sum(terms[1:], terms[0]), f"m_{b}") if terms else 0.0
    return minv


def mass_matrix_inverse(tree: Tree, q: Sequence[Scalar]) -> Array:
    """M⁻¹ (n, n) in 1/(kg m²), by M = Lᵀ D L."""
    return inverse_from_factor(tree, factorise(tree, mass_matrix(tree, q)))
