"""Articulated bodies: forward dynamics and the inverse mass matrix without the mass matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynagate.base.naming import label, scope
from dynagate.dynamics.joints import JointTransform
from dynagate.dynamics.spatial import (
    ZERO_MOTION,
    Array,
    Force,
    Inertia,
    Motion,
    Scalar,
    array,
    difference,
    inertia_from_second_moment,
    skew,
    symmetric,
    zeros,
)
from dynagate.dynamics.tree import Tree


class ArticulatedInertia(NamedTuple):
    """moment = rotational ω + coupling v, force = couplingᵀ ω + mass v; rotational and mass are symmetric."""

    rotational: Array
    coupling: Array
    mass: Array

    @classmethod
    def of(cls, inertia: Inertia) -> ArticulatedInertia:
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

    def __matmul__(self, motion: Motion) -> Force:
        return Force(
            self.rotational @ motion.angular + self.coupling @ motion.linear,
            self.coupling.T @ motion.angular + self.mass @ motion.linear,
        )

    def without(self, u: Force, inverse_d: Scalar) -> ArticulatedInertia:
        """I - U D⁻¹ Uᵀ: what is left where the joint yields."""
        n, f = u.angular * inverse_d, u.linear * inverse_d
        return ArticulatedInertia(
            symmetric(lambda a, b: difference(self.rotational[a, b], n[a] * u.angular[b])),
            array([[difference(self.coupling[a, b], n[a] * u.linear[b]) for b in range(3)] for a in range(3)]),
            symmetric(lambda a, b: difference(self.mass[a, b], f[a] * u.linear[b])),
        )

    def in_parent(self, joint: JointTransform) -> ArticulatedInertia:
        """Turned and moved: coupling' = H + t× M, rotational' = I - coupling' t× + t× Hᵀ."""
        rotational = joint.symmetric_to_parent(self.rotational)
        mass = joint.symmetric_to_parent(self.mass)
        turned = array([joint.to_parent(row) for row in self.coupling])  # rows: H Rᵀ
        coupling = array([joint.to_parent(column) for column in turned.T]).T
        cross = skew(joint.translation)
        moved = coupling + cross @ mass
        down, up = moved @ cross, cross @ coupling.T
        return ArticulatedInertia(symmetric(lambda a, b: rotational[a, b] - down[a, b] + up[a, b]), moved, mass)


class _Freedom(NamedTuple):
    """U = I S and 1/D with D = Sᵀ U, of one degree of freedom."""

    u: Force
    inverse_d: Scalar


def articulate(tree: Tree, joints: list[JointTransform]) -> tuple[list[_Freedom], list[ArticulatedInertia]]:
    """Tips to base. Returns the degrees of freedom, and per link the inertia that is left where its joint yields.

    A joint of several degrees of freedom yields in one after another, the last first, so that no block is inverted.
    """
    inertia = [ArticulatedInertia.of(body) for body in tree.inertias]
    freedoms: list[_Freedom] = [_Freedom(Force(zeros(3), zeros(3)), 0.0)] * tree.nv
    for i in reversed(tree.links):
        with scope("articulated", f"link{i}"):
            for d in reversed(tree.dofs[i]):
                u = inertia[i] @ tree.axis(d)
                freedoms[d] = _Freedom(u, label(1.0 / (tree.along(d, u) + tree.armature[d]), "d"))
                inertia[i] = inertia[i].without(u, freedoms[d].inverse_d)
            p = tree.parents[i]
            if p >= 0:
                inertia[p] = inertia[p] + inertia[i].in_parent(joints[i])
    return freedoms, inertia


def forward_dynamics(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    external: Array | None = None,
) -> list[Scalar]:
    """q̈ (nv,) by the articulated-body algorithm (Featherstone 2008, §7.3)."""
    joints = tree.transforms(q)
    articulated, yielding = articulate(tree, joints)
    velocity: list[Motion] = []
    bias: list[Motion] = []
    force: list[Force] = []
    for i in tree.links:
        with scope("aba", f"link{i}"):
            p, rate = tree.parents[i], tree.joint_motion(i, qd)
            v = joints[i].motion_to_link(velocity[p]) if p >= 0 else ZERO_MOTION
            bias.append(v.cross(rate))
            v = v + rate
            velocity.append(v)
            bias_force = v.cross_force(tree.inertias[i] @ v)
            force.append(bias_force if external is None else bias_force - tree.external_force(i, external))
    load: list[Scalar] = [0.0] * tree.nv
    for i in reversed(tree.links):
        with scope("aba", f"link{i}"):
            for d in reversed(tree.dofs[i]):
                load[d] = label(tau[d] - tree.resistance(d, qd) - tree.along(d, force[i]), "u")
                force[i] = force[i] + articulated[d].u.scaled(load[d] * articulated[d].inverse_d)
            p = tree.parents[i]
            if p >= 0:
                force[p] = force[p] + joints[i].force_to_parent(force[i] + yielding[i] @ bias[i])
    qdd: list[Scalar] = []
    acceleration: list[Motion] = []
    for i in tree.links:
        with scope("aba", f"link{i}"):
            p = tree.parents[i]
            base = Motion(zeros(3), joints[i].to_link(tree.base_acceleration))
            a = (joints[i].motion_to_link(acceleration[p]) if p >= 0 else base) + bias[i]
            for d in tree.dofs[i]:
                qdd.append(label((load[d] - a.dot(articulated[d].u)) * articulated[d].inverse_d, "qdd"))
                a = a + tree.axis(d).scaled(qdd[d])
            acceleration.append(a)
    return qdd


def mass_matrix_inverse(tree: Tree, q: Sequence[Scalar]) -> Array:
    """M⁻¹ (nv, nv) directly: the articulated-body algorithm on unit torques (Carpentier, "Analytical inverse of the
    joint space inertia matrix", 2018)."""
    joints = tree.transforms(q)
    articulated, _ = articulate(tree, joints)
    minv = zeros(tree.nv, tree.nv)
    passed: list[dict[int, Force]] = [{} for _ in tree.links]  # link -> column -> force from below
    for i in reversed(tree.links):
        with scope("minv", f"link{i}"):
            for d in reversed(tree.dofs[i]):
                u, inverse_d = articulated[d]
                passed[i][d] = Force(zeros(3), zeros(3))
                for j, below in passed[i].items():
                    minv[d, j] = inverse_d if j == d else -(inverse_d * tree.along(d, below))
                    passed[i][j] = below + u.scaled(minv[d, j])
            p = tree.parents[i]
            if p >= 0:
                for j, force in sorted(passed[i].items()):
                    up = joints[i].force_to_parent(force)
                    passed[p][j] = passed[p][j] + up if j in passed[p] else up
    motion: list[dict[int, Motion]] = [{} for _ in tree.links]
    for i in tree.links:
        with scope("minv", f"link{i}"):
            p, first = tree.parents[i], tree.dofs[i].start
            if p >= 0:
                motion[i] = {j: joints[i].motion_to_link(m) for j, m in motion[p].items() if j >= first}
            for d in tree.dofs[i]:
                for j in range(d, tree.nv):
                    if j in motion[i]:
                        minv[d, j] = minv[d, j] - articulated[d].inverse_d * motion[i][j].dot(articulated[d].u)
                    label(minv[d, j], f"m_{j}")
                    motion[i][j] = motion[i].get(j, ZERO_MOTION) + tree.axis(d).scaled(minv[d, j])
    for d in range(tree.nv):
        for j in range(d):
            minv[d, j] = minv[j, d]
    return minv
