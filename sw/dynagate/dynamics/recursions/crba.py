"""The joint-space inertia matrix, its sparse factor and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.naming import label, scope
from dynagate.dynamics.configuration import normalized
from dynagate.dynamics.mimic import Elimination
from dynagate.dynamics.spatial import Array, Inertia, Scalar, symmetric, zeros
from dynagate.dynamics.transforms import JointTransform
from dynagate.dynamics.tree import Tree
from dynagate.robot import RobotError

SINGULAR = 1e-9
"""A pivot this small relative to its diagonal entry has vanished, but for what rounding and short decimals of π leave:
an inverse would lose nine digits."""

CONFIGURATIONS = 3
"""Random ones: M may be near singular at one of them by chance."""


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
    """Raises RobotError that names the joints which can move without moving any mass, as two about one axis with no
    mass between them: M has no inverse, at any configuration."""
    tree, random = tree.nominal, np.random.default_rng(0)
    for _ in range(CONFIGURATIONS):
        q = normalized(tree.moving, random.uniform(-1.0, 1.0, tree.moving.nq)).tolist()
        m = tree.mimic.symmetric(mass_matrix(tree, tree.mimic.configuration(q)))
        weightless = _weightless(m.astype(np.float64))
        if not weightless:
            return
    dofs = tree.mimic.leaders
    groups = [sorted({tree.link_of[dofs[d]] for d in group}) for group in weightless]
    links = tree.robot.links
    listed = "; ".join(_joints(tree, group) for group in groups)
    empty = [next((links[i].name for i in group if links[i].mass == 0.0), links[group[-1]].name) for group in groups]
    held = [links[group[-1]].joint.name for group in groups]
    raise RobotError(
        f"{listed} can move without moving any mass, so the mass matrix of '{tree.robot.name}' has no inverse; "
        f"give mass and inertia to {_quoted(empty)}, or hold by lock= {_quoted(held)}"
    )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in dict.fromkeys(names))


def _joints(tree: Tree, links: Sequence[int]) -> str:
    names = [f"'{tree.robot.links[i].joint.name}'" for i in links]
    return f"joint {names[0]}" if len(names) == 1 else f"joints {', '.join(names[:-1])} and {names[-1]} together"


def _weightless(m: npt.NDArray[np.float64]) -> list[list[int]]:
    """Groups of degrees of freedom that move no mass together: a vanishing pivot of M, and what moves with it."""
    left = m.copy()
    groups = []
    solved: list[int] = []
    for k in reversed(range(len(m))):
        if abs(left[k, k]) > SINGULAR * abs(m[k, k]):
            left[:k, :k] -= np.outer(left[:k, k], left[k, :k]) / left[k, k]
            solved.append(k)
            continue
        motion = -np.linalg.solve(m[np.ix_(solved, solved)], m[solved, k]) * np.sqrt(np.abs(np.diag(m)[solved]))
        size = max(float(np.sqrt(abs(m[k, k]))), float(np.abs(motion).max(initial=0.0)))
        groups.append([k, *(d for d, rate in zip(solved, motion, strict=True) if abs(rate) > 1e-3 * size)])
    return groups


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


class Dense:
    """The `Elimination` of a matrix (n, n) without zeros."""

    def __init__(self, n: int) -> None:
        self.nv = n
        self.chain = [list(range(d + 1)) for d in range(n)]

    def where(self, d: int) -> tuple[str, ...]:
        return (f"row{d}",)


def factorize(tree: Elimination, m: Array) -> Factor:
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


def solve(tree: Elimination, factor: Factor, rhs: Sequence[Scalar]) -> list[Scalar]:
    """x (nv,) with M x = rhs, by two sparse substitutions."""
    with scope("solve"):
        return outwards(tree, factor, inwards(tree, factor, rhs))


def inwards(tree: Elimination, factor: Factor, rhs: Sequence[Scalar]) -> list[Scalar]:
    """L⁻ᵀ rhs (nv,), the first half of a solution."""
    x = list(rhs)
    for k in reversed(range(tree.nv)):
        for i in tree.chain[k][:-1]:
            x[i] = x[i] - factor.lower[k, i] * x[k]
    return x


def outwards(tree: Elimination, factor: Factor, half: Sequence[Scalar]) -> list[Scalar]:
    """L⁻¹ D⁻¹ half (nv,), the second half."""
    x = list(half)
    for k in range(tree.nv):
        x[k] = x[k] * factor.inverse_d[k]
        for i in tree.chain[k][:-1]:
            x[k] = x[k] - factor.lower[k, i] * x[i]
    return x


def inverse_from_factor(tree: Elimination, factor: Factor) -> Array:
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
    """Return M⁻¹ (nv, nv) in 1/(kg m²) by M = Lᵀ D L, in the robot's own coordinates."""
    mimic = tree.mimic
    m = mimic.symmetric(mass_matrix(tree, mimic.configuration(q)))
    return inverse_from_factor(mimic, factorize(mimic, m))
