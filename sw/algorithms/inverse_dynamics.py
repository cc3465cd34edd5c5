"""Joint torques from motion: recursive Newton-Euler in 3-vectors (Luh, Walker & Paul 1980; Featherstone 2008, §5.3)."""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.algorithms.tree import Tree
from dynagate.naming import label, scope
from dynagate.spatial import Array, Force, Scalar, array, cross, zeros


def inverse_dynamics(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    qdd: Sequence[Scalar],
    external: Array | None = None,
) -> list[Scalar]:
    """τ (n,) in N m, N where a joint slides, that produces the accelerations qdd (n,) at position q and
    velocity qd. external: forces on the links (n, 6), as in `Tree.external_force`.

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
            if p >= 0:
                w = joint.to_link(omega[p])
                wd = joint.to_link(omega_dot[p])
                a = joint.to_link(acceleration[p] + spread[p] @ joint.translation)
            else:
                w, wd, a = zeros(3), zeros(3), joint.to_link(tree.base_acceleration)
            if tree.slides[i]:  # Coriolis acceleration 2 ω × z q̇
                a = array([a[0] + 2.0 * (w[1] * qd[i]), a[1] - 2.0 * (w[0] * qd[i]), a[2] + qdd[i]])
            else:
                wd = array([wd[0] + w[1] * qd[i], wd[1] - w[0] * qd[i], wd[2] + qdd[i]])
                w = array([w[0], w[1], w[2] + qd[i]])
            label(wd, "wd")
            label(w, "w")
            u = _spread(w, wd)
            mass, first, second = tree.inertias[i]
            omega.append(w)
            omega_dot.append(wd)
            acceleration.append(label(a, "a"))
            spread.append(u)
            net = Force(_moment(u, second) + cross(first, a), a * mass + u @ first)
            if external is not None:
                net = net - tree.external_force(i, external)
            force.append(label(net.linear, "f"))
            moment.append(label(net.angular, "n"))
    tau: list[Scalar] = [0.0] * tree.n
    for i in reversed(tree.links):
        with scope("id", f"link{i}"):
            tau[i] = label(tree.joint_torque(i, Force(moment[i], force[i]), qd[i], qdd[i]), "tau")
            p = tree.parents[i]
            if p >= 0:
                pushed = joints[i].to_parent(force[i])
                turned = joints[i].to_parent(moment[i]) + cross(joints[i].translation, pushed)
                force[p] = force[p] + pushed
                moment[p] = moment[p] + turned
    return tau


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
