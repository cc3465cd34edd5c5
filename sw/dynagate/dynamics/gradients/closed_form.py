"""Derivatives of inverse and forward dynamics in closed form.

All spatial vectors of a chain are expressed in one frame (`recursions.poses`), so derivatives are products of sums over
subtrees. B(v) is linear in v, and the formulas contain 2B(v) and 2Ψ̇. Therefore velocities are carried doubled, which
leaves few factors of two.

Reference:
    Singh, Russell & Wensing, "Efficient analytical derivatives of rigid-body dynamics using spatial vector algebra",
    2022, eqs. 33-38, after Carpentier & Mansard, "Analytical derivatives of rigid body dynamics algorithms", 2018.
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
    """The Coriolis matrix 2B(I, v) = (v×*) I - I (v×) + (I v)×̄* of a body, stored by its nonzero first three columns.

    For a motion with angular part ω, 2B m = (-A ω, ω × l) with A = [ω₂]× Σ + v₂ hᵀ - (h·v₂) 1 and l = m v₂ - h × ω₂,
    where (ω₂, v₂) = 2v.
    """

    a: Array
    """A (3, 3)."""
    momentum: Array
    """l (3,), twice the linear momentum of the body."""

    def __add__(self, other: Coriolis) -> Coriolis:  # type: ignore[override]
        return Coriolis(self.a + other.a, self.momentum + other.momentum)

    def __matmul__(self, angular: Array) -> SpatialForce:
        """Return 2B m, which depends only on the angular part (3,) of the motion m."""
        return SpatialForce(-(self.a @ angular), cross(angular, self.momentum))

    def row(self, motion: SpatialMotion) -> Array:
        """Return the three nonzero entries of mᵀ 2B for a motion m."""
        return cross(self.momentum, motion.linear) - self.a.T @ motion.angular


class Kinematics(NamedTuple):
    """Motion of the robot, with the spatial vectors of each chain in its expression frame.

    The fields `axis`, `double_psi_dot` and `psi_dot_and_s_dot` have an entry per degree of freedom; the other lists
    have an entry per link.
    """

    prefix: bool
    """Whether sums along chains are prefix computations."""
    poses: Poses
    """Pose of each link in its chain's frame."""
    axis: list[SpatialMotion]
    """Column S of the motion subspace."""
    double_psi_dot: list[SpatialMotion]
    """2Ψ̇ = 2 v_parent × S."""
    psi_dot_and_s_dot: list[SpatialMotion]
    """Ψ̇ + Ṡ with Ṡ = v × S. It equals 2Ψ̇ for a joint with one degree of freedom."""
    double_velocity: list[SpatialMotion]
    """2v."""
    half_velocity: list[SpatialMotion]
    """v/2."""
    base_acceleration: list[SpatialMotion]
    """Acceleration of the base against gravity."""
    inertia: list[Inertia]
    """Inertia about the origin of the chain's frame."""
    coriolis: list[Coriolis]
    """Coriolis matrix 2B."""


def kinematics_in_one_frame(
    tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], frame: Frame, prefix: bool
) -> Kinematics:
    """Return the motion of a robot with each chain's vectors in one frame.

    Args:
        tree: The robot.
        q: Configuration (nq,) of all joints, rad or m.
        qd: Velocities (nv,), rad/s or m/s.
        frame: Expression frame of each chain.
        prefix: Whether sums along chains are prefix computations.
    """
    frame = sparsest(tree) if frame == "sparsest" else frame
    link_poses: Poses = poses(tree, q, frame, prefix=prefix)
    result = Kinematics(prefix, link_poses, [], [], [], [], [], [], [], [])
    bodies = _bodies(tree, frame)
    rates: list[SpatialMotion] = []  # 2 S q̇
    for i in tree.links:
        with scope("kin", f"link{i}"):
            rate = ZERO_MOTION
            for d in tree.dofs[i]:
                axis = tree.axis_at(d, link_poses.rotation[i], link_poses.position[i])
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
            inertia = _inertia_at(bodies[i], link_poses.rotation[i], link_poses.position[i])
            for d in tree.dofs[i]:
                result.double_psi_dot.append(parent_velocity.cross(result.axis[d]))
            result.half_velocity.append(velocity.scaled(0.25))
            for d in tree.dofs[i]:
                is_single = len(tree.dofs[i]) == 1
                mean = (parent_velocity + velocity).scaled(0.5)
                result.psi_dot_and_s_dot.append(result.double_psi_dot[d] if is_single else mean.cross(result.axis[d]))
            result.base_acceleration.append(SpatialMotion(zeros(3), link_poses.base[i] @ tree.base_acceleration))
            result.inertia.append(inertia)
            result.coriolis.append(_coriolis(inertia, velocity))
    return result


