"""Derivatives of inverse and forward dynamics in closed form.

Carpentier & Mansard, "Analytical derivatives of rigid body dynamics algorithms" (2018), in the compact form of
Singh, Russell & Wensing, "Efficient analytical derivatives of rigid-body dynamics using spatial vector algebra"
(2022, eqs. 33-38). All spatial vectors of a chain are in one expression frame (`frames`).

The formulas hold 2B(v) and 2Ψ̇, and B is linear in v: velocities are carried doubled, which leaves few factors of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.base.naming import label, scope
from dynagate.dynamics.factor import factorize, inverse_from_factor
from dynagate.dynamics.gradients.count_multiplications import Products, Varying
from dynagate.dynamics.recursions.crba import mass_matrix
from dynagate.dynamics.recursions.poses import Frame, Poses, poses, reference_links
from dynagate.dynamics.recursions.prefix import along_links, over_subtrees
from dynagate.dynamics.reduction import Body, Dipole
from dynagate.dynamics.spatial import (
    ZERO_MOTION,
    Array,
    Inertia,
    Scalar,
    SpatialForce,
    SpatialMotion,
    array,
    cross,
    is_zero,
    rotate_symmetric,
    skew,
    symmetric,
    zeros,
)
from dynagate.dynamics.tree import Tree


class Coriolis(NamedTuple):
    """The body's 2B(I, v) = (v×*) I - I (v×) + (I v)×̄*, of which only the first three columns are not zero:
    2B m = (-A ω, ω × l) for a motion m with angular part ω; A = [ω₂]× Σ + v₂ hᵀ - (h·v₂) 1 and l = m v₂ - h × ω₂, with
    (ω₂, v₂) = 2v."""

    a: Array
    momentum: Array

    def __add__(self, other: Coriolis) -> Coriolis:  # type: ignore[override]
        return Coriolis(self.a + other.a, self.momentum + other.momentum)

    def __matmul__(self, angular: Array) -> SpatialForce:
        """2B m, which depends only on m's angular part."""
        return SpatialForce(-(self.a @ angular), cross(angular, self.momentum))

    def row(self, motion: SpatialMotion) -> Array:
        """mᵀ 2B, its three columns that are not zero."""
        return cross(self.momentum, motion.linear) - self.a.T @ motion.angular


class Kinematics(NamedTuple):
    """In each chain's frame. Per degree of freedom: S, 2Ψ̇ = 2v_parent × S, and Ψ̇ + Ṡ with Ṡ = v × S, which is 2Ψ̇ for
    a joint of one. Per link: pose, 2v, v/2, base acceleration, and the bodies. prefix: how sums run along chains."""

    prefix: bool
    poses: Poses
    axis: list[SpatialMotion]
    double_psi_dot: list[SpatialMotion]
    psi_dot_and_s_dot: list[SpatialMotion]
    double_velocity: list[SpatialMotion]
    half_velocity: list[SpatialMotion]
    base_acceleration: list[SpatialMotion]
    inertia: list[Inertia]
    coriolis: list[Coriolis]


def in_one_frame(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], frame: Frame, prefix: bool) -> Kinematics:
    frame = sparsest(tree) if frame == "sparsest" else frame
    where: Poses = poses(tree, q, frame, prefix=prefix)
    result = Kinematics(prefix, where, [], [], [], [], [], [], [], [])
    bodies = _bodies(tree, frame)
    rates: list[SpatialMotion] = []  # 2 S q̇
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
            inertia = _inertia_at(bodies[i], where.rotation[i], where.position[i])
            for d in tree.dofs[i]:
                result.double_psi_dot.append(parent_velocity.cross(result.axis[d]))
            result.half_velocity.append(velocity.scaled(0.25))
            for d in tree.dofs[i]:
                one = len(tree.dofs[i]) == 1
                mean = (parent_velocity + velocity).scaled(0.5)
                result.psi_dot_and_s_dot.append(result.double_psi_dot[d] if one else mean.cross(result.axis[d]))
            result.base_acceleration.append(SpatialMotion(zeros(3), where.base[i] @ tree.base_acceleration))
            result.inertia.append(inertia)
            result.coriolis.append(_coriolis(inertia, velocity))
    return result


