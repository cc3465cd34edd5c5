"""Articulated-body inertias, and the inverse of the mass matrix computed from them.

The articulated inertia of a link relates a force on it to its acceleration while the joints below can move freely
(Featherstone, "Rigid Body Dynamics Algorithms", 2008, §7.1 and §7.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynagate.base.naming import label, scope
from dynagate.dynamics.links import Links, PerLink, TreeLink
from dynagate.dynamics.spatial import (
    ZERO_MOTION,
    Array,
    Inertia,
    Scalar,
    SpatialForce,
    SpatialMotion,
    array,
    difference,
    inertia_from_second_moment,
    skew,
    symmetric,
    zeros,
)
from dynagate.dynamics.transforms import JointTransform
from dynagate.dynamics.tree import Tree


class ArticulatedInertia(NamedTuple):
    """A symmetric spatial inertia: moment = rotational ω + coupling v and force = couplingᵀ ω + mass v."""

    rotational: Array
    """Symmetric block (3, 3), kg m²."""
    coupling: Array
    """Block (3, 3) between rotation and translation, kg m."""
    mass: Array
    """Symmetric block (3, 3), kg; unlike a rigid body's mass it depends on the direction."""

    @classmethod
    def of(cls, inertia: Inertia) -> ArticulatedInertia:
        """Return a rigid body's inertia in this form."""
        mass = zeros(3, 3)
        for k in range(3):
            mass[k, k] = inertia.mass
        return cls(inertia_from_second_moment(inertia.second), skew(inertia.first), mass)

    def __add__(self, other: ArticulatedInertia) -> ArticulatedInertia:  # type: ignore[override]
        return ArticulatedInertia(
            symmetric(lambda a, b: self.rotational[a, b] + other.rotational[a, b]),
            self.coupling + other.coupling,
            symmetric(lambda a, b: self.mass[a, b] + other.mass[a, b]),
        )

    def __matmul__(self, motion: SpatialMotion) -> SpatialForce:
        return SpatialForce(
            self.rotational @ motion.angular + self.coupling @ motion.linear,
            self.coupling.T @ motion.angular + self.mass @ motion.linear,
        )

    def after_elimination(self, u: SpatialForce, inverse_d: Scalar) -> ArticulatedInertia:
        """Return I - U D⁻¹ Uᵀ: the inertia that remains when one degree of freedom can move freely."""
        n, f = u.angular * inverse_d, u.linear * inverse_d
        return ArticulatedInertia(
            symmetric(lambda a, b: difference(self.rotational[a, b], n[a] * u.angular[b])),
            array([[difference(self.coupling[a, b], n[a] * u.linear[b]) for b in range(3)] for a in range(3)]),
            symmetric(lambda a, b: difference(self.mass[a, b], f[a] * u.linear[b])),
        )

    def in_parent(self, joint: JointTransform) -> ArticulatedInertia:
        """Return the inertia in the parent's frame: coupling' = H + t× M and rotational' = I - coupling' t× + t× Hᵀ
        after rotation.
        """
        rotational = joint.symmetric_to_parent(self.rotational)
        mass = joint.symmetric_to_parent(self.mass)
        turned = array([joint.to_parent(row) for row in self.coupling])  # rows: H Rᵀ
        coupling = array([joint.to_parent(column) for column in turned.T]).T
        cross = skew(joint.translation)
        moved = coupling + cross @ mass
        down, up = moved @ cross, cross @ coupling.T
        return ArticulatedInertia(symmetric(lambda a, b: rotational[a, b] - down[a, b] + up[a, b]), moved, mass)


class DofFactor(NamedTuple):
    """Elimination of one degree of freedom from an articulated inertia."""

    u: SpatialForce
    """U = I S, a spatial force in the link's frame."""
    inverse_d: Scalar
    """1/D with D = Sᵀ U + armature, 1/(kg m²) or 1/kg."""


class ArticulatedJoint(NamedTuple):
    """Result of articulating one link: the eliminated degrees of freedom of its joint, and the inertia that remains."""

    factors: list[DofFactor]
    """U and 1/D of each degree of freedom of the joint."""
    apparent: ArticulatedInertia
    """The apparent inertia I - U D⁻¹ Uᵀ after all degrees of freedom are eliminated, in the link's frame."""


