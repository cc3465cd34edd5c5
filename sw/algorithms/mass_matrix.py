"""The joint-space inertia matrix, its sparse factor and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from dynagate.algorithms.tree import Tree
from dynagate.configuration import normalised
from dynagate.joints import JointTransform
from dynagate.naming import label, scope
from dynagate.robot import RobotError
from dynagate.spatial import Array, Inertia, Scalar, symmetric, zeros

SINGULAR = 1e-12
"""What rounding leaves of a vanished pivot."""


def mass_matrix(tree: Tree, q: Sequence[Scalar]) -> Array:
    """M (nv, nv) in kg m²: composite rigid bodies in body frames (Featherstone 2008, §6.2)."""
    joints = tree.transforms(q)
    composite = list(tree.inertias)
    m = zeros(tree.nv, tree.nv)
    for i in reversed(tree.links):
        with scope("crba", f"link{i}"):
            for d in tree.dofs[i]:
                force = composite[i] @ tree.axis(d)
                for j in reversed(tree.ancestors[i]):
                    for e in tree.dofs[j]:
                        m[d, e] = m[e, d] = tree.along(e, force)
                    if tree.parents[j] >= 0:
                        force = joints[j].force_to_parent(force)
                m[d, d] = m[d, d] + tree.armature[d]
                for e in tree.chain[d]:
                    label(m[d, e], f"m_{e}")
            p = tree.parents[i]
            if p >= 0:
                composite[p] = composite[p] + _inertia_in_parent(composite[i], joints[i])
    return m


def check_invertible(tree: Tree) -> None:
    """Raises RobotError that names a joint which can move without moving any mass, as one about the axis of its
    neighbour with no mass between them: M has no inverse."""
    random = np.random.default_rng(0)
    q = normalised(tree.robot, random.uniform(-1.0, 1.0, tree.nq))
    m = mass_matrix(tree, q.tolist()).astype(np.float64)
    left = m.copy()
    for k in reversed(range(tree.nv)):
        if abs(left[k, k]) <= SINGULAR * abs(m[k, k]):
            link = tree.robot.links[tree.link_of[k]]
            raise RobotError(
                f"joint '{link.joint.name}' can move without moving any mass, so the mass matrix of "
                f"'{tree.robot.name}' has no inverse; give link '{link.name}' mass and inertia, or lock a joint"
            )
        left[:k, :k] -= np.outer(left[:k, k], left[k, :k]) / left[k, k]


def _inertia_in_parent(inertia: Inertia, joint: JointTransform) -> Inertia:
    """The second moment moves as Σ + t hᵀ + h tᵀ + m t tᵀ = Σ + t uᵀ + u tᵀ with u = h + m t / 2."""
    mass, t = inertia.mass, joint.translation
    first = joint.to_parent(inertia.first)
    turned = joint.symmetric_to_parent(inertia.second)
    u = first + t * (0.5 * mass)
    second = symmetric(lambda a, b: turned[a, b] + (t[a] * u[b] + u[a] * t[b]))
    return Inertia(mass, first + t * mass, second)


class Factor(NamedTuple):
    """M = Lᵀ D L with unit lower L, nonzero only at (d, chain of d) (Featherstone 2008, §6.5). inverse_d: 1 / D."""

    lower: Array
    inverse_d: list[Scalar]


def factorise(tree: Tree, m: Array) -> Factor:
    a = m.copy()
    lower = zeros(tree.nv, tree.nv)
    inverse_d: list[Scalar] = [0.0] * tree.nv
    for k in reversed(range(tree.nv)):
        with scope("ltdl", *tree.where(k)):
            inverse_d[k] = label(1.0 / a[k, k], "d")
            above = tree.chain[k][:-1]
            for i in above:
                lower[k, i] = label(a[k, i] * inverse_d[k], f"l_{i}")
            for i in above:
                for j in tree.chain[i]:
                    # the next pivot waits for one product after the division, not for two: the square is there already
                    next_pivot = i == j == above[-1]
                    product = (a[k, i] * a[k, i]) * inverse_d[k] if next_pivot else lower[k, i] * a[k, j]
                    a[i, j] = a[i, j] - product
    return Factor(lower, inverse_d)


def solve(tree: Tree, factor: Factor, rhs: Sequence[Scalar]) -> list[Scalar]:
    """x (nv,) with M x = rhs, by two sparse substitutions."""
    x = list(rhs)
    with scope("solve"):
        for k in reversed(range(tree.nv)):
            for i in tree.chain[k][:-1]:
                x[i] = x[i] - factor.lower[k, i] * x[k]
        for k in range(tree.nv):
            x[k] = x[k] * factor.inverse_d[k]
            for i in tree.chain[k][:-1]:
                x[k] = x[k] - factor.lower[k, i] * x[i]
    return x


def inverse_from_factor(tree: Tree, factor: Factor) -> Array:
    """M⁻¹ = L⁻¹ D⁻¹ L⁻ᵀ; L⁻¹ has the sparsity of L, so M⁻¹ is zero between branches that share no link."""
    inverse_lower = zeros(tree.nv, tree.nv)
    minv = zeros(tree.nv, tree.nv)
    for k in range(tree.nv):
        with scope("minv", *tree.where(k)):
            inverse_lower[k, k] = 1.0
            above = tree.chain[k][:-1]
            for i in reversed(above):
                # X L = 1 and not L X = 1: row by row as the pivots appear, so that the last of them is waited for once
                terms = [inverse_lower[k, j] * factor.lower[j, i] for j in above if i in tree.chain[j][:-1]]
                inverse_lower[k, i] = label(-sum(terms, factor.lower[k, i]), f"x_{i}")
    for a in range(tree.nv):
        for b in range(a, tree.nv):
            with scope("minv", *tree.where(a)):
                shared = [k for k in tree.chain[a] if k in tree.chain[b]]
                terms = [(inverse_lower[a, k] * factor.inverse_d[k]) * inverse_lower[b, k] for k in shared]
                minv[a, b] = minv[b, a] = label(sum(terms[1:], terms[0]), f"m_{b}") if terms else 0.0
    return minv


def mass_matrix_inverse(tree: Tree, q: Sequence[Scalar]) -> Array:
    """M⁻¹ (nv, nv) in 1/(kg m²), by M = Lᵀ D L."""
    return inverse_from_factor(tree, factorise(tree, mass_matrix(tree, q)))