def _bodies(tree: Tree, frame: Frame) -> list[Body]:
    """The links as inertias or dipoles, whichever takes fewer products to see from the chain's frame."""
    nominal = tree.numeric
    where = poses(nominal, Products().inputs(tree.nq), frame)

    def products(body: Body, i: int) -> int:
        count = Products()
        rotation, position = (
            np.vectorize(lambda x: Varying(x.value, count) if isinstance(x, Varying) else x, otypes=[object])(value)
            for value in (where.rotation[i], where.position[i])
        )
        inertia = _inertia_at(body, rotation, position)
        velocity, acceleration = (SpatialMotion(array(count.inputs(3)), array(count.inputs(3))) for _ in range(2))
        _coriolis(inertia, velocity)
        inertia @ acceleration
        return len(count)

    dipoles = nominal.bodies([True] * len(tree.links))
    return tree.bodies([products(dipoles[i], i) < products(nominal.inertias[i], i) for i in tree.links])


def _inertia_at(body: Body, rotation: Array, position: Array) -> Inertia:
    """The body's inertia about the expression frame's origin: Σ = R Σ Rᵀ + p h₀ᵀ + h pᵀ with h = h₀ + m p."""
    if isinstance(body, Dipole):
        point = label(position + rotation @ body.point, "p_dipole")
        h = label(rotation @ body.first, "h")
        seen = symmetric(lambda a, b: point[a] * h[b] + h[a] * point[b])
        return Inertia(0.0, h, label(seen + body.spread * array(np.eye(3)), "sigma"))
    mass, first, second = body
    turned = rotate_symmetric(rotation, second)
    h0 = rotation @ first
    h = label(h0 + position * mass, "h")
    moved = symmetric(lambda a, b: turned[a, b] + position[a] * h0[b] + h[a] * position[b])
    return Inertia(mass, h, label(moved, "sigma"))


def _coriolis(inertia: Inertia, double_velocity: SpatialMotion) -> Coriolis:
    mass, h, sigma = inertia
    w, v = double_velocity
    a = skew(w) @ sigma
    hv = h @ v
    for r in range(3):
        for c in range(3):
            a[r, c] = a[r, c] + v[r] * h[c]
        a[r, r] = a[r, r] - hv
    return Coriolis(label(a, "a"), label(v * mass - cross(h, w), "l"))


def composite(tree: Tree, kin: Kinematics, values: list) -> list:
    """Sums over the subtree of each link."""
    return over_subtrees(tree, values, "sum", prefix=kin.prefix)


def link_accelerations(tree: Tree, kin: Kinematics, qd: Sequence[Scalar], qdd: Sequence[Scalar]) -> list[SpatialMotion]:
    """a = a_parent + S q̈ + Ψ̇ q̇, the base accelerating against gravity."""
    added: list[SpatialMotion] = []
    for i in tree.links:
        with scope("acc", f"link{i}"):
            a = kin.base_acceleration[i] if tree.parents[i] < 0 else ZERO_MOTION
            for d in tree.dofs[i]:
                a = a + kin.axis[d].scaled(qdd[d])
                a = a + kin.double_psi_dot[d].scaled(0.5 * qd[d])
            added.append(a)
    result: list[SpatialMotion] = along_links(tree, added, "acc", prefix=kin.prefix)
    for i in tree.links:
        with scope("acc", f"link{i}"):
            label(result[i].angular, "wd")
            label(result[i].linear, "vd")
    return result


