"""Inverse dynamics and its gradient by recursion in body frames, one column of derivatives per joint.

This is the algorithm of published accelerators, kept for comparison. It takes more operations than the closed form, and
its longest chain of products is shorter.

Reference:
    Plancher et al., "Accelerating robot dynamics gradients on a CPU, GPU, and FPGA", 2021, algorithms 2 and 3, after
    Carpentier & Mansard, "Analytical derivatives of rigid body dynamics algorithms", 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynagate.base.naming import label, scope
from dynagate.dynamics.spatial import ZERO_MOTION, Array, Scalar, SpatialForce, SpatialMotion, zeros
from dynagate.dynamics.transforms import JointTransform
from dynagate.dynamics.tree import Tree


class NewtonEulerPass(NamedTuple):
    """Motion and force of every link in its own frame, as a pass of inverse dynamics leaves them."""

    joint: list[JointTransform]
    """Pose of each link in its parent."""
    carried_velocity: list[SpatialMotion]
    """Velocity of the parent, expressed in the link's frame."""
    carried_acceleration: list[SpatialMotion]
    """Acceleration of the parent, expressed in the link's frame."""
    velocity: list[SpatialMotion]
    """Velocity of each link."""
    force: list[SpatialForce]
    """Net force of each link's subtree."""


def _recursion(
    tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], qdd: Sequence[Scalar], external: Array | None = None
) -> tuple[list[Scalar], NewtonEulerPass]:
    """Run the recursive Newton-Euler algorithm in 6-vectors, and return τ (nv,) and the motion of all links."""
    joints = tree.transforms(q)
    result = NewtonEulerPass(joints, [], [], [], [])
    accelerations: list[SpatialMotion] = []
    for i in tree.links:
        with scope("rnea", f"link{i}"):
            p, rate = tree.parents[i], tree.joint_motion(i, qd)
            base = SpatialMotion(zeros(3), joints[i].to_link(tree.base_acceleration))
            v = joints[i].motion_to_link(result.velocity[p]) if p >= 0 else ZERO_MOTION
            a = joints[i].motion_to_link(accelerations[p]) if p >= 0 else base
            result.carried_velocity.append(v)
            result.carried_acceleration.append(a)
            a = a + tree.joint_motion(i, qdd) + v.cross(rate)
            v = v + rate
            result.velocity.append(v)
            accelerations.append(a)
            inertia = tree.inertias[i]
            net = inertia @ a + v.cross_force(inertia @ v)
            result.force.append(net if external is None else net - tree.external_force(i, external))
    tau: list[Scalar] = [0.0] * tree.nv
    for i in reversed(tree.links):
        with scope("rnea", f"link{i}"):
            for d in tree.dofs[i]:
                tau[d] = label(tree.joint_torque(d, result.force[i], qd, qdd), "tau")
            p = tree.parents[i]
            if p >= 0:
                result.force[p] = result.force[p] + joints[i].force_to_parent(result.force[i])
    return tau, result


def inverse_dynamics(
    tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], qdd: Sequence[Scalar], external: Array | None = None
) -> list[Scalar]:
    """Return τ (nv,) by the Newton-Euler algorithm in 6-vectors, without `reduction`, as a reference for other
    algorithms.

    Reference:
        Featherstone, "Rigid Body Dynamics Algorithms", 2008, §5.3.
    """
    return _recursion(tree.unreduced, q, qd, qdd, external)[0]


def inverse_dynamics_gradient(
    tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], qdd: Sequence[Scalar], external: Array | None = None
) -> tuple[Array, Array]:
    """Return ∂τ/∂q and ∂τ/∂q̇ (nv, nv), with a row per torque, by the recursion of columns.

    Args:
        tree: The robot.
        q: Configuration (nq,) of all joints, rad or m.
        qd: Velocities (nv,), rad/s or m/s.
        qdd: Accelerations (nv,), rad/s² or m/s².
        external: Forces on the links (links, 6), [moment; force] at each link's origin in its frame, N m and N.
    """
    _, motion_and_force = _recursion(tree, q, qd, qdd, external)
    by_q = _columns(tree, qd, motion_and_force, with_respect_to_q=True)
    by_qd = _columns(tree, qd, motion_and_force, with_respect_to_q=False)
    return by_q, tree.damped(by_qd, qd)


def _columns(tree: Tree, qd: Sequence[Scalar], motion_and_force: NewtonEulerPass, *, with_respect_to_q: bool) -> Array:
    """Return the derivative (nv, nv) of all torques with respect to q or q̇, column by column."""
    motion: dict[tuple[int, int], tuple[SpatialMotion, SpatialMotion]] = {}  # (link, column) -> ∂v, ∂a
    force: dict[tuple[int, int], SpatialForce] = {}
    for i in tree.links:
        with scope("columns", f"link{i}"):
            joint, rate, p = motion_and_force.joint[i], tree.joint_motion(i, qd), tree.parents[i]
            v, inertia = motion_and_force.velocity[i], tree.inertias[i]
            momentum = inertia @ v
            for j in tree.support[i]:
                if j not in tree.dofs[i]:
                    dv, da = (joint.motion_to_link(m) for m in motion[p, j])
                    da = da + dv.cross(rate)
                elif with_respect_to_q:
                    axis = tree.axis(j)
                    dv, da = (
                        motion_and_force.carried_velocity[i].cross(axis),
                        motion_and_force.carried_acceleration[i].cross(axis),
                    )
                    da = da + dv.cross(rate)
                else:
                    dv = tree.axis(j)
                    da = motion_and_force.carried_velocity[i].cross(dv)
                motion[i, j] = dv, da
                force[i, j] = inertia @ da + v.cross_force(inertia @ dv) + dv.cross_force(momentum)
    result = zeros(tree.nv, tree.nv)
    for i in reversed(tree.links):
        with scope("columns", f"link{i}"):
            p = tree.parents[i]
            for j in range(tree.nv):
                if (i, j) not in force:
                    continue
                for d in tree.dofs[i]:
                    result[d, j] = tree.along(d, force[i, j])
                if p < 0:
                    continue
                parent_force = force[i, j]
                if with_respect_to_q and j in tree.dofs[i]:
                    parent_force = parent_force + tree.axis(j).cross_force(motion_and_force.force[i])
                parent_force = motion_and_force.joint[i].force_to_parent(parent_force)
                force[p, j] = force[p, j] + parent_force if (p, j) in force else parent_force
    return result
