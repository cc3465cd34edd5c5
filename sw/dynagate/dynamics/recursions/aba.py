"""Forward dynamics by the articulated-body algorithm, and products M⁻¹ τ without the mass matrix.

The algorithm makes three passes (Featherstone, "Rigid Body Dynamics Algorithms", 2008, §7.3, table 7.1): velocities
from the
base to the leaves, articulated inertias and bias forces back to the base, and accelerations to the leaves.
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
    joints = links.transforms(q)
    return _accelerations(links, joints, articulated_joints(links, joints), qd, tau, external)


def inverse_mass_product(links: Links, q: Sequence[Scalar], tau: Sequence[Scalar]) -> list[Scalar]:
    """Return M⁻¹ τ (nv,) without forming M: the articulated-body algorithm at rest and without gravity.

    Args:
        links: The robot's links, over any scalar.
        q: Configuration (nq,), rad or m, and unit quaternions.
        tau: Generalized forces (nv,), N m or N.
    """
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
    """Return q̈ (nv,) and M⁻¹ load (nv,), computed with the same articulated inertias.

    Args:
        links: The robot's links, over any scalar.
        q: Configuration (nq,), rad or m, and unit quaternions.
        qd: Velocities q̇ (nv,), rad/s or m/s.
        tau: Joint torques τ (nv,), N m or N.
        load: Generalized forces (nv,) for the product, N m or N.
        external: Forces on the links (links, 6), as in `forward_dynamics`.
    """
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
    """Run the three passes with articulated inertias that are already computed, and return q̈ (nv,)."""
    rates = links.velocities(qd)
    motions = links.down("aba", _moving, joints, rates)
    bias = links.recompute(_bias, motions, rates)
    outside = () if external is None else (links.rows(external),)
    forces = links.recompute(_bias_force, motions, *outside)
    loads = links.up("aba", _loaded, joints, yielded, bias, forces, rates, links.velocities(tau))
    return links.vector(links.down("aba", _accelerated, joints, yielded, bias, loads))


def _product(links: Links, joints: PerLink, yielded: PerLink, tau: Sequence[Scalar]) -> list[Scalar]:
    """Run the inward and outward passes at rest and without gravity, and return M⁻¹ τ (nv,)."""
    loads = links.up("product", _loaded_at_rest, joints, yielded, links.velocities(tau))
    return links.vector(links.down("product", _accelerated_from_rest, joints, yielded, loads))


def _moving(
    link: TreeLink, above: SpatialMotion | None, pose: JointTransform, rates: Sequence[Scalar]
) -> tuple[SpatialMotion, SpatialMotion]:
    """Pass 1, outwards: return the velocity v = X v_parent + S q̇ of a link in its frame."""
    v = (ZERO_MOTION if above is None else pose.motion_to_link(above)) + link.motion(rates)
    return v, v


def _bias(link: TreeLink, v: SpatialMotion, rates: Sequence[Scalar]) -> SpatialMotion:
    """Return the velocity-product acceleration c = v × S q̇ of a link."""
    return v.cross(link.motion(rates))


def _bias_force(link: TreeLink, v: SpatialMotion, outside: Sequence[Scalar] | None = None) -> SpatialForce:
    """Return the bias force p = v ×* I v of a link, minus its external force."""
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
    """Pass 2, inwards: return the bias force on the parent, and u = τ - Sᵀ p for the link's degrees of freedom."""
    resisted = [torque - link.resistance(d, rate) for d, (torque, rate) in enumerate(zip(tau, rates, strict=True))]
    force, loads = propagate(link, force if below is None else force + below, joint, resisted)
    return pose.force_to_parent(force + joint.left @ bias), loads


def _loaded_at_rest(
    link: TreeLink, below: SpatialForce | None, pose: JointTransform, joint: ArticulatedJoint, torque: Sequence[Scalar]
) -> tuple[SpatialForce, list[Scalar]]:
    """Pass 2 at rest, where the only bias forces come from the links below."""
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
    """Pass 3, outwards: return the acceleration of a link, and q̈ of its joint."""
    base = (
        SpatialMotion(zeros(3), pose.to_link(link.base_acceleration)) if above is None else pose.motion_to_link(above)
    )
    return joint_acceleration(link, base + bias, joint, loads)


def _accelerated_from_rest(
    link: TreeLink, above: SpatialMotion | None, pose: JointTransform, joint: ArticulatedJoint, loads: Sequence[Scalar]
) -> tuple[SpatialMotion, list[Scalar]]:
    """Pass 3 at rest and without gravity."""
    return joint_acceleration(link, ZERO_MOTION if above is None else pose.motion_to_link(above), joint, loads)