def _bodies(tree: Tree, frame: Frame) -> list[Body]:
    """Return each link's body as an inertia or as a dipole, whichever needs fewer products in the chain's frame."""
    nominal = tree.numeric
    link_poses = poses(nominal, Products().inputs(tree.nq), frame)

    def products(body: Body, i: int) -> int:
        count = Products()
        rotation, position = (
            np.vectorize(lambda x: Varying(x.value, count) if isinstance(x, Varying) else x, otypes=[object])(value)
            for value in (link_poses.rotation[i], link_poses.position[i])
        )
        inertia = _inertia_at(body, rotation, position)
        velocity, acceleration = (SpatialMotion(array(count.inputs(3)), array(count.inputs(3))) for _ in range(2))
        _coriolis(inertia, velocity)
        inertia @ acceleration
        return len(count)

    dipoles = nominal.bodies([True] * len(tree.links))
    return tree.bodies([products(dipoles[i], i) < products(nominal.inertias[i], i) for i in tree.links])


def _inertia_at(body: Body, rotation: Array, position: Array) -> Inertia:
    """Return a body's inertia about the origin of the expression frame: Σ = R Σ Rᵀ + p h₀ᵀ + h pᵀ with h = h₀ + m p."""
    if isinstance(body, Dipole):
        point = label(position + rotation @ body.point, "p_dipole")
        h = label(rotation @ body.first, "h")
        dipole_moment = symmetric(lambda a, b: point[a] * h[b] + h[a] * point[b])
        return Inertia(0.0, h, label(dipole_moment + body.spread * array(np.eye(3)), "sigma"))
    mass, first, second = body
    rotated = rotate_symmetric(rotation, second)
    h0 = rotation @ first
    h = label(h0 + position * mass, "h")
    second_at_origin = symmetric(lambda a, b: rotated[a, b] + position[a] * h0[b] + h[a] * position[b])
    return Inertia(mass, h, label(second_at_origin, "sigma"))


def _coriolis(inertia: Inertia, double_velocity: SpatialMotion) -> Coriolis:
    """Return the Coriolis matrix of a body with the velocity v, from 2v."""
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
    """Return the sum of values over the subtree of each link."""
    return over_subtrees(tree, values, "sum", prefix=kin.prefix)


def link_accelerations(tree: Tree, kin: Kinematics, qd: Sequence[Scalar], qdd: Sequence[Scalar]) -> list[SpatialMotion]:
    """Return the acceleration a = a_parent + S q̈ + Ψ̇ q̇ of each link; the base accelerates against gravity."""
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
    """Return the net force I a + v ×* I v of each link, minus its external force; v ×* I v = B v = 2B (v/2).

    An external force is fixed in its link and moves with the link's joint and all joints above. In the gradient it
    therefore enters only through the composite force.
    """
    result = []
    external_forces = None if external is None else _external_forces(tree, kin, external)
    for i in tree.links:
        with scope("force", f"link{i}"):
            net = kin.inertia[i] @ accelerations[i] + kin.coriolis[i] @ kin.half_velocity[i].angular
            result.append(net if external_forces is None else net - external_forces[i])
    return result


def _external_forces(tree: Tree, kin: Kinematics, external: Array) -> list[SpatialForce]:
    """Return the external force on each link in the chain's frame."""
    result = []
    for i in tree.links:
        with scope("force", f"link{i}"):
            rotation, position = kin.poses.rotation[i], kin.poses.position[i]
            moment, force = tree.external_force(i, external)
            force_here = rotation @ force
            result.append(SpatialForce(rotation @ moment + cross(position, force_here), force_here))
    return result


