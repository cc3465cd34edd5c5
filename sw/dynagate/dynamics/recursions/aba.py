"""Forward dynamics by the articulated-body algorithm, and products M⁻¹ τ without the mass matrix.

The algorithm makes three passes (Featherstone, "Rigid Body Dynamics Algorithms", 2008, §7.3, table 7.1): velocities
from the base to the leaves, articulated inertias and bias forces back to the base, and accelerations to the leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.dynamics.links import Links, PerLink, TreeLink
from dynagate.dynamics.recursions.articulated import (
    ArticulatedJoint,
    articulated_joints,
    joint_acceleration,
    propagate,
)
from dynagate.dynamics.spatial import (
    ZERO_MOTION,
    Array,
    Scalar,
    SpatialForce,
    SpatialMotion,
    zeros,
)
from dynagate.dynamics.transforms import JointTransform


def forward_dynamics(
    links: Links,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    external: Array | None = None,
) -> list[Scalar]:
    """Return the joint accelerations q̈ by the articulated-body algorithm.

    Args:
        links: The robot's links, over any scalar.
        q: Configuration (nq,), rad or m, and unit quaternions.
        qd: Velocities q̇ (nv,), rad/s or m/s.
        tau: Joint torques τ (nv,), N m or N.
        external: Forces on the links (links, 6), [moment; force] at each link's origin in its frame, N m and N.

    Returns:
        q̈ (nv,), rad/s² or m/s².

    Reference:
        Featherstone, "Rigid Body Dynamics Algorithms", 2008, §7.3.
    """
    poses = links.transforms(q)
    return _accelerations(links, poses, articulated_joints(links, poses), qd, tau, external)


def inverse_mass_product(links: Links, q: Sequence[Scalar], tau: Sequence[Scalar]) -> list[Scalar]:
    """Return M⁻¹ τ (nv,) without forming M: the articulated-body algorithm at rest and without gravity.

    Args:
        links: The robot's links, over any scalar.
        q: Configuration (nq,), rad or m, and unit quaternions.
        tau: Generalized forces (nv,), N m or N.
    """
    poses = links.transforms(q)
    return _product(links, poses, articulated_joints(links, poses), tau)


def forward_dynamics_and_product(
    links: Links,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    load: Sequence[Scalar],
    external: Array | None = None,
) -> tuple[list[Scalar], list[Scalar]]:
    """Return q̈ (nv,) and M⁻¹ load (nv,), computed with the same articulated inertias.

    Args:
        links: The robot's links, over any scalar.
        q: Configuration (nq,), rad or m, and unit quaternions.
        qd: Velocities q̇ (nv,), rad/s or m/s.
        tau: Joint torques τ (nv,), N m or N.
        load: Generalized forces (nv,) for the product, N m or N.
        external: Forces on the links (links, 6), as in `forward_dynamics`.
    """
    poses = links.transforms(q)
    articulated = articulated_joints(links, poses)
    return _accelerations(links, poses, articulated, qd, tau, external), _product(links, poses, articulated, load)


def _accelerations(
    links: Links,
    poses: PerLink,
    articulated: PerLink,
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    external: Array | None,
) -> list[Scalar]:
    """Run the three passes with articulated inertias that are already computed, and return q̈ (nv,)."""
    velocities = links.velocities(qd)
    link_velocities = links.down("aba", _velocity_step, poses, velocities)
    velocity_products = links.recompute(_velocity_product, link_velocities, velocities)
    external_rows = () if external is None else (links.rows(external),)
    forces = links.recompute(_bias_force, link_velocities, *external_rows)
    loads = links.up(
        "aba", _inward_step, poses, articulated, velocity_products, forces, velocities, links.velocities(tau)
    )
    return links.vector(links.down("aba", _outward_step, poses, articulated, velocity_products, loads))


def _product(links: Links, poses: PerLink, articulated: PerLink, tau: Sequence[Scalar]) -> list[Scalar]:
    """Run the inward and outward passes at rest and without gravity, and return M⁻¹ τ (nv,)."""
    loads = links.up("product", _inward_step_at_rest, poses, articulated, links.velocities(tau))
    return links.vector(links.down("product", _outward_step_at_rest, poses, articulated, loads))


def _velocity_step(
    link: TreeLink, parent: SpatialMotion | None, pose: JointTransform, joint_velocity: Sequence[Scalar]
) -> tuple[SpatialMotion, SpatialMotion]:
    """Pass 1, outwards: return the velocity v = X v_parent + S q̇ of a link in its frame."""
    v = (ZERO_MOTION if parent is None else pose.motion_to_link(parent)) + link.motion(joint_velocity)
    return v, v


def _velocity_product(link: TreeLink, v: SpatialMotion, joint_velocity: Sequence[Scalar]) -> SpatialMotion:
    """Return the velocity-product acceleration c = v × S q̇ of a link."""
    return v.cross(link.motion(joint_velocity))


def _bias_force(link: TreeLink, v: SpatialMotion, external: Sequence[Scalar] | None = None) -> SpatialForce:
    """Return the bias force p = v ×* I v of a link, minus its external force."""
    force = v.cross_force(link.inertia @ v)
    return force if external is None else force - link.outside(external)


def _inward_step(
    link: TreeLink,
    children: SpatialForce | None,
    pose: JointTransform,
    joint: ArticulatedJoint,
    velocity_product: SpatialMotion,
    force: SpatialForce,
    velocities: Sequence[Scalar],
    tau: Sequence[Scalar],
) -> tuple[SpatialForce, list[Scalar]]:
    """Pass 2, inwards: return the bias force on the parent, and u = τ - Sᵀ p for the link's degrees of freedom."""
    net_torques = [
        torque - link.resistance(d, rate) for d, (torque, rate) in enumerate(zip(tau, velocities, strict=True))
    ]
    force, loads = propagate(link, force if children is None else force + children, joint, net_torques)
    return pose.force_to_parent(force + joint.apparent @ velocity_product), loads


def _inward_step_at_rest(
    link: TreeLink,
    children: SpatialForce | None,
    pose: JointTransform,
    joint: ArticulatedJoint,
    torque: Sequence[Scalar],
) -> tuple[SpatialForce, list[Scalar]]:
    """Pass 2 at rest, where the only bias forces come from the links below."""
    force, loads = propagate(
        link, SpatialForce(zeros(3), zeros(3)) if children is None else children, joint, list(torque)
    )
    return pose.force_to_parent(force), loads


def _outward_step(
    link: TreeLink,
    parent: SpatialMotion | None,
    pose: JointTransform,
    joint: ArticulatedJoint,
    velocity_product: SpatialMotion,
    loads: Sequence[Scalar],
) -> tuple[SpatialMotion, list[Scalar]]:
    """Pass 3, outwards: return the acceleration of a link, and q̈ of its joint."""
    carried = (
        SpatialMotion(zeros(3), pose.to_link(link.base_acceleration)) if parent is None else pose.motion_to_link(parent)
    )
    return joint_acceleration(link, carried + velocity_product, joint, loads)


def _outward_step_at_rest(
    link: TreeLink, parent: SpatialMotion | None, pose: JointTransform, joint: ArticulatedJoint, loads: Sequence[Scalar]
) -> tuple[SpatialMotion, list[Scalar]]:
    """Pass 3 at rest and without gravity."""
    return joint_acceleration(link, ZERO_MOTION if parent is None else pose.motion_to_link(parent), joint, loads)
