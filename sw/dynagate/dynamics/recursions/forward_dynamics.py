"""Joint accelerations from torques, by solving with the mass matrix."""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.dynamics.recursions.crba import factorize, mass_matrix, solve
from dynagate.dynamics.recursions.rnea import inverse_dynamics
from dynagate.dynamics.spatial import Array, Scalar
from dynagate.dynamics.tree import Tree


def forward_dynamics(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    external: Array | None = None,
) -> list[Scalar]:
    """q̈ (nv,) in rad/s²: M q̈ = τ - ID(q, q̇, 0) (Featherstone 2008, §6.3)."""
    bias = inverse_dynamics(tree, q, qd, [0.0] * tree.nv, external)
    factor = factorize(tree, mass_matrix(tree, q))
    return solve(tree, factor, [t - b for t, b in zip(tau, bias, strict=True)])
