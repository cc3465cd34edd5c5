"""Inverse dynamics by the recursive Newton-Euler algorithm, in 3-vectors.

The outward pass computes each link's motion and the force that this motion needs. The inward pass sums forces and
projects them on the joint axes (Luh, Walker & Paul, "On-line computational scheme for mechanical manipulators", 1980;
Featherstone, "Rigid Body Dynamics Algorithms", 2008, §5.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dynagate.base.naming import label
from dynagate.dynamics.links import Links, PerLink, TreeLink
from dynagate.dynamics.spatial import Array, Scalar, SpatialForce, array, cross, zeros
from dynagate.dynamics.transforms import JointTransform
from dynagate.dynamics.tree import Tree


class TorquesAndMotion(NamedTuple):
    """Joint torques and the accelerations of all links, in the links' frames.

    Accelerations are relative to free fall: a link at rest accelerates upwards by gravity.
    """

    tau: list[Scalar]
    """Joint torques (nv,), N m or N."""
    acceleration: list[Array]
    """Acceleration (3,) of each link's origin, m/s²."""
    angular_acceleration: list[Array]
    """Angular acceleration (3,) of each link, rad/s²."""
    acceleration_map: list[Array]
    """U = [ω̇]× + [ω]×² (3, 3) of each link: a point r of the link has the acceleration a + U r."""

    def point_acceleration(self, i: int, point: Array) -> Array:
        """Return the acceleration (3,) of a point (3,) of link i, m/s²."""
        return self.acceleration[i] + self.acceleration_map[i] @ point


def inverse_dynamics(
    links: Links,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    external: Array | None = None,
) -> list[Scalar]:
    """Return the joint torques τ that produce given accelerations, by the recursive Newton-Euler algorithm.

    Args:
        links: The robot's links, over any scalar.
        q: Configuration (nq,), rad or m, and unit quaternions.
        qd: Velocities q̇ (nv,), rad/s or m/s.
        qdd: Accelerations q̈ (nv,), rad/s² or m/s².
        external: Forces on the links (links, 6), [moment; force] at each link's origin in its frame, N m and N.

    Returns:
        τ (nv,), N m, or N for joints that slide.

    Reference:
        Featherstone, "Rigid Body Dynamics Algorithms", 2008, §5.3, in the 3-vectors of Luh, Walker & Paul, 1980.
    """
    return _newton_euler(links, q, qd, qdd, external)[0]


def inverse_dynamics_with_motion(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    external: Array | None = None,
    link_forces: Mapping[int, SpatialForce] | None = None,
) -> TorquesAndMotion:
    """Return `inverse_dynamics` together with the accelerations of all links.

    Args:
        tree: The robot.
        q: Configuration (nq,) of all joints.
        qd: Velocities (nv,).
        qdd: Accelerations (nv,).
        external: Forces on the links (links, 6), as in `inverse_dynamics`.
        link_forces: Further forces on links by link number, in the tree's frames.
    """
    tau, motions = _newton_euler(tree, q, qd, qdd, external, link_forces)
    parts = ([motion[k] for motion in motions] for k in (2, 1, 3))
    return TorquesAndMotion(tau, *parts)


class LinkMotion(NamedTuple):
    """Motion of a link and the force that produces it, in the link's frame. Accelerations are relative to free fall."""

    w: Array
    """Angular velocity ω (3,), rad/s."""
    wd: Array
    """Angular acceleration ω̇ (3,), rad/s²."""
    a: Array
    """Acceleration (3,) of the link's origin, m/s²."""
    acceleration_map: Array
    """U = [ω̇]× + [ω]×² (3, 3), 1/s²: a point r of the link has the acceleration a + U r."""
    net: SpatialForce
    """Net force on the link, minus external forces."""


def link_motions(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], qdd: Sequence[Scalar]) -> list[LinkMotion]:
    """Return the motion of each link, in the tree's own axes of the link."""
    motions: list[LinkMotion] = _newton_euler(tree, q, qd, qdd, None)[1]
    return motions