class Composites(NamedTuple):
    """Sums over the subtree of each link, which includes the link."""

    inertia: list[Inertia]
    """Composite inertia of each link."""
    coriolis: list[Coriolis]
    """Composite 2B of each link."""
    momentum: list[SpatialForce]
    """I S of each degree of freedom, whose transpose is Sᵀ I."""
    row: list[Array]
    """Sᵀ 2B of each degree of freedom, its three nonzero entries."""
    column_is_complete: list[bool]
    """For each degree of freedom, whether joints above need every entry of its force that S needs.

        The joint's own derivative then takes one more product of vectors.
    """


def composites(tree: Tree, kin: Kinematics) -> Composites:
    """Return the sums over subtrees that both gradients share."""
    result = Composites(composite(tree, kin, kin.inertia), composite(tree, kin, kin.coriolis), [], [], [])
    parts = [[k for k, x in enumerate((*s.angular, *s.linear)) if not is_zero(x)] for s in kin.axis]
    for d, i in enumerate(tree.link_of):
        with scope("grad", *tree.where(d)):
            result.momentum.append(result.inertia[i] @ kin.axis[d])
            result.row.append(result.coriolis[i].row(kin.axis[d]))
        above = {k for e in tree.chain[d][:-1] for k in parts[e]}
        result.column_is_complete.append(len(tree.dofs[i]) == 1 and above.issuperset(parts[d]))
    return result


def torque_gradient_by_velocity(tree: Tree, kin: Kinematics, subtrees: Composites) -> Array:
    """Return ∂τ/∂q̇ (nv, nv) without damping and friction. The result does not depend on q̈.

    Reference:
        Singh, Russell & Wensing, 2022, eqs. 33-38.
    """
    dtau_dqd = zeros(tree.nv, tree.nv)
    for d, i in enumerate(tree.link_of):
        with scope("grad", *tree.where(d)):
            psi_dot_and_s_dot = kin.psi_dot_and_s_dot
            column = subtrees.coriolis[i] @ kin.axis[d].angular + subtrees.inertia[i] @ psi_dot_and_s_dot[d]
            for e in tree.support[i]:
                dtau_dqd[d, e] = subtrees.row[d] @ kin.axis[e].angular + psi_dot_and_s_dot[e].dot(subtrees.momentum[d])
                if e not in tree.dofs[i]:
                    dtau_dqd[e, d] = label(kin.axis[e].dot(column), f"up_qd_{e}")
                elif subtrees.column_is_complete[d]:
                    dtau_dqd[d, d] = kin.axis[d].dot(column)
                label(dtau_dqd[d, e], f"qd_{e}")
    return dtau_dqd


def torque_gradient_by_position(
    tree: Tree,
    kin: Kinematics,
    subtrees: Composites,
    accelerations: list[SpatialMotion],
    composite_force: list[SpatialForce],
) -> Array:
    """Return ∂τ/∂q (nv, nv) from the accelerations of links and the composite forces of their subtrees.

    Reference:
        Singh, Russell & Wensing, 2022, eqs. 33-38.
    """
    psi_ddot: list[SpatialMotion] = []
    for d, i in enumerate(tree.link_of):
        with scope("grad", f"link{i}"):
            p = tree.parents[i]
            parent_acceleration = accelerations[p] if p >= 0 else kin.base_acceleration[i]
            half_velocity = kin.half_velocity[p] if p >= 0 else ZERO_MOTION
            # Ψ̈ = a × S + v × Ψ̇ with the parent's a and v
            psi_ddot.append(parent_acceleration.cross(kin.axis[d]) + half_velocity.cross(kin.double_psi_dot[d]))
    psi_dot = [motion.angular * 0.5 for motion in kin.double_psi_dot]  # angular part
    dtau_dq = zeros(tree.nv, tree.nv)
    for d, i in enumerate(tree.link_of):
        with scope("grad", *tree.where(d)):
            rotated_force = kin.axis[d].cross_force(composite_force[i])
            column = subtrees.coriolis[i] @ psi_dot[d] + subtrees.inertia[i] @ psi_ddot[d] + rotated_force
            for e in tree.support[i]:
                dtau_dq[d, e] = subtrees.row[d] @ psi_dot[e] + psi_ddot[e].dot(subtrees.momentum[d])
                if e not in tree.dofs[i]:
                    dtau_dq[e, d] = label(kin.axis[e].dot(column), f"up_q_{e}")
                elif subtrees.column_is_complete[d]:
                    dtau_dq[d, d] = kin.axis[d].dot(column)
                label(dtau_dq[d, e], f"q_{e}")
    return dtau_dq


