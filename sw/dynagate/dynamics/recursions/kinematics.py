"""Energies, center of mass, poses and Jacobians: what a controller's cost and its checks need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynagate.base.naming import label, scope
from dynagate.dynamics.links import TreeLink
from dynagate.dynamics.recursions.poses import Poses, jacobian_columns, poses
from dynagate.dynamics.spatial import ZERO_MOTION, Array, Scalar, SpatialMotion, zeros
from dynagate.dynamics.transforms import JointTransform
from dynagate.dynamics.tree import Tree


def _base_poses(tree: Tree, q: Sequence[Scalar]) -> Poses:
    return poses(tree, q, "base")


def kinetic_energy(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar]) -> Scalar:
    """½ Σ vᵀ I v in J, velocities in body frames, and ½ Σ of the rotors' armature times q̇²."""

    def energies(
        link: TreeLink, above: SpatialMotion | None, joint: JointTransform, rates: Sequence[Scalar]
    ) -> tuple[SpatialMotion, list]:
        v = (ZERO_MOTION if above is None else joint.motion_to_link(above)) + link.motion(rates)
        return v, [v.dot(link.inertia @ v), *(link.armature[d] * (rate * rate) for d, rate in enumerate(rates))]

    terms = [x for own in tree.down("kinetic", energies, tree.transforms(q), tree.velocities(qd)) for x in own]
    return label(0.5 * sum(terms[1:], terms[0]), "kinetic_energy")


def potential_energy(tree: Tree, q: Sequence[Scalar]) -> Scalar:
    """-Σ m gᵀ c in J, zero where the moving links' center of mass is at the base's origin."""
    return label(_first_moment(tree, q) @ tree.base_acceleration, "potential_energy")


def center_of_mass(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Center of mass of the moving links (3,) in m, in the base frame."""
    total = sum(inertia.mass for inertia in tree.unreduced.inertias)
    return label(_first_moment(tree, q) * (1.0 / total), "center_of_mass")


class _Moment(NamedTuple):
    """Mass of a subtree, and its first moment about a link's origin."""

    mass: Scalar
    first: Array

    def __add__(self, other: _Moment) -> _Moment:  # type: ignore[override]
        return _Moment(self.mass + other.mass, self.first + other.first)


def _first_moment(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Σ m c, by passing each subtree's moment about its joint up to the base: no link's pose is needed."""
    tree = tree.unreduced

    def passed(link: TreeLink, own: _Moment, joint: JointTransform) -> tuple[_Moment, _Moment]:
        above = _Moment(own.mass, joint.to_parent(own.first) + joint.translation * own.mass)
        return above, above

    own = [_Moment(inertia.mass, inertia.first) for inertia in tree.inertias]
    moments = tree.up("com", passed, tree.transforms(q), own=own)
    return sum((moments[i].first for i in reversed(tree.links) if tree.parents[i] < 0), zeros(3))


def link_positions(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Origin of every link's frame (links, 3) in m, in the base frame."""
    tree = tree.unreduced
    result = zeros(len(tree.links), 3)
    for i, position in enumerate(_base_poses(tree, q).position):
        result[i] = position
    return result


def link_jacobians(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Jacobian of every link (links, 6, nv): [angular; linear] velocity of its origin in base axes, by q̇."""
    tree = tree.unreduced
    where = _base_poses(tree, q)
    result = zeros(len(tree.links), 6, tree.nv)
    for i in tree.links:
        with scope("jacobian", f"link{i}"):
            result[i, :3], result[i, 3:] = jacobian_columns(tree, i, where.position[i], where)
    return result