def net_forces(
    tree: Tree, kin: Kinematics, accelerations: list[SpatialMotion], external: Array | None
) -> list[SpatialForce]:
    """I a + v ×* I v of each body, less what acts on it from outside; v ×* I v = B v = 2B (v/2).

    An external force is fixed in its link, so it turns with the link's joint and all above: in the gradient it enters
    only through the composite force."""
    result = []
    pushed = None if external is None else _external_forces(tree, kin, external)
    for i in tree.links:
        with scope("force", f"link{i}"):
            net = kin.inertia[i] @ accelerations[i] + kin.coriolis[i] @ kin.half_velocity[i].angular
            result.append(net if pushed is None else net - pushed[i])
    return result


def _external_forces(tree: Tree, kin: Kinematics, external: Array) -> list[SpatialForce]:
    """The external forces on the links, seen from the chain's frame."""
    result = []
    for i in tree.links:
        with scope("force", f"link{i}"):
            rotation, position = kin.poses.rotation[i], kin.poses.position[i]
            moment, force = tree.external_force(i, external)
            turned = rotation @ force
            result.append(SpatialForce(rotation @ moment + cross(position, turned), turned))
    return result


class Composites(NamedTuple):
    """Sums over the subtree of each link, itself included.

    inertia, coriolis: inertia and 2B. Per degree of freedom: momentum I S, of which SᵀI is the transpose; row Sᵀ 2B;
    and column_is_complete, whether the torques of the joints above need all of a force that S needs, so that the
    joint's own derivative takes one more product of vectors.
    """

    inertia: list[Inertia]
    coriolis: list[Coriolis]
    momentum: list[SpatialForce]
    row: list[Array]
    column_is_complete: list[bool]


def composites(tree: Tree, kin: Kinematics) -> Composites:
    result = Composites(composite(tree, kin, kin.inertia), composite(tree, kin, kin.coriolis), [], [], [])
    parts = [[k for k, x in enumerate((*s.angular, *s.linear)) if not is_zero(x)] for s in kin.axis]
    for d, i in enumerate(tree.link_of):
        with scope("grad", *tree.where(d)):
            result.momentum.append(result.inertia[i] @ kin.axis[d])
            result.row.append(result.coriolis[i].row(kin.axis[d]))
        above = {k for e in tree.chain[d][:-1] for k in parts[e]}
        result.column_is_complete.append(len(tree.dofs[i]) == 1 and above.issuperset(parts[d]))
    return result


def by_velocity(tree: Tree, kin: Kinematics, moved: Composites) -> Array:
    """∂τ/∂q̇ (nv, nv) without what damping and friction add (Singh, Russell & Wensing 2022, eqs. 33-38). It does not
    depend on q̈."""
    by_qd = zeros(tree.nv, tree.nv)
    for d, i in enumerate(tree.link_of):
        with scope("grad", *tree.where(d)):
            change = kin.psi_dot_and_s_dot
            column = moved.coriolis[i] @ kin.axis[d].angular + moved.inertia[i] @ change[d]
            for e in tree.support[i]:
                by_qd[d, e] = moved.row[d] @ kin.axis[e].angular + change[e].dot(moved.momentum[d])
                if e not in tree.dofs[i]:
                    by_qd[e, d] = label(kin.axis[e].dot(column), f"up_qd_{e}")
                elif moved.column_is_complete[d]:
                    by_qd[d, d] = kin.axis[d].dot(column)
                label(by_qd[d, e], f"qd_{e}")
    return by_qd


