"""Articulated bodies: forward dynamics and the inverse mass matrix without the mass matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynagate.algorithms.tree import Tree
from dynagate.naming import label, scope
from dynagate.spatial import (
    ZERO_MOTION,
    Array,
    Force,
    Inertia,
    JointTransform,
    Motion,
    Scalar,
    array,
    inertia_from_second_moment,
    skew,
    symmetric,
    zeros,
)


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
            symmetric(lambda a, b: self.rotational[a, b] - n[a] * u.angular[b]),
            array([[self.coupling[a, b] - n[a] * u.linear[b] for b in range(3)] for a in range(3)]),
            symmetric(lambda a, b: self.mass[a, b] - f[a] * u.linear[b]),
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


class _Joint(NamedTuple):
    """U = I S and 1/D with D = Sᵀ U."""

    u: Force
    inverse_d: Scalar


def _articulate(tree: Tree, joints: list[JointTransform]) -> tuple[list[_Joint], list[ArticulatedInertia]]:
    """Tips to base. Returns the joints, and per link the inertia that is left where its joint yields."""
    inertia = [ArticulatedInertia.of(body) for body in tree.inertias]
    yielding: list[ArticulatedInertia] = list(inertia)
    found: list[_Joint] = [_Joint(Force(zeros(3), zeros(3)), 0.0)] * tree.n
    for i in reversed(tree.links):
        with scope("articulated", f"link{i}"):
            u = inertia[i] @ tree.axis(i)
            found[i] = _Joint(u, label(1.0 / (tree.along_axis(i, u) + tree.armature[i]), "d"))
            if tree.parents[i] >= 0:
                yielding[i] = inertia[i].without(u, found[i].inverse_d)
                p = tree.parents[i]
                inertia[p] = inertia[p] + yielding[i].in_parent(joints[i])
    return found, yielding


def forward_dynamics(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    external: Array | None = None,
) -> list[Scalar]:
    """q̈ (n,) by the articulated-body algorithm (Featherstone 2008, §7.3)."""
    joints = tree.transforms(q)
    articulated, yielding = _articulate(tree, joints)
    velocity: list[Motion] = []
    bias: list[Motion] = []
    force: list[Force] = []
    for i in tree.links:
        with scope("aba", f"link{i}"):
            p, axis = tree.parents[i], tree.axis(i)
            v = joints[i].motion_to_link(velocity[p]) if p >= 0 else ZERO_MOTION
            v = v + axis.scaled(qd[i])
            velocity.append(v)
            bias.append(v.cross(axis).scaled(qd[i]))
            bias_force = v.cross_force(tree.inertias[i] @ v)
            force.append(bias_force if external is None else bias_force - tree.external_force(i, external))
    load: list[Scalar] = [0.0] * tree.n
    for i in reversed(tree.links):
        with scope("aba", f"link{i}"):
            p = tree.parents[i]
            load[i] = label(tau[i] - tree.damping[i] * qd[i] - tree.along_axis(i, force[i]), "u")
            if p >= 0:
                share = load[i] * articulated[i].inverse_d
                u = articulated[i].u
                passed = force[i] + yielding[i] @ bias[i] + Force(u.angular * share, u.linear * share)
                force[p] = force[p] + joints[i].force_to_parent(passed)
    qdd: list[Scalar] = []
    acceleration: list[Motion] = []
    for i in tree.links:
        with scope("aba", f"link{i}"):
            p = tree.parents[i]
            base = Motion(zeros(3), joints[i].to_link(tree.base_acceleration))
            a = (joints[i].motion_to_link(acceleration[p]) if p >= 0 else base) + bias[i]
            qdd.append(label((load[i] - a.dot(articulated[i].u)) * articulated[i].inverse_d, "qdd"))
            acceleration.append(a + tree.axis(i).scaled(qdd[i]))
    return qdd


def mass_matrix_inverse(tree: Tree, q: Sequence[Scalar]) -> Array:
    """M⁻¹ (n, n) directly: the articulated-body algorithm on unit torques (Carpentier, "Analytical inverse of the joint
    space inertia matrix", 2018)."""
    joints = tree.transforms(q)
    articulated, _ = _articulate(tree, joints)
    minv = zeros(tree.n, tree.n)
    passed: list[dict[int, Force]] = [{} for _ in tree.links]  # link -> column -> force from below
    for i in reversed(tree.links):
        with scope("minv", f"link{i}"):
            u, inverse_d = articulated[i]
            p = tree.parents[i]
            for j in [j for j in tree.links if tree.is_ancestor(i, j)]:
                below = passed[i].get(j, Force(zeros(3), zeros(3)))
                minv[i, j] = inverse_d if j == i else -(inverse_d * tree.along_axis(i, below))
                if p >= 0:
                    share = Force(u.angular * minv[i, j], u.linear * minv[i, j])
                    up = joints[i].force_to_parent(below + share)
                    passed[p][j] = passed[p][j] + up if j in passed[p] else up
    motion: list[dict[int, Motion]] = [{} for _ in tree.links]
    for i in tree.links:
        with scope("minv", f"link{i}"):
            p, axis = tree.parents[i], tree.axis(i)
            for j in range(i, tree.n):
                carried = joints[i].motion_to_link(motion[p][j]) if p >= 0 and j in motion[p] else ZERO_MOTION
                if p >= 0 and j in motion[p]:
                    minv[i, j] = minv[i, j] - articulated[i].inverse_d * carried.dot(articulated[i].u)
                label(minv[i, j], f"m_{j}")
                motion[i][j] = carried + axis.scaled(minv[i, j])
    for i in tree.links:
        for j in range(i):
            minv[i, j] = minv[j, i]
    return minv