def negated_product(minv: Array, matrix: Array, name: str) -> Array:
    """Return -M⁻¹ X, with operations named after `name`."""
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
    """Return the gradient of inverse dynamics, ∂τ/∂q in N m/rad and ∂τ/∂q̇ in N m s/rad, each (nv, nv) with a row per
    torque.

    Args:
        tree: The robot.
        q: Configuration (nq,) of all joints, rad or m.
        qd: Velocities (nv,), rad/s or m/s.
        qdd: Accelerations (nv,), rad/s² or m/s².
        frame: Expression frame of each chain's vectors.
        prefix: Whether sums along chains are prefix computations.
        external: Forces on the links (links, 6), [moment; force] at each link's origin in its frame, N m and N.

    Reference:
        Singh, Russell & Wensing, 2022, eqs. 33-38.
    """
    kin = kinematics_in_one_frame(tree, q, qd, frame, prefix)
    subtrees = composites(tree, kin)
    accelerations = link_accelerations(tree, kin, qd, qdd)
    composite_force = composite(tree, kin, net_forces(tree, kin, accelerations, external))
    dtau_dq = torque_gradient_by_position(tree, kin, subtrees, accelerations, composite_force)
    return dtau_dq, tree.damped(torque_gradient_by_velocity(tree, kin, subtrees), qd)


MAX_CANDIDATES = 5
"""Number of frames that `sparsest` tries per chain, enough for every frame up to a third of a shorter chain."""

LEAST_SAVING = 0.01
"""Fraction of products that a frame must save to replace the middle one."""


def sparsest(tree: Tree) -> dict[int, int]:
    """Return the link in whose frame the gradient takes the fewest products, by the first link of each chain.

    Products are counted at a random state. The result is the middle link, or one nearer to the base if that saves
    products.
    """
    tree = tree.numeric
    result = reference_links(tree, "middle")
    for first, middle in result.items():
        candidates = tree.ancestors[middle][:-1] if middle >= 0 else []
        if not candidates:
            continue
        counts = {link: _product_count(tree, {first: link}) for link in [middle, *candidates[: MAX_CANDIDATES - 1]]}
        best = min(counts, key=lambda link: counts[link])
        if counts[best] < (1.0 - LEAST_SAVING) * counts[middle]:
            result[first] = best
    return result


def _product_count(tree: Tree, frame: Frame) -> int:
    """Return the number of products of the gradient in a given expression frame."""
    count = Products()
    q, qd, qdd = (count.inputs(n) for n in (tree.nq, tree.nv, tree.nv))
    inverse_dynamics_gradient(tree, q, qd, qdd, frame)
    return len(count)


def acceleration_gradient(minv: Array, dtau_dq: Array, dtau_dqd: Array) -> tuple[Array, Array]:
    """Return ∂q̈/∂q and ∂q̈/∂q̇ at fixed τ: -M⁻¹ times the gradient of inverse dynamics at q̈.

    Reference:
        Carpentier & Mansard, 2018, eq. 3.
    """
    return negated_product(minv, dtau_dq, "dqdd_dq"), negated_product(minv, dtau_dqd, "dqdd_dqd")


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
    """Return ∂q̈/∂q and ∂q̈/∂q̇ (nv, nv) at fixed τ, from known q̈ and M⁻¹, in the robot's own coordinates.

    Args:
        tree: The robot.
        q: Configuration (nq,), rad or m.
        qd: Velocities (nv,), rad/s or m/s.
        qdd: Accelerations (nv,) that forward dynamics gives, rad/s² or m/s².
        minv: M⁻¹ (nv, nv).
        frame: Expression frame of each chain's vectors.
        prefix: Whether sums along chains are prefix computations.
        external: Forces on the links (links, 6), as in `inverse_dynamics_gradient`.

    Reference:
        Carpentier & Mansard, 2018, eq. 3.
    """
    mimic = tree.mimic
    motion = mimic.configuration(q), mimic.rates(qd), mimic.rates(qdd)
    dtau_dq, dtau_dqd = inverse_dynamics_gradient(tree, *motion, frame, prefix, external)
    return acceleration_gradient(minv, mimic.matrix(dtau_dq), mimic.matrix(dtau_dqd))


