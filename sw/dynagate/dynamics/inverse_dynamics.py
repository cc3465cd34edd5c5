"""Joint torques from motion: recursive Newton-Euler in 3-vectors (Luh, Walker & Paul 1980; Featherstone 2008, §5.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dynagate.base.naming import label, scope
from dynagate.dynamics.spatial import Array, Force, Scalar, array, cross, zeros
from dynagate.dynamics.tree import Tree


class Balance(NamedTuple):
    """Joint torques, and the motion that they go with. tau (nv,), N m or N. acceleration[i]: of the origin of link i,
    seen by somebody in free fall, so that a link at rest has one upwards, m/s². turning[i]: the angular acceleration.
    spread[i]: U, with which the point r of the link has the acceleration a + U r. All are in the link's own axes."""

    tau: list[Scalar]
    acceleration: list[Array]
    turning: list[Array]
    spread: list[Array]

    def of_point(self, i: int, point: Array) -> Array:
        """The acceleration (3,) of a point (3,) of link i."""
        return self.acceleration[i] + self.spread[i] @ point


def inverse_dynamics(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    external: Array | None = None,
) -> list[Scalar]:
    """τ (nv,) in N m, N where a joint slides, that produces the accelerations qdd (nv,) at configuration q (nq,) and
    velocity qd (nv,). external: forces on the links (links, 6), as in `Tree.external_force`."""
    return balance(tree, q, qd, qdd, external).tau


def balance(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    external: Array | None = None,
    pushes: Mapping[int, Force] | None = None,
) -> Balance:
    """`inverse_dynamics`, with the accelerations that it finds. pushes: forces on links, by their number, in the tree's
    frames.

    Link velocities enter only through U = [ω̇]× + [ω]×[ω]×, which gives the acceleration of every point of the link,
    so no linear velocity is propagated.
    """
    joints = tree.transforms(q)
    omega: list[Array] = []
    omega_dot: list[Array] = []
    acceleration: list[Array] = []  # of the link origin, gravity included as an upward acceleration of the base
    spread: list[Array] = []
    moment: list[Array] = []
    force: list[Array] = []
    for i in tree.links:
        with scope("id", f"link{i}"):
            p, joint = tree.parents[i], joints[i]
            rate, change = tree.joint_motion(i, qd), tree.joint_motion(i, qdd)
            if p >= 0:
                w = joint.to_link(omega[p])
                wd = joint.to_link(omega_dot[p])
                a = joint.to_link(acceleration[p] + spread[p] @ joint.translation)
            else:
                w, wd, a = zeros(3), zeros(3), joint.to_link(tree.base_acceleration)
            # the joint's own motion is seen from axes that turn with the parent and then with the joint
            a = a + change.linear + cross(w, rate.linear) * 2.0 + cross(rate.angular, rate.linear)
            wd = label(wd + change.angular + cross(w, rate.angular), "wd")
            w = label(w + rate.angular, "w")
            u = _spread(w, wd)
            mass, first, second = tree.inertias[i]
            omega.append(w)
            omega_dot.append(wd)
            acceleration.append(label(a, "a"))
            spread.append(u)
            net = Force(_moment(u, second) + cross(first, a), a * mass + u @ first)
            if external is not None:
                net = net - tree.external_force(i, external)
            if pushes is not None and i in pushes:
                net = net - pushes[i]
            force.append(label(net.linear, "f"))
            moment.append(label(net.angular, "n"))
    tau: list[Scalar] = [0.0] * tree.nv
    for i in reversed(tree.links):
        with scope("id", f"link{i}"):
            for d in tree.dofs[i]:
                tau[d] = label(tree.joint_torque(d, Force(moment[i], force[i]), qd, qdd), "tau")
            p = tree.parents[i]
            if p >= 0:
                pushed = joints[i].to_parent(force[i])
                turned = joints[i].to_parent(moment[i]) + cross(joints[i].translation, pushed)
                force[p] = force[p] + pushed
                moment[p] = moment[p] + turned
    return Balance(tau, acceleration, omega_dot, spread)


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
