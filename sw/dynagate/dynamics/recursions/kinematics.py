"""Energies, center of mass, link positions and link Jacobians."""

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
    """Return the kinetic energy ½ Σ vᵀ I v of all links plus ½ Σ armature q̇² of the rotors, in J."""

    def energies(
        link: TreeLink, parent: SpatialMotion | None, joint: JointTransform, rates: Sequence[Scalar]
    ) -> tuple[SpatialMotion, list]:
        v = (ZERO_MOTION if parent is None else joint.motion_to_link(parent)) + link.motion(rates)
        return v, [v.dot(link.inertia @ v), *(link.armature[d] * (rate * rate) for d, rate in enumerate(rates))]

    terms = [x for moment in tree.down("kinetic", energies, tree.transforms(q), tree.velocities(qd)) for x in moment]
    return label(0.5 * sum(terms[1:], terms[0]), "kinetic_energy")


def potential_energy(tree: Tree, q: Sequence[Scalar]) -> Scalar:
    """Return the potential energy -Σ m gᵀ c in J, which is zero if the center of mass is at the base's origin."""
    return label(_first_moment(tree, q) @ tree.base_acceleration, "potential_energy")


def center_of_mass(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Return the center of mass (3,) of the moving links in the base frame, m."""
    total = sum(inertia.mass for inertia in tree.unreduced.inertias)
    return label(_first_moment(tree, q) * (1.0 / total), "center_of_mass")


class _Moment(NamedTuple):
    """Mass of a subtree, and its first moment about the origin of a link."""

    mass: Scalar
    """Mass, kg."""
    first: Array
    """First moment m c (3,), kg m."""

    def __add__(self, other: _Moment) -> _Moment:  # type: ignore[override]
        return _Moment(self.mass + other.mass, self.first + other.first)


def _first_moment(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Return Σ m c (3,) in the base frame, kg m, by passing the moment of each subtree to its parent."""
    tree = tree.unreduced

    def moment_to_parent(link: TreeLink, moment: _Moment, joint: JointTransform) -> tuple[_Moment, _Moment]:
        parent = _Moment(moment.mass, joint.to_parent(moment.first) + joint.translation * moment.mass)
        return parent, parent

    moment = [_Moment(inertia.mass, inertia.first) for inertia in tree.inertias]
    moments = tree.up("com", moment_to_parent, tree.transforms(q), own=moment)
    return sum((moments[i].first for i in reversed(tree.links) if tree.parents[i] < 0), zeros(3))


def link_positions(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Return the origin of every link's frame (links, 3) in the base frame, m."""
    tree = tree.unreduced
    result = zeros(len(tree.links), 3)
    for i, position in enumerate(_base_poses(tree, q).position):
        result[i] = position
    return result


def link_jacobians(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Return the Jacobian of every link (links, 6, nv): velocity [angular; linear] of its origin in base axes."""
    tree = tree.unreduced
    link_poses = _base_poses(tree, q)
    result = zeros(len(tree.links), 6, tree.nv)
    for i in tree.links:
        with scope("jacobian", f"link{i}"):
            result[i, :3], result[i, 3:] = jacobian_columns(tree, i, link_poses.position[i], link_poses)
    return result