def by_position(
    tree: Tree,
    kin: Kinematics,
    moved: Composites,
    accelerations: list[SpatialMotion],
    composite_force: list[SpatialForce],
) -> Array:
    """∂τ/∂q (nv, nv) (as above)."""
    psi_ddot: list[SpatialMotion] = []
    for d, i in enumerate(tree.link_of):
        with scope("grad", f"link{i}"):
            p = tree.parents[i]
            parent_acceleration = accelerations[p] if p >= 0 else kin.base_acceleration[i]
            half_velocity = kin.half_velocity[p] if p >= 0 else ZERO_MOTION
            # Ψ̈ = a × S + v × Ψ̇, of the parent's a and v
            psi_ddot.append(parent_acceleration.cross(kin.axis[d]) + half_velocity.cross(kin.double_psi_dot[d]))
    psi_dot = [motion.angular * 0.5 for motion in kin.double_psi_dot]  # angular part
    by_q = zeros(tree.nv, tree.nv)
    for d, i in enumerate(tree.link_of):
        with scope("grad", *tree.where(d)):
            pushed = kin.axis[d].cross_force(composite_force[i])
            column = moved.coriolis[i] @ psi_dot[d] + moved.inertia[i] @ psi_ddot[d] + pushed
            for e in tree.support[i]:
                by_q[d, e] = moved.row[d] @ psi_dot[e] + psi_ddot[e].dot(moved.momentum[d])
                if e not in tree.dofs[i]:
                    by_q[e, d] = label(kin.axis[e].dot(column), f"up_q_{e}")
                elif moved.column_is_complete[d]:
                    by_q[d, d] = kin.axis[d].dot(column)
                label(by_q[d, e], f"q_{e}")
    return by_q


def times_minus(minv: Array, matrix: Array, name: str) -> Array:
    """-M⁻¹ X."""
    with scope(name):
        return label(-(minv @ matrix), "d")


def inverse_dynamics_gradient(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    frame: Frame = "sparsest",
    prefix: bool = False,
    external: Array | None = None,
) -> tuple[Array, Array]:
    """∂τ/∂q in N m/rad and ∂τ/∂q̇ in N m s/rad, each (nv, nv), row = torque."""
    kin = in_one_frame(tree, q, qd, frame, prefix)
    moved = composites(tree, kin)
    accelerations = link_accelerations(tree, kin, qd, qdd)
    composite_force = composite(tree, kin, net_forces(tree, kin, accelerations, external))
    by_q = by_position(tree, kin, moved, accelerations, composite_force)
    return by_q, tree.damped(by_velocity(tree, kin, moved), qd)


CANDIDATES = 5
"""Frames that `sparsest` tries per chain: all of the shorter chains to a third of the way, where the best one lies."""

NOTEWORTHY = 0.01
"""Part of the products that another frame than the middle one must save."""


def sparsest(tree: Tree) -> dict[int, int]:
    """First link of each chain -> the link in whose frame the gradient takes the fewest products, by their count at a
    random state: the middle one, or one nearer to the base where that saves some."""
    tree = tree.numeric
    result = reference_links(tree, "middle")
    for first, middle in result.items():
        nearer = tree.ancestors[middle][:-1] if middle >= 0 else []
        if not nearer:
            continue
        counts = {link: _products(tree, {first: link}) for link in [middle, *nearer[: CANDIDATES - 1]]}
        best = min(counts, key=lambda link: counts[link])
        if counts[best] < (1.0 - NOTEWORTHY) * counts[middle]:
            result[first] = best
    return result


def _products(tree: Tree, frame: Frame) -> int:
    count = Products()
    q, qd, qdd = (count.inputs(n) for n in (tree.nq, tree.nv, tree.nv))
    inverse_dynamics_gradient(tree, q, qd, qdd, frame)
    return len(count)


def solved_for_acceleration(minv: Array, by_q: Array, by_qd: Array) -> tuple[Array, Array]:
    """∂q̈/∂q and ∂q̈/∂q̇ at fixed τ: -M⁻¹ times the gradient of inverse dynamics at q̈ (Carpentier & Mansard, eq. 3)."""
    return times_minus(minv, by_q, "dqdd_dq"), times_minus(minv, by_qd, "dqdd_dqd")


def forward_dynamics_gradient_given_minv(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    minv: Array,
    frame: Frame = "sparsest",
    prefix: bool = False,
    external: Array | None = None,
) -> tuple[Array, Array]:
    """Return ∂q̈/∂q and ∂q̈/∂q̇ (nv, nv) at fixed τ for given q̈ and M⁻¹, in the robot's own coordinates."""
    mimic = tree.mimic
    motion = mimic.configuration(q), mimic.rates(qd), mimic.rates(qdd)
    by_q, by_qd = inverse_dynamics_gradient(tree, *motion, frame, prefix, external)
    return solved_for_acceleration(minv, mimic.matrix(by_q), mimic.matrix(by_qd))


