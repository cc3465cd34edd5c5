"""Centroidal momentum and its matrix, the Jacobian of the center of mass, and gravity and velocity torques.

The centroidal momentum A(q) q̇ is the momentum of all links about their common center of mass, in base axes. Rotor
inertias (armature) do not contribute.

Reference:
    Orin, Goswami & Lee, "Centroidal dynamics of a humanoid robot", 2013.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.base.naming import label, scope
from dynagate.dynamics.links import TreeLink
from dynagate.dynamics.recursions.kinematics import center_of_mass
from dynagate.dynamics.recursions.poses import poses
from dynagate.dynamics.recursions.rnea import inverse_dynamics
from dynagate.dynamics.spatial import Array, Inertia, Scalar, array, rotate_symmetric, symmetric, zeros
from dynagate.dynamics.tree import Tree


def centroidal_momentum_matrix(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Return A (6, nv): momentum [angular; linear] about the center of mass in base axes, kg m²/s and kg m/s, for each
    q̇.
    """
    tree = tree.unreduced
    center, link_poses = center_of_mass(tree, q), poses(tree, q, "base")
    positions = [position - center for position in link_poses.position]
    composite = [_inertia_about(tree.inertias[i], link_poses.rotation[i], positions[i]) for i in tree.links]
    result = zeros(6, tree.nv)

    def columns(link: TreeLink, inertia: Inertia) -> tuple[Inertia, None]:
        for d in tree.dofs[link.number]:
            momentum = inertia @ tree.axis_at(d, link_poses.rotation[link.number], positions[link.number])
            result[:3, d], result[3:, d] = momentum.angular, momentum.linear
        return inertia, None

    tree.up("momentum", columns, own=composite)
    return label(result, "centroidal_momentum_matrix")


def _inertia_about(inertia: Inertia, rotation: Array, position: Array) -> Inertia:
    """Return a link's inertia in another frame, about that frame's origin.

    Args:
        inertia: Inertia in the frame of the link.
        rotation: Rotation from the link's axes to those of the other frame, (3, 3).
        position: Origin of the link in the other frame, (3,), m.
    """
    mass, first, second = inertia.mass, rotation @ inertia.first, rotate_symmetric(rotation, inertia.second)
    h = first + position * mass

    def entry(a: int, b: int) -> Scalar:
        return second[a, b] + first[a] * position[b] + position[a] * h[b]

    return Inertia(mass, h, symmetric(entry))


def centroidal_momentum(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar]) -> Array:
    """Return the momentum [angular; linear] (6,) of all links about their center of mass in base axes, kg m²/s and kg
    m/s.
    """
    matrix = centroidal_momentum_matrix(tree, q)
    with scope("momentum"):
        return label(matrix @ array(list(qd)), "centroidal_momentum")


def center_of_mass_jacobian(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Return the Jacobian (3, nv) of the center of mass in base axes, m/rad or m/m."""
    matrix = centroidal_momentum_matrix(tree, q)
    total = sum(inertia.mass for inertia in tree.unreduced.inertias)
    with scope("momentum"):
        return label(matrix[3:] * (1.0 / total), "center_of_mass_jacobian")


def center_of_mass_velocity(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar]) -> Array:
    """Return the velocity (3,) of the center of mass in base axes, m/s."""
    columns = center_of_mass_jacobian(tree, q)
    with scope("momentum"):
        return label(columns @ array(list(qd)), "center_of_mass_velocity")


def gravity_torque(tree: Tree, q: Sequence[Scalar]) -> list[Scalar]:
    """Return the torque τ (nv,) that holds the robot still against gravity, N m or N."""
    return inverse_dynamics(tree.frictionless(), q, [0.0] * tree.nv, [0.0] * tree.nv)


def bias_torque(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar]) -> list[Scalar]:
    """Return τ (nv,) at zero acceleration: velocity products, gravity, damping and friction, N m or N. M q̈ = τ -
    bias.
    """
    return inverse_dynamics(tree, q, qd, [0.0] * tree.nv)


def coriolis_torque(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar]) -> list[Scalar]:
    """Return C(q, q̇) q̇ (nv,): the torque of Coriolis and centrifugal forces only, N m or N."""
    return inverse_dynamics(tree.frictionless(weightless=True), q, qd, [0.0] * tree.nv)
