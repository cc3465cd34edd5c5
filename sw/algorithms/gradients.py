"""Derivatives of inverse and forward dynamics in closed form.

Carpentier & Mansard, "Analytical derivatives of rigid body dynamics algorithms" (2018), in the compact form of
Singh, Russell & Wensing, "Efficient analytical derivatives of rigid-body dynamics using spatial vector algebra"
(2022, eqs. 33-38). All spatial vectors of a chain are in one expression frame (`frames`).

The formulas hold 2B(v) and 2Ψ̇, and B is linear in v: velocities are carried doubled, which leaves few factors of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynagate.algorithms.frames import Frame, Poses, poses
from dynagate.algorithms.mass_matrix import factorise, inverse_from_factor, mass_matrix
from dynagate.algorithms.prefix import along_links, over_subtrees
from dynagate.algorithms.tree import Tree
from dynagate.naming import label, scope
from dynagate.spatial import (
    ZERO_MOTION,
    Array,
    Force,
    Inertia,
    Motion,
    Scalar,
    cross,
    rotate_symmetric,
    skew,
    symmetric,
    zeros,
)


class Coriolis(NamedTuple):
    """The body's 2B(I, v) = (v×*) I - I (v×) + (I v)×̄*, of which only the first three columns are not zero:
    2B m = (-A ω, ω × l) for a motion m with angular part ω; A = [ω₂]× Σ + v₂ hᵀ - (h·v₂) 1 and l = m v₂ - h × ω₂, with
    (ω₂, v₂) = 2v."""

    a: Array
    momentum: Array

    def __add__(self, other: Coriolis) -> Coriolis:  # type: ignore[override]
        return Coriolis(self.a + other.a, self.momentum + other.momentum)

    def __matmul__(self, angular: Array) -> Force:
        """2B m, of which m's angular part alone matters."""
        return Force(-(self.a @ angular), cross(angular, self.momentum))

    def row(self, motion: Motion) -> Array:
        """mᵀ 2B, its three columns that are not zero."""
        return cross(self.momentum, motion.linear) - self.a.T @ motion.angular


class Kinematics(NamedTuple):
    """In each chain's frame. Per degree of freedom: S, 2Ψ̇ = 2v_parent × S, and Ψ̇ + Ṡ with Ṡ = v × S, which is 2Ψ̇ for
    a joint of one. Per link: pose, 2v, v/2, base acceleration, and the bodies. prefix: how sums run along chains."""

    prefix: bool
    poses: Poses
    axis: list[Motion]
    double_psi_dot: list[Motion]
    psi_dot_and_s_dot: list[Motion]
    double_velocity: list[Motion]
    half_velocity: list[Motion]
    base_acceleration: list[Motion]
    inertia: list[Inertia]
    coriolis: list[Coriolis]


def _kinematics(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], frame: Frame, prefix: bool) -> Kinematics:
    where: Poses = poses(tree, q, frame, prefix=prefix)
    result = Kinematics(prefix, where, [], [], [], [], [], [], [], [])
    rates: list[Motion] = []  # 2 S q̇
    for i in tree.links:
        with scope("kin", f"link{i}"):
            rate = ZERO_MOTION
            for d in tree.dofs[i]:
                axis = tree.axis_at(d, where.rotation[i], where.position[i])
                label(axis.linear, "s")
                rate = rate + axis.scaled(2.0 * qd[d])
                result.axis.append(axis)
            rates.append(rate)
    result.double_velocity.extend(along_links(tree, rates, "kin", prefix=prefix))
    for i in tree.links:
        with scope("kin", f"link{i}"):
            p, velocity = tree.parents[i], result.double_velocity[i]
            parent_velocity = result.double_velocity[p] if p >= 0 else ZERO_MOTION
            label(velocity.angular, "w2")
            label(velocity.linear, "v2")
            inertia = _inertia_at(tree.inertias[i], where.rotation[i], where.position[i])
            for d in tree.dofs[i]:
                result.double_psi_dot.append(parent_velocity.cross(result.axis[d]))
            result.half_velocity.append(velocity.scaled(0.25))
            for d in tree.dofs[i]:
                one = len(tree.dofs[i]) == 1
                mean = (parent_velocity + velocity).scaled(0.5)
                result.psi_dot_and_s_dot.append(result.double_psi_dot[d] if one else mean.cross(result.axis[d]))
            result.base_acceleration.append(Motion(zeros(3), where.base[i] @ tree.base_acceleration))
            result.inertia.append(inertia)
            result.coriolis.append(_coriolis(inertia, velocity))
    return result


def _inertia_at(inertia: Inertia, rotation: Array, position: Array) -> Inertia:
    """The body's inertia about the expression frame's origin: Σ = R Σ Rᵀ + p h₀ᵀ + h pᵀ with h = h₀ + m p."""
    mass, first, second = inertia
    turned = rotate_symmetric(rotation, second)
    h0 = rotation @ first
    h = label(h0 + position * mass, "h")
    moved = symmetric(lambda a, b: turned[a, b] + position[a] * h0[b] + h[a] * position[b])
    return Inertia(mass, h, label(moved, "sigma"))