def _mass_matrix_of(tree: Tree, kin: Kinematics, moved: Composites) -> Array:
    """M from the gradient's own composite inertias: M_ij = S_jᵀ I_i S_i."""
    m = zeros(tree.nv, tree.nv)
    for d in range(tree.nv):
        with scope("mass", *tree.where(d)):
            for e in tree.chain[d]:
                m[d, e] = m[e, d] = label(kin.axis[e].dot(moved.momentum[d]), f"m_{e}")
            m[d, d] = m[d, d] + tree.armature[d]
    return m


def bias_torques(
    tree: Tree, kin: Kinematics, moved: Composites, by_qd: Array, qd: Sequence[Scalar], external: Array | None
) -> list[Scalar]:
    """τ (nv,) at q̈ = 0. What depends on q̇ is of second degree in it, so it is ½ ∂τ/∂q̇ q̇; against gravity the whole
    tree accelerates as one."""
    pushed = None if external is None else composite(tree, kin, _external_forces(tree, kin, external))
    result = []
    for d, i in enumerate(tree.link_of):
        with scope("fd", *tree.where(d)):
            bias = (by_qd[d] @ array(qd)) * 0.5 + moved.momentum[d].linear @ kin.base_acceleration[i].linear
            if pushed is not None:
                bias = bias - kin.axis[d].dot(pushed[i])
            result.append(bias + tree.resistance(d, qd))
    return result


def check_mass(mass: str) -> None:
    """Raises ValueError: this is no place where M comes from."""
    if mass not in ("body", "shared"):
        raise ArgumentError(f"mass '{mass}'; expected 'body' or 'shared'")


def forward_dynamics_gradient(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    frame: Frame = "sparsest",
    prefix: bool = False,
    mass: str = "body",
    external: Array | None = None,
) -> tuple[list[Scalar], Array, Array, Array]:
    """q̈ (nv,), ∂q̈/∂q, ∂q̈/∂q̇ and M⁻¹ = ∂q̈/∂τ (nv, nv), from torques only.

    The bias torque comes from ∂τ/∂q̇, which does not depend on q̈, so accelerations and forces are computed once.
    mass: where M comes from: "body" frames, where it is ready early and its numbers are smallest, or "shared" with
    the gradient's composite inertias, which takes fewer operations. Raises ValueError for anything else.
    All is in the robot's own coordinates.
    """
    check_mass(mass)
    mimic = tree.mimic
    q, qd = mimic.configuration(q), mimic.rates(qd)
    # first, so that of equal numbers the ones in body frames stay: the pivots of M are the longest way
    early = mass_matrix(tree, q) if mass == "body" else None
    kin = in_one_frame(tree, q, qd, frame, prefix)
    moved = composites(tree, kin)
    by_qd = by_velocity(tree, kin, moved)
    bias = mimic.torques(bias_torques(tree, kin, moved, by_qd, qd, external))
    m = _mass_matrix_of(tree, kin, moved) if early is None else early
    minv = inverse_from_factor(mimic, factorize(mimic, mimic.symmetric(m)))
    with scope("fd"):
        load = [label(t - b, f"load_{i}") for i, (t, b) in enumerate(zip(tau, bias, strict=True))]
        qdd = [label(row @ load, f"qdd_{i}") for i, row in enumerate(minv)]
    accelerations = link_accelerations(tree, kin, qd, mimic.rates(qdd))
    composite_force = composite(tree, kin, net_forces(tree, kin, accelerations, external))
    by_q = by_position(tree, kin, moved, accelerations, composite_force)
    by_q, by_qd = mimic.matrix(by_q), mimic.matrix(tree.damped(by_qd, qd))
    return qdd, *solved_for_acceleration(minv, by_q, by_qd), minv
