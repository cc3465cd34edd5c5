"""Energies, center of mass, poses and Jacobians: what a controller's cost and its checks need."""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.base.naming import label, scope
from dynagate.dynamics.recursions.poses import Poses, poses
from dynagate.dynamics.spatial import ZERO_MOTION, Array, Motion, Scalar, zeros
from dynagate.dynamics.tree import Tree


def _base_poses(tree: Tree, q: Sequence[Scalar]) -> Poses:
    return poses(tree, q, "base")


def kinetic_energy(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar]) -> Scalar:
    """½ Σ vᵀ I v in J, velocities in body frames, and ½ Σ of the rotors' armature times q̇²."""
    joints = tree.transforms(q)
    velocities: list[Motion] = []
    total: Scalar = 0.0
    for i in tree.links:
        with scope("kinetic", f"link{i}"):
            p = tree.parents[i]
            carried = joints[i].motion_to_link(velocities[p]) if p >= 0 else ZERO_MOTION
            v = carried + tree.joint_motion(i, qd)
            velocities.append(v)
            total = total + v.dot(tree.inertias[i] @ v)
            for d in tree.dofs[i]:
                total = total + tree.armature[d] * (qd[d] * qd[d])
    return label(0.5 * total, "kinetic_energy")


def potential_energy(tree: Tree, q: Sequence[Scalar]) -> Scalar:
    """-Σ m gᵀ c in J, zero where the moving links' center of mass is at the base's origin."""
    return label(_first_moment(tree, q) @ tree.base_acceleration, "potential_energy")


def center_of_mass(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Center of mass of the moving links (3,) in m, in the base frame."""
    total = sum(inertia.mass for inertia in tree.as_given.inertias)
    return label(_first_moment(tree, q) * (1.0 / total), "center_of_mass")


def _first_moment(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Σ m c, by passing each subtree's moment about its joint up to the base: no link's pose is needed."""
    tree = tree.as_given
    joints = tree.transforms(q)
    moments = [inertia.first for inertia in tree.inertias]
    masses = [inertia.mass for inertia in tree.inertias]
    total = zeros(3)
    for i in reversed(tree.links):
        with scope("com", f"link{i}"):
            above = joints[i].to_parent(moments[i]) + joints[i].translation * masses[i]
            p = tree.parents[i]
            if p >= 0:
                moments[p], masses[p] = moments[p] + above, masses[p] + masses[i]
            else:
                total = total + above
    return total


def link_positions(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Origin of every link's frame (links, 3) in m, in the base frame."""
    tree = tree.as_given
    result = zeros(len(tree.links), 3)
    for i, position in enumerate(_base_poses(tree, q).position):
        result[i] = position
    return result


def link_jacobians(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Jacobian of every link (links, 6, nv): [angular; linear] velocity of its origin in base axes, by q̇."""
    tree = tree.as_given
    where = _base_poses(tree, q)
    result = zeros(len(tree.links), 6, tree.nv)
    for i in tree.links:
        with scope("jacobian", f"link{i}"):
            for d in tree.support[i]:
                j = tree.link_of[d]
                # seen from axes at link i's origin
                seen = tree.axis_at(d, where.rotation[j], where.position[j] - where.position[i])
                result[i, :3, d], result[i, 3:, d] = seen
    return result
