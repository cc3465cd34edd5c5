"""Joint accelerations from torques, by solving the equations of motion with the mass matrix."""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.dynamics.factor import factorize, solve
from dynagate.dynamics.links import Links
from dynagate.dynamics.recursions import aba
from dynagate.dynamics.recursions.crba import mass_matrix
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
    """Return the joint accelerations q̈ that solve M q̈ = τ - C(q, q̇), in the robot's own coordinates.

    Args:
        tree: The robot.
        q: Configuration (nq,), rad or m.
        qd: Velocities (nv,), rad/s or m/s.
        tau: Joint torques (nv,), N m or N.
        external: Forces on the links (links, 6), [moment; force] at each link's origin in its frame, N m and N.

    Returns:
        q̈ (nv,), rad/s² or m/s².

    Reference:
        Featherstone, "Rigid Body Dynamics Algorithms", 2008, §6.3.
    """
    mimic = tree.mimic
    position, velocity = mimic.configuration(q), mimic.rates(qd)
    bias = mimic.torques(inverse_dynamics(tree, position, velocity, [0.0] * tree.nv, external))
    factor = factorize(mimic, mimic.symmetric(mass_matrix(tree, position)))
    return solve(mimic, factor, [t - b for t, b in zip(tau, bias, strict=True)])


def inverse_mass_product(links: Links, q: Sequence[Scalar], tau: Sequence[Scalar]) -> list[Scalar]:
    """Return M⁻¹ τ (nv,) in the robot's own coordinates, by articulated bodies, or with M if joints mimic others."""
    tree = links.tree
    mimic = tree.mimic
    if mimic.is_identity:
        return aba.inverse_mass_product(links, q, tau)
    m = mimic.symmetric(mass_matrix(tree, mimic.configuration(q)))
    return solve(mimic, factorize(mimic, m), tau)