def articulate_link(
    link: TreeLink, children: ArticulatedInertia | None, pose: JointTransform, extra: Inertia | None = None
) -> tuple[ArticulatedInertia, ArticulatedJoint]:
    """Return the articulated inertia that a link adds to its parent, and the factors of its joint.

    The degrees of freedom of a joint are eliminated one by one, from the last to the first, so no block is inverted.

    Args:
        link: The link.
        children: Sum of the articulated inertias that the children add, in the link's frame; None at a leaf.
        pose: Pose of the link in its parent.
        extra: An additional inertia that the link carries, or None.
    """
    inertia = ArticulatedInertia.of(link.inertia if extra is None else link.inertia + extra)
    if children is not None:
        inertia = inertia + children
    factors = [DofFactor(SpatialForce(zeros(3), zeros(3)), 0.0) for _ in link.dofs]
    for d in reversed(link.dofs):
        u = inertia @ link.axis(d)
        factors[d] = DofFactor(u, label(1.0 / (link.along(d, u) + link.armature[d]), "d"))
        inertia = inertia.after_elimination(u, factors[d].inverse_d)
    return inertia.in_parent(pose), ArticulatedJoint(factors, inertia)


def articulated_joints(links: Links, joints: PerLink) -> PerLink:
    """Return an `ArticulatedJoint` for every link, computed from the leaves to the root."""
    return links.up("articulated", articulate_link, joints)


def articulate(tree: Tree, joints: list[JointTransform]) -> tuple[list[DofFactor], list[ArticulatedInertia]]:
    """Return the factors of all degrees of freedom (nv), and the apparent inertia of every link behind its joint."""
    articulated_links = articulated_joints(tree, joints)
    return [factor for joint in articulated_links for factor in joint.factors], [
        joint.apparent for joint in articulated_links
    ]


def propagate(
    link: TreeLink, force: SpatialForce, joint: ArticulatedJoint, loads: list[Scalar]
) -> tuple[SpatialForce, list[Scalar]]:
    """Propagate a force on a link through its joint to the parent.

    Args:
        link: The link.
        force: Spatial force on the link, in its frame.
        joint: Factors of the link's joint.
        loads: Torques of the joint, N m or N; reduced in place by the torques that the force needs.

    Returns:
        The force that the parent sees, in the link's frame, and the remaining torques u.
    """
    for d in reversed(link.dofs):
        loads[d] = label(loads[d] - link.along(d, force), "u")
        force = force + joint.factors[d].u.scaled(loads[d] * joint.factors[d].inverse_d)
    return force, loads


def joint_acceleration(
    link: TreeLink, a: SpatialMotion, joint: ArticulatedJoint, loads: Sequence[Scalar]
) -> tuple[SpatialMotion, list[Scalar]]:
    """Return the acceleration of a link, in its frame, and q̈ of its joint.

    Args:
        link: The link.
        a: Acceleration of the link without q̈ of its own joint.
        joint: Factors of the link's joint.
        loads: Remaining torques u of the joint.
    """
    qdd: list[Scalar] = []
    for d in link.dofs:
        factor = joint.factors[d]
        qdd.append(label((loads[d] - a.dot(factor.u)) * factor.inverse_d, "qdd"))
        a = a + link.axis(d).scaled(qdd[d])
    return a, qdd


def mass_matrix_inverse(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Return M⁻¹ (nv, nv) without forming M, in 1/(kg m²): the articulated-body algorithm applied to unit torques.

    Args:
        tree: The robot.
        q: Configuration (nq,) of all joints, rad or m.

    Reference:
        Carpentier, "Analytical inverse of the joint space inertia matrix", 2018.
    """
    joints = tree.transforms(q)
    articulated, _ = articulate(tree, joints)
    minv = zeros(tree.nv, tree.nv)
    forces: list[dict[int, SpatialForce]] = [{} for _ in tree.links]  # link -> column -> force from below
    for i in reversed(tree.links):
        with scope("minv", f"link{i}"):
            for d in reversed(tree.dofs[i]):
                u, inverse_d = articulated[d]
                forces[i][d] = SpatialForce(zeros(3), zeros(3))
                for j, force in forces[i].items():
                    minv[d, j] = inverse_d if j == d else -(inverse_d * tree.along(d, force))
                    forces[i][j] = force + u.scaled(minv[d, j])
            p = tree.parents[i]
            if p >= 0:
                for j, force in sorted(forces[i].items()):
                    parent_force = joints[i].force_to_parent(force)
                    forces[p][j] = forces[p][j] + parent_force if j in forces[p] else parent_force
    motions: list[dict[int, SpatialMotion]] = [{} for _ in tree.links]
    for i in tree.links:
        with scope("minv", f"link{i}"):
            p, first = tree.parents[i], tree.dofs[i].start
            if p >= 0:
                motions[i] = {j: joints[i].motion_to_link(m) for j, m in motions[p].items() if j >= first}
            for d in tree.dofs[i]:
                for j in range(d, tree.nv):
                    if j in motions[i]:
                        minv[d, j] = minv[d, j] - articulated[d].inverse_d * motions[i][j].dot(articulated[d].u)
                    label(minv[d, j], f"m_{j}")
                    motions[i][j] = motions[i].get(j, ZERO_MOTION) + tree.axis(d).scaled(minv[d, j])
    for d in range(tree.nv):
        for j in range(d):
            minv[d, j] = minv[j, d]
    return minv