def _mass_matrix_of(tree: Tree, kin: Kinematics, subtrees: Composites) -> Array:
    """Return M (nv, nv) from the gradient's composite inertias: M_ij = S_jᵀ I_i S_i."""
    m = zeros(tree.nv, tree.nv)
    for d in range(tree.nv):
        with scope("mass", *tree.where(d)):
            for e in tree.chain[d]:
                m[d, e] = m[e, d] = label(kin.axis[e].dot(subtrees.momentum[d]), f"m_{e}")
            m[d, d] = m[d, d] + tree.armature[d]
    return m


def bias_torques(
    tree: Tree, kin: Kinematics, subtrees: Composites, dtau_dqd: Array, qd: Sequence[Scalar], external: Array | None
) -> list[Scalar]:
    """Return τ (nv,) at q̈ = 0.

    Velocity products are of second degree in q̇, so they are ½ ∂τ/∂q̇ q̇. Gravity accelerates all links equally.
    """
    external_forces = None if external is None else composite(tree, kin, _external_forces(tree, kin, external))
    result = []
    for d, i in enumerate(tree.link_of):
        with scope("fd", *tree.where(d)):
            bias = (dtau_dqd[d] @ array(qd)) * 0.5 + subtrees.momentum[d].linear @ kin.base_acceleration[i].linear
            if external_forces is not None:
                bias = bias - kin.axis[d].dot(external_forces[i])
            result.append(bias + tree.resistance(d, qd))
    return result


def check_mass(mass: str) -> None:
    """Raise ArgumentError if the option `mass` is neither "body" nor "shared"."""
    if mass not in ("body", "shared"):
        raise ArgumentError(f"mass '{mass}'; expected 'body' or 'shared'", code="DG-FUNCTION-037")


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
    """Return q̈ (nv,), ∂q̈/∂q, ∂q̈/∂q̇ and M⁻¹ = ∂q̈/∂τ (nv, nv), in the robot's own coordinates.

    The bias torque follows from ∂τ/∂q̇, which does not depend on q̈, so accelerations and forces are computed once.

    Args:
        tree: The robot.
        q: Configuration (nq,), rad or m.
        qd: Velocities (nv,), rad/s or m/s.
        tau: Joint torques (nv,), N m or N.
        frame: Expression frame of each chain's vectors.
        prefix: Whether sums along chains are prefix computations.
        mass: "body" computes M in body frames, early and with the smallest numbers. "shared" uses the composite
            inertias of the gradient, with fewer operations.
        external: Forces on the links (links, 6), as in `inverse_dynamics_gradient`.

    Raises:
        ArgumentError: `mass` is neither "body" nor "shared".

    Reference:
        Carpentier & Mansard, 2018, eq. 3; Singh, Russell & Wensing, 2022, eqs. 33-38.
    """
    check_mass(mass)
    mimic = tree.mimic
    q, qd = mimic.configuration(q), mimic.rates(qd)
    # M comes first, so that equal nodes keep body frames: the pivots of M are on the critical path
    body_frame_m = mass_matrix(tree, q) if mass == "body" else None
    kin = kinematics_in_one_frame(tree, q, qd, frame, prefix)
    subtrees = composites(tree, kin)
    dtau_dqd = torque_gradient_by_velocity(tree, kin, subtrees)
    bias = mimic.torques(bias_torques(tree, kin, subtrees, dtau_dqd, qd, external))
    m = _mass_matrix_of(tree, kin, subtrees) if body_frame_m is None else body_frame_m
    minv = inverse_from_factor(mimic, factorize(mimic, mimic.symmetric(m)))
    with scope("fd"):
        load = [label(t - b, f"load_{i}") for i, (t, b) in enumerate(zip(tau, bias, strict=True))]
        qdd = [label(row @ load, f"qdd_{i}") for i, row in enumerate(minv)]
    accelerations = link_accelerations(tree, kin, qd, mimic.rates(qdd))
    composite_force = composite(tree, kin, net_forces(tree, kin, accelerations, external))
    dtau_dq = torque_gradient_by_position(tree, kin, subtrees, accelerations, composite_force)
    dtau_dq, dtau_dqd = mimic.matrix(dtau_dq), mimic.matrix(tree.damped(dtau_dqd, qd))
    return qdd, *acceleration_gradient(minv, dtau_dq, dtau_dqd), minv
