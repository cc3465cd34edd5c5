"""Forward dynamics by the articulated-body algorithm (Featherstone 2008, §7.3), and M⁻¹ τ without M."""

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
    """q̈ (nv,) by the articulated-body algorithm (Featherstone 2008, §7.3)."""
    joints = links.transforms(q)
    return _accelerations(links, joints, articulated_joints(links, joints), qd, tau, external)


def inverse_mass_product(links: Links, q: Sequence[Scalar], tau: Sequence[Scalar]) -> list[Scalar]:
    """M⁻¹ τ (nv,), without M: articulated bodies at rest and without gravity."""
    joints = links.transforms(q)
    return _product(links, joints, articulated_joints(links, joints), tau)


def forward_dynamics_and_product(
    links: Links,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    load: Sequence[Scalar],
    external: Array | None = None,
) -> tuple[list[Scalar], list[Scalar]]:
    """q̈ (nv,) and M⁻¹ load (nv,), of the same articulated inertias."""
    joints = links.transforms(q)
    yielded = articulated_joints(links, joints)
    return _accelerations(links, joints, yielded, qd, tau, external), _product(links, joints, yielded, load)


def _accelerations(
    links: Links,
    joints: PerLink,
    yielded: PerLink,
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    external: Array | None,
) -> list[Scalar]:
    rates = links.velocities(qd)
    motions = links.down("aba", _moving, joints, rates)
    bias = links.recompute(_bias, motions, rates)
    outside = () if external is None else (links.rows(external),)
    forces = links.recompute(_bias_force, motions, *outside)
    loads = links.up("aba", _loaded, joints, yielded, bias, forces, rates, links.velocities(tau))
    return links.vector(links.down("aba", _accelerated, joints, yielded, bias, loads))


def _product(links: Links, joints: PerLink, yielded: PerLink, tau: Sequence[Scalar]) -> list[Scalar]:
    loads = links.up("product", _loaded_at_rest, joints, yielded, links.velocities(tau))
    return links.vector(links.down("product", _accelerated_from_rest, joints, yielded, loads))


def _moving(
    link: TreeLink, above: SpatialMotion | None, pose: JointTransform, rates: Sequence[Scalar]
) -> tuple[SpatialMotion, SpatialMotion]:
    v = (ZERO_MOTION if above is None else pose.motion_to_link(above)) + link.motion(rates)
    return v, v


def _bias(link: TreeLink, v: SpatialMotion, rates: Sequence[Scalar]) -> SpatialMotion:
    """Return the acceleration from velocities only; the joint's own velocity has no part in it."""
    return v.cross(link.motion(rates))


def _bias_force(link: TreeLink, v: SpatialMotion, outside: Sequence[Scalar] | None = None) -> SpatialForce:
    force = v.cross_force(link.inertia @ v)
    return force if outside is None else force - link.outside(outside)


def _loaded(
    link: TreeLink,
    below: SpatialForce | None,
    pose: JointTransform,
    joint: ArticulatedJoint,
    bias: SpatialMotion,
    force: SpatialForce,
    rates: Sequence[Scalar],
    tau: Sequence[Scalar],
) -> tuple[SpatialForce, list[Scalar]]:
    """The torques that are left to accelerate the joint, and the force on the parent."""
    resisted = [torque - link.resistance(d, rate) for d, (torque, rate) in enumerate(zip(tau, rates, strict=True))]
    force, loads = propagate(link, force if below is None else force + below, joint, resisted)
    return pose.force_to_parent(force + joint.left @ bias), loads


def _loaded_at_rest(
    link: TreeLink, below: SpatialForce | None, pose: JointTransform, joint: ArticulatedJoint, torque: Sequence[Scalar]
) -> tuple[SpatialForce, list[Scalar]]:
    force, loads = propagate(link, SpatialForce(zeros(3), zeros(3)) if below is None else below, joint, list(torque))
    return pose.force_to_parent(force), loads


def _accelerated(
    link: TreeLink,
    above: SpatialMotion | None,
    pose: JointTransform,
    joint: ArticulatedJoint,
    bias: SpatialMotion,
    loads: Sequence[Scalar],
) -> tuple[SpatialMotion, list[Scalar]]:
    base = (
        SpatialMotion(zeros(3), pose.to_link(link.base_acceleration)) if above is None else pose.motion_to_link(above)
    )
    return joint_acceleration(link, base + bias, joint, loads)


def _accelerated_from_rest(
    link: TreeLink, above: SpatialMotion | None, pose: JointTransform, joint: ArticulatedJoint, loads: Sequence[Scalar]
) -> tuple[SpatialMotion, list[Scalar]]:
    return joint_acceleration(link, ZERO_MOTION if above is None else pose.motion_to_link(above), joint, loads)
