"""Joint torques from motion: recursive Newton-Euler in 3-vectors (Luh, Walker & Paul 1980; Featherstone 2008, §5.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dynagate.base.naming import label
from dynagate.dynamics.links import Links, PerLink, TreeLink
from dynagate.dynamics.spatial import Array, Scalar, SpatialForce, array, cross, zeros
from dynagate.dynamics.transforms import JointTransform
from dynagate.dynamics.tree import Tree


class Balance(NamedTuple):
    """Joint torques, and the motion that they go with. tau (nv,), N m or N. acceleration[i]: of the origin of link i,
    seen by an observer in free fall, so that a link at rest has one upwards, m/s². turning[i]: the angular
    acceleration. spread[i]: U, with which the point r of the link has the acceleration a + U r. All are in the link's
    own axes."""

    tau: list[Scalar]
    acceleration: list[Array]
    turning: list[Array]
    spread: list[Array]

    def of_point(self, i: int, point: Array) -> Array:
        """The acceleration (3,) of a point (3,) of link i."""
        return self.acceleration[i] + self.spread[i] @ point


def inverse_dynamics(
    links: Links,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    external: Array | None = None,
) -> list[Scalar]:
    """τ (nv,) in N m, N where a joint slides, that produces the accelerations qdd (nv,) at configuration q (nq,) and
    velocity qd (nv,). external: forces on the links (links, 6), as `TreeLink.outside` takes them."""
    return _balanced(links, q, qd, qdd, external)[0]


def balance(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    external: Array | None = None,
    pushes: Mapping[int, SpatialForce] | None = None,
) -> Balance:
    """`inverse_dynamics`, with the accelerations that it finds. pushes: forces on links, by their number, in the tree's
    frames."""
    tau, motions = _balanced(tree, q, qd, qdd, external, pushes)
    parts = ([motion[k] for motion in motions] for k in (2, 1, 3))
    return Balance(tau, *parts)


class LinkMotion(NamedTuple):
    """angular velocity, angular acceleration, acceleration of the origin and U of a link, and the force that it
    takes."""

    w: Array
    wd: Array
    a: Array
    spread: Array
    net: SpatialForce


def _balanced(
    links: Links,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    external: Array | None,
    pushes: Mapping[int, SpatialForce] | None = None,
) -> tuple[list[Scalar], PerLink]:
    """τ, and a `LinkMotion` per link. Link velocities enter only through U = [ω̇]× + [ω]×[ω]×, which gives the
    acceleration of every point of the link, so no linear velocity is propagated."""
    joints, rates, changes = links.transforms(q), links.velocities(qd), links.velocities(qdd)
    outside = () if external is None else (links.rows(external),)

    def moving(link: TreeLink, above: LinkMotion | None, *values: Any) -> tuple[LinkMotion, LinkMotion]:
        return _moving(link, above, (pushes or {}).get(link.number), *values)

    motions = links.down("id", moving, joints, rates, changes, *outside)
    forces = links.recompute(lambda link, motion: motion.net, motions)
    return links.vector(links.up("id", _held, joints, forces, rates, changes)), motions


def _moving(
    link: TreeLink,
    above: LinkMotion | None,
    push: SpatialForce | None,
    joint: JointTransform,
    rates: Sequence[Scalar],
    changes: Sequence[Scalar],
    outside: Sequence[Scalar] | None = None,
) -> tuple[LinkMotion, LinkMotion]:
    rate, change = link.motion(rates), link.motion(changes)
    if above is not None:
        w = joint.to_link(above.w)
        wd = joint.to_link(above.wd)
        a = joint.to_link(above.a + above.spread @ joint.translation)
    else:
        w, wd, a = zeros(3), zeros(3), joint.to_link(link.base_acceleration)
    # the joint's own motion is seen from axes that turn with the parent and then with the joint
    a = a + change.linear + cross(w, rate.linear) * 2.0 + cross(rate.angular, rate.linear)
    wd = label(wd + change.angular + cross(w, rate.angular), "wd")
    w = label(w + rate.angular, "w")
    u = _spread(w, wd)
    mass, first, second = link.inertia
    a = label(a, "a")  # gravity included as an upward acceleration of the base
    net = SpatialForce(_moment(u, second) + cross(first, a), a * mass + u @ first)
    if outside is not None:
        net = net - link.outside(outside)
    if push is not None:
        net = net - push
    motion = LinkMotion(w, wd, a, u, SpatialForce(label(net.angular, "n"), label(net.linear, "f")))
    return motion, motion


def drifting(
    link: TreeLink,
    above: LinkMotion | None,
    joint: JointTransform,
    rates: Sequence[Scalar],
    outside: Sequence[Scalar] | None = None,
) -> LinkMotion:
    """The motion of a link where no joint accelerates. above: that of the parent. outside: as `TreeLink.outside` takes
    it."""
    return _moving(link, above, None, joint, rates, [0.0 for _ in link.dofs], outside)[0]


def _held(
    link: TreeLink,
    below: SpatialForce | None,
    joint: JointTransform,
    net: SpatialForce,
    rates: Sequence[Scalar],
    changes: Sequence[Scalar],
) -> tuple[SpatialForce, list[Scalar]]:
    """Return the force on the parent, and the torque of each degree of freedom for the force on the link, its
    resistance and its rotor.
    """
    force = net if below is None else net + below
    tau = [
        label(link.along(d, force) + link.resistance(d, rates[d]) + link.armature[d] * changes[d], "tau")
        for d in link.dofs
    ]
    return joint.force_to_parent(force), tau


def _spread(w: Array, wd: Array) -> Array:
    """U = [ω̇]× + [ω]×²."""
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
    """∫ r × (U r) dm: the axial part of U Σ."""

    def entry(a: int, b: int) -> Scalar:
        return u[a] @ second[b]

    return array([entry(2, 1) - entry(1, 2), entry(0, 2) - entry(2, 0), entry(1, 0) - entry(0, 1)])