def _newton_euler(
    links: Links,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    external: Array | None,
    link_forces: Mapping[int, SpatialForce] | None = None,
) -> tuple[list[Scalar], PerLink]:
    """Run both passes, and return τ (nv,) and the motion of each link.

    Velocities enter only through U = [ω̇]× + [ω]×², which gives the acceleration of every point of a link, so no linear
    velocity is propagated.
    """
    poses, velocities, accelerations = links.transforms(q), links.velocities(qd), links.velocities(qdd)
    external_rows = () if external is None else (links.rows(external),)

    def outward_step(link: TreeLink, parent: LinkMotion | None, *values: Any) -> tuple[LinkMotion, LinkMotion]:
        return _outward_step(link, parent, (link_forces or {}).get(link.number), *values)

    motions = links.down("id", outward_step, poses, velocities, accelerations, *external_rows)
    forces = links.recompute(lambda link, motion: motion.net, motions)
    return links.vector(links.up("id", _inward_step, poses, forces, velocities, accelerations)), motions


def _outward_step(
    link: TreeLink,
    parent: LinkMotion | None,
    link_force: SpatialForce | None,
    pose: JointTransform,
    velocities: Sequence[Scalar],
    accelerations: Sequence[Scalar],
    external: Sequence[Scalar] | None = None,
) -> tuple[LinkMotion, LinkMotion]:
    """Outward pass: return the motion of a link, from that of its parent, and the net force that it needs."""
    joint_velocity, joint_acceleration = link.motion(velocities), link.motion(accelerations)
    if parent is not None:
        w = pose.to_link(parent.w)
        wd = pose.to_link(parent.wd)
        a = pose.to_link(parent.a + parent.acceleration_map @ pose.translation)
    else:
        w, wd, a = zeros(3), zeros(3), pose.to_link(link.base_acceleration)
    # the joint moves in axes that rotate with the parent, and the link rotates with the joint
    a = (
        a
        + joint_acceleration.linear
        + cross(w, joint_velocity.linear) * 2.0
        + cross(joint_velocity.angular, joint_velocity.linear)
    )
    wd = label(wd + joint_acceleration.angular + cross(w, joint_velocity.angular), "wd")
    w = label(w + joint_velocity.angular, "w")
    acceleration_map = acceleration_map_of(w, wd)
    mass, first, second = link.inertia
    a = label(a, "a")  # gravity included as an upward acceleration of the base
    net = SpatialForce(_moment(acceleration_map, second) + cross(first, a), a * mass + acceleration_map @ first)
    if external is not None:
        net = net - link.outside(external)
    if link_force is not None:
        net = net - link_force
    motion = LinkMotion(w, wd, a, acceleration_map, SpatialForce(label(net.angular, "n"), label(net.linear, "f")))
    return motion, motion


def motion_at_zero_acceleration(
    link: TreeLink,
    parent: LinkMotion | None,
    pose: JointTransform,
    velocities: Sequence[Scalar],
    external: Sequence[Scalar] | None = None,
) -> LinkMotion:
    """Return the motion of a link when no joint accelerates.

    Args:
        link: The link.
        parent: The parent's motion; None at the base.
        pose: Pose of the link in its parent.
        velocities: Velocities of the link's joint.
        external: External force on the link, as `TreeLink.outside` accepts it.
    """
    return _outward_step(link, parent, None, pose, velocities, [0.0 for _ in link.dofs], external)[0]


def _inward_step(
    link: TreeLink,
    children: SpatialForce | None,
    pose: JointTransform,
    net: SpatialForce,
    velocities: Sequence[Scalar],
    accelerations: Sequence[Scalar],
) -> tuple[SpatialForce, list[Scalar]]:
    """Inward pass: return the force on the parent, and the torque of each degree of freedom with resistance and rotor
    inertia.
    """
    force = net if children is None else net + children
    tau = [
        label(link.along(d, force) + link.resistance(d, velocities[d]) + link.armature[d] * accelerations[d], "tau")
        for d in link.dofs
    ]
    return pose.force_to_parent(force), tau


def acceleration_map_of(w: Array, wd: Array) -> Array:
    """Return U = [ω̇]× + [ω]×² (3, 3)."""
    xx, yy, zz = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    return array(
        [
            [-(yy + zz), xy - wd[2], xz + wd[1]],
            [xy + wd[2], -(xx + zz), yz - wd[0]],
            [xz - wd[1], yz + wd[0], -(xx + yy)],
        ]
    )


def _moment(u: Array, second: Array) -> Array:
    """Return the moment ∫ r × (U r) dm (3,) of a body with second moment Σ, which is the axial vector of U Σ."""

    def entry(a: int, b: int) -> Scalar:
        return u[a] @ second[b]

    return array([entry(2, 1) - entry(1, 2), entry(0, 2) - entry(2, 0), entry(1, 0) - entry(0, 1)])