def _coriolis(inertia: Inertia, double_velocity: Motion) -> Coriolis:
    mass, h, sigma = inertia
    w, v = double_velocity
    a = skew(w) @ sigma
    hv = h @ v
    for r in range(3):
        for c in range(3):
            a[r, c] = a[r, c] + v[r] * h[c]
        a[r, r] = a[r, r] - hv
    return Coriolis(label(a, "a"), label(v * mass - cross(h, w), "l"))


def _composite(tree: Tree, kin: Kinematics, values: list) -> list:
    """Sums over the subtree of each link."""
    return over_subtrees(tree, values, "sum", prefix=kin.prefix)


def _accelerations(tree: Tree, kin: Kinematics, qd: Sequence[Scalar], qdd: Sequence[Scalar] | None) -> list[Motion]:
    """a = a_parent + S q̈ + Ψ̇ q̇, the base accelerating against gravity. qdd None: the bias, with q̈ = 0."""
    added: list[Motion] = []
    for i in tree.links:
        with scope("acc", f"link{i}"):
            a = kin.base_acceleration[i] if tree.parents[i] < 0 else ZERO_MOTION
            for d in tree.dofs[i]:
                if qdd is not None:
                    a = a + kin.axis[d].scaled(qdd[d])
                a = a + kin.double_psi_dot[d].scaled(0.5 * qd[d])
            added.append(a)
    result: list[Motion] = along_links(tree, added, "acc", prefix=kin.prefix)
    for i in tree.links:
        with scope("acc", f"link{i}"):
            label(result[i].angular, "wd")
            label(result[i].linear, "vd")
    return result


def _net_forces(tree: Tree, kin: Kinematics, accelerations: list[Motion], external: Array | None) -> list[Force]:
    """I a + v ×* I v of each body, less what acts on it from outside; v ×* I v = B v = 2B (v/2).

    An external force is fixed in its link, so it turns with the link's joint and all above: in the gradient it enters
    through the composite force alone."""
    result = []
    for i in tree.links:
        with scope("force", f"link{i}"):
            net = kin.inertia[i] @ accelerations[i] + kin.coriolis[i] @ kin.half_velocity[i].angular
            if external is not None:
                rotation, position = kin.poses.rotation[i], kin.poses.position[i]
                moment, force = tree.external_force(i, external)
                turned = rotation @ force
                net = net - Force(rotation @ moment + cross(position, turned), turned)
            result.append(net)
    return result


def _torques(tree: Tree, kin: Kinematics, composite_force: list[Force], qd: Sequence[Scalar]) -> list[Scalar]:
    dofs = range(tree.nv)
    return [kin.axis[d].dot(composite_force[tree.link_of[d]]) + tree.damping[d] * qd[d] for d in dofs]


def _inverse_dynamics_gradient(
    tree: Tree, kin: Kinematics, accelerations: list[Motion], composite_force: list[Force]
) -> tuple[Array, Array]:
    """∂τ/∂q and ∂τ/∂q̇ (nv, nv) (Singh, Russell & Wensing 2022, eqs. 33-38)."""
    composite_inertia: list[Inertia] = _composite(tree, kin, kin.inertia)
    composite_coriolis: list[Coriolis] = _composite(tree, kin, kin.coriolis)
    psi_ddot: list[Motion] = []
    for d, i in enumerate(tree.link_of):
        with scope("grad", f"link{i}"):
            p = tree.parents[i]
            parent_acceleration = accelerations[p] if p >= 0 else kin.base_acceleration[i]
            half_velocity = kin.half_velocity[p] if p >= 0 else ZERO_MOTION
            # Ψ̈ = a × S + v × Ψ̇, of the parent's a and v
            psi_ddot.append(parent_acceleration.cross(kin.axis[d]) + half_velocity.cross(kin.double_psi_dot[d]))
    psi_dot = [motion.angular * 0.5 for motion in kin.double_psi_dot]  # angular part
    by_q, by_qd = zeros(tree.nv, tree.nv), zeros(tree.nv, tree.nv)
    for d, i in enumerate(tree.link_of):
        with scope("grad", *tree.where(d)):
            inertia, coriolis, axis = composite_inertia[i], composite_coriolis[i], kin.axis[d]
            row_inertia = inertia @ axis  # Sᵀ I, I being symmetric
            row_coriolis = coriolis.row(axis)  # Sᵀ 2B
            column_q = coriolis @ psi_dot[d] + inertia @ psi_ddot[d] + axis.cross_force(composite_force[i])
            column_qd = coriolis @ axis.angular + inertia @ kin.psi_dot_and_s_dot[d]
            for e in tree.support[i]:
                by_q[d, e] = row_coriolis @ psi_dot[e] + psi_ddot[e].dot(row_inertia)
                by_qd[d, e] = row_coriolis @ kin.axis[e].angular + kin.psi_dot_and_s_dot[e].dot(row_inertia)
                if e not in tree.dofs[i]:
                    by_q[e, d] = label(kin.axis[e].dot(column_q), f"up_q_{e}")
                    by_qd[e, d] = label(kin.axis[e].dot(column_qd), f"up_qd_{e}")
                label(by_q[d, e], f"q_{e}")
                label(by_qd[d, e], f"qd_{e}")
            by_qd[d, d] = by_qd[d, d] + tree.damping[d]
    return by_q, by_qd


def _times_minus(minv: Array, matrix: Array, name: str) -> Array:
    """-M⁻¹ X."""
    with scope(name):
        return label(-(minv @ matrix), "d")


def inverse_dynamics_gradient(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    frame: Frame = "middle",
    prefix: bool = False,
    external: Array | None = None,
) -> tuple[Array, Array]:
    """∂τ/∂q in N m/rad and ∂τ/∂q̇ in N m s/rad, each (nv, nv), row = torque."""
    kin = _kinematics(tree, q, qd, frame, prefix)
    accelerations = _accelerations(tree, kin, qd, qdd)
    composite_force = _composite(tree, kin, _net_forces(tree, kin, accelerations, external))
    return _inverse_dynamics_gradient(tree, kin, accelerations, composite_force)


def solved_for_acceleration(minv: Array, by_q: Array, by_qd: Array) -> tuple[Array, Array]:
    """∂q̈/∂q and ∂q̈/∂q̇ at fixed τ: -M⁻¹ times the gradient of inverse dynamics at q̈ (Carpentier & Mansard, eq. 3)."""
    return _times_minus(minv, by_q, "dqdd_dq"), _times_minus(minv, by_qd, "dqdd_dqd")


def forward_dynamics_gradient_given_minv(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    minv: Array,
    frame: Frame = "middle",
    prefix: bool = False,
    external: Array | None = None,
) -> tuple[Array, Array]:
    """∂q̈/∂q and ∂q̈/∂q̇ (nv, nv) at fixed τ, with q̈ and M⁻¹ from elsewhere."""
    return solved_for_acceleration(minv, *inverse_dynamics_gradient(tree, q, qd, qdd, frame, prefix, external))


def _mass_matrix_of(tree: Tree, kin: Kinematics) -> Array:
    """M from the gradient's own composite inertias: M_ij = S_jᵀ I_i S_i."""
    composite: list[Inertia] = _composite(tree, kin, kin.inertia)
    m = zeros(tree.nv, tree.nv)
    for d, i in enumerate(tree.link_of):
        with scope("mass", *tree.where(d)):
            force = composite[i] @ kin.axis[d]
            for e in tree.chain[d]:
                m[d, e] = m[e, d] = label(kin.axis[e].dot(force), f"m_{e}")
            m[d, d] = m[d, d] + tree.armature[d]
    return m


def forward_dynamics_gradient(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    frame: Frame = "middle",
    prefix: bool = False,
    mass: str = "body",
    external: Array | None = None,
) -> tuple[list[Scalar], Array, Array, Array]:
    """q̈ (nv,), ∂q̈/∂q, ∂q̈/∂q̇ and M⁻¹ = ∂q̈/∂τ (nv, nv), from torques alone.

    The bias torque comes from the gradient's own pass with q̈ = 0; q̈ then adds I S q̈ along the chain, so nothing of
    the velocity-dependent part is done twice.
    mass: where M comes from: "body" frames, where it is ready early and its numbers are smallest, or "shared" with
    the gradient's composite inertias, which takes fewer operations. Raises ValueError for anything else.
    """
    if mass not in ("body", "shared"):
        raise ValueError(f"mass '{mass}'; expected 'body' or 'shared'")
    kin = _kinematics(tree, q, qd, frame, prefix)
    bias_accelerations = _accelerations(tree, kin, qd, None)
    bias_forces = _net_forces(tree, kin, bias_accelerations, external)
    composite_bias: list[Force] = _composite(tree, kin, bias_forces)
    bias = _torques(tree, kin, composite_bias, qd)
    m = mass_matrix(tree, q) if mass == "body" else _mass_matrix_of(tree, kin)
    minv = inverse_from_factor(tree, factorise(tree, m))
    with scope("fd"):
        load = [label(t - b, f"load_{i}") for i, (t, b) in enumerate(zip(tau, bias, strict=True))]
        qdd = [label(minv[i] @ load, f"qdd_{i}") for i in range(tree.nv)]
    rates: list[Motion] = []
    for i in tree.links:
        with scope("acc", f"link{i}"):
            scaled = [kin.axis[d].scaled(qdd[d]) for d in tree.dofs[i]]
            rates.append(sum(scaled[1:], scaled[0]))
    added = along_links(tree, rates, "acc", prefix=prefix)  # what q̈ adds
    accelerations = [a + b for a, b in zip(bias_accelerations, added, strict=True)]
    added_forces = []
    for i in tree.links:
        with scope("force", f"link{i}"):
            added_forces.append(kin.inertia[i] @ added[i])
    composite_added: list[Force] = _composite(tree, kin, added_forces)
    composite_force = [a + b for a, b in zip(composite_bias, composite_added, strict=True)]
    by_q, by_qd = _inverse_dynamics_gradient(tree, kin, accelerations, composite_force)
    return qdd, *solved_for_acceleration(minv, by_q, by_qd), minv
