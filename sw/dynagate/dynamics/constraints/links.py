"""Constrained forward dynamics by the articulated-body algorithm, as passes over links with equal work for each link.

The outward pass computes poses and the motion at q̈ = 0. The inward pass computes articulated inertias, the
remaining joint torque u, and the joint torque y of a unit force along each constraint row. With M⁻¹ = Aᵀ D⁻¹ A,

    J M⁻¹ Jᵀ = Σ y D⁻¹ yᵀ    and    J M⁻¹ (τ - h) = Σ y D⁻¹ u    over all degrees of freedom,

which are summed during the pass. The resulting forces λ add y λ to u, and a second outward pass computes accelerations.
Neither M nor J is formed.

Reference:
    Rodriguez, Jain & Kreutz-Delgado, "Spatial operator algebra for multibody system dynamics", 1992.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.naming import label, scope
from dynagate.dynamics.constraints.rows import (
    ConstraintInstance,
    Endpoint,
    LinkPoses,
    acceleration_of,
    connected_chains,
    constraints_of,
    in_base,
    stabilized,
)
from dynagate.dynamics.constraints.solve import ConstraintSolver
from dynagate.dynamics.links import Links, TreeLink
from dynagate.dynamics.recursions.articulated import (
    ArticulatedInertia,
    ArticulatedJoint,
    articulate_link,
    joint_acceleration,
    propagate,
)
from dynagate.dynamics.recursions.rnea import LinkMotion, TorquesAndMotion, motion_at_zero_acceleration
from dynagate.dynamics.spatial import (
    ZERO_MOTION,
    Array,
    Scalar,
    SpatialForce,
    SpatialMotion,
    array,
    cross,
    symmetric,
    zeros,
)
from dynagate.dynamics.transforms import JointTransform
from dynagate.dynamics.tree import Tree


def forward_dynamics(
    links: Links,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    active: Sequence[Scalar],
    acceleration: Sequence[Scalar] | None = None,
    *,
    external: Array | None = None,
) -> tuple[list[Scalar], Array]:
    """Return q̈ (nv,) and λ (rows,) of `constraints.dynamics.forward_dynamics`, computed by passes over links."""
    joints, rates, solver = links.transforms(q), links.velocities(qd), ConstraintSolver(links.tree)
    external_rows = () if external is None else (links.rows(external),)
    poses = links.down("constraint", partial(_pose_step, local=not connected_chains(links.tree)), joints)
    motions = links.down("id", _motion_step, joints, rates, *external_rows)
    prescribed = () if acceleration is None else (acceleration,)
    state = poses, motions, links.configurations(q), rates
    parts, rows = links.gather("constraint", partial(_rows, solver), (True, False), *state, active, *prescribed)
    loads = links.up("constraint", _inward_step, joints, motions, rates, links.velocities(tau), parts)
    row_forces, force = links.gather(
        "delassus", partial(_constraint_forces, solver), (False, False), poses, active, rows, loads
    )
    return links.vector(links.down("constraint", _acceleration_step, joints, loads, links.broadcast(row_forces))), force


class _Pose(NamedTuple):
    """Pose of a link in the axes of its constraint rows."""

    rotation: Array
    position: Array
    base: Any
    """Rotation (3, 3) of the base in these axes, for the first link of a chain."""


def _pose_step(
    link: TreeLink, parent: tuple[Array, Array] | None, joint: JointTransform, *, local: bool
) -> tuple[tuple[Array, Array], _Pose]:
    """Outward pass: return the pose of a link. `local` expresses it in the axes of its chain's floating link."""
    unit = array(np.eye(3))
    base: Any = ()
    if parent is not None:
        parent_rotation, parent_position = parent
        pose = joint.after(parent_rotation), parent_position + parent_rotation @ joint.translation
    elif local and link.free:
        pose, base = (unit, zeros(3)), joint.inverse_after(unit)
    else:
        pose, base = (joint.after(unit), joint.translation), unit
    return pose, _Pose(*pose, base)


class _MotionWithVelocity(NamedTuple):
    """Motion of a link at q̈ = 0, and the velocity (3,) of its origin in the link's frame, m/s."""

    motion: LinkMotion
    v: Array


def _motion_step(
    link: TreeLink,
    parent: _MotionWithVelocity | None,
    joint: JointTransform,
    rates: Sequence[Scalar],
    external: Sequence[Scalar] | None = None,
) -> tuple[_MotionWithVelocity, _MotionWithVelocity]:
    """Outward pass: return the motion of a link when no joint accelerates."""
    parent_motion = None if parent is None else parent.motion
    v = zeros(3) if parent is None else joint.to_link(parent.v + cross(parent.motion.w, joint.translation))
    result = _MotionWithVelocity(
        motion_at_zero_acceleration(link, parent_motion, joint, rates, external), v + link.motion(rates).linear
    )
    return result, result


class _ConstraintPart(NamedTuple):
    """Contribution of constraints to one link."""

    ball: Any
    """Inertia that the link carries for its constraints; () for none."""
    forces: list[Any]
    """Force on the link for a unit force along each row; () if the row acts on another link."""
    loads: list[Any]
    """Torques of the link's joint for each row, from equalities of joints."""


def marks(tree: Tree) -> list[tuple[Any, ...]]:
    """Return a key for each link's part in constraints: links with equal keys can share one loop body; () stands for
    none.

    The first link of a chain has its own key, because it sums over the chain.
    """
    of_forces, of_joints = _rows_by_link(tree)
    return [
        (root, *forces, -1, *joints) if root or forces or joints else ()
        for root, forces, joints in zip([p < 0 for p in tree.parents], of_forces, of_joints, strict=True)
    ]


def _rows_by_link(tree: Tree) -> tuple[list[list[int]], list[list[int]]]:
    """Return, for each link, the rows that act on it as forces, and the rows that act on its joint."""
    of_forces: list[list[int]] = [[] for _ in tree.links]
    of_joints: list[list[int]] = [[] for _ in tree.links]
    for instance in constraints_of(tree):
        for end in instance.moving:
            of_forces[end.link] += range(instance.rows.start, instance.rows.stop)
        for d in instance.joints.in_v if instance.joints else ():
            of_joints[tree.link_of[d]] += range(instance.rows.start, instance.rows.stop)
    return of_forces, of_joints


def _link_poses(tree: Tree, poses: Sequence[_Pose], q: Sequence[Sequence[Scalar]]) -> LinkPoses:
    """Return the poses and configuration of all links as `LinkPoses`."""
    base = [poses[tree.ancestors[i][0]].base for i in tree.links]
    return LinkPoses([p.rotation for p in poses], [p.position for p in poses], base, [x for own in q for x in own])


class _Velocities:
    """Velocities of frames and of constraint rows, in the axes of the rows.

    Args:
        where: Poses of the links.
        motions: Motion of each link.
        rates: q̇ by link.
    """

    def __init__(
        self, where: LinkPoses, motions: Sequence[_MotionWithVelocity], rates: Sequence[Sequence[Scalar]]
    ) -> None:
        self._link_poses, self._motions = where, motions
        self.rates = [x for own in rates for x in own]

    def of(self, end: Endpoint) -> tuple[Array, Array]:
        """Return the angular and linear velocity (3,) of an endpoint."""
        own, turn = self._motions[end.link], self._link_poses.rotation[end.link]
        return turn @ own.motion.w, turn @ (own.v + cross(own.motion.w, end.point))

    def rows(self, instance: ConstraintInstance) -> Array:
        """Return J q̇ of a constraint."""
        if instance.joints:
            parts = zip(instance.joints.rows(self._link_poses), instance.joints.in_v, strict=True)
            return array([sum((part * self.rates[d] for part, d in parts), 0.0)])
        along, result = instance.directions(self._link_poses), zeros(instance.constraint.rows)
        for end in instance.moving:
            result = result + along.of(*self.of(end)) * end.sign
        return result


def _rows(
    solver: ConstraintSolver,
    tree: Tree,
    poses: Sequence[_Pose],
    motions: Sequence[_MotionWithVelocity],
    q: Sequence[Sequence[Scalar]],
    rates: Sequence[Sequence[Scalar]],
    active: Sequence[Scalar],
    prescribed: Sequence[Scalar] | None = None,
) -> tuple[list[_ConstraintPart], Array]:
    """Return the contribution of constraints to each link, and the rows J̇ q̇ + d J q̇ + k e minus prescribed
    accelerations.
    """
    link_poses = _link_poses(tree, poses, q)
    velocities = _Velocities(link_poses, motions, rates)
    link_motions = [each.motion for each in motions]
    motion = TorquesAndMotion(
        [], [m.a for m in link_motions], [m.wd for m in link_motions], [m.acceleration_map for m in link_motions]
    )
    rows = acceleration_of(tree, link_poses, motion, velocities.rates, velocities.of)
    if prescribed is not None:
        rows = rows - array(list(prescribed))
    by_rows = {instance.rows.start: instance for instance in constraints_of(tree)}
    rows = stabilized(tree, link_poses, rows, lambda rows: velocities.rows(by_rows[rows.start]))
    return _constraint_parts(solver, tree, link_poses, active), solver.masked(rows, active)


def _constraint_parts(
    solver: ConstraintSolver, tree: Tree, link_poses: LinkPoses, active: Sequence[Scalar]
) -> list[_ConstraintPart]:
    """Return the contribution of constraints to each link."""
    count = tree.source.constraint_rows
    result = [_ConstraintPart((), [()] * count, [()] * count) for _ in tree.links]
    balls = solver.balls(active)
    for k, instance in enumerate(constraints_of(tree)):
        for d, part in (
            zip(instance.joints.in_v, instance.joints.rows(link_poses), strict=True) if instance.joints else ()
        ):
            with scope(*instance.scope):
                result[tree.link_of[d]].loads[instance.rows.start] = [part * active[k]]
        for end in instance.moving:
            directions_here, rotation = instance.directions(link_poses), link_poses.rotation[end.link]
            with scope("constraint", f"link{end.link}"):
                for row, (moment, push) in enumerate(
                    zip(directions_here.turning, directions_here.moving, strict=True), instance.rows.start
                ):
                    linear = (rotation.T @ push) * end.sign
                    force = SpatialForce(cross(end.point, linear) + (rotation.T @ moment) * end.sign, linear).scaled(
                        active[k]
                    )
                    earlier = result[end.link].forces[row]
                    result[end.link].forces[row] = earlier + force if earlier else force
    return [hold._replace(ball=balls.get(i, ())) for i, hold in enumerate(result)]


class _DelassusSums(NamedTuple):
    """Sums over degrees of freedom."""

    delassus: Array
    """Σ y D⁻¹ yᵀ, the entries on and above the diagonal."""
    reached: Array
    """Σ y D⁻¹ u (rows,)."""

    def __add__(self, other: _DelassusSums) -> _DelassusSums:  # type: ignore[override]
        return _DelassusSums(self.delassus + other.delassus, self.reached + other.reached)


class _SubtreeSums(NamedTuple):
    """Sums over the subtrees below a link."""

    inertia: ArticulatedInertia
    """Articulated inertia."""
    force: SpatialForce
    """Bias force."""
    by_rows: list[SpatialForce]
    """Force for a unit force along each row."""
    sums: _DelassusSums
    """Sums over degrees of freedom."""

    def __add__(self, other: _SubtreeSums) -> _SubtreeSums:  # type: ignore[override]
        by_rows = [own + more for own, more in zip(self.by_rows, other.by_rows, strict=True)]
        return _SubtreeSums(self.inertia + other.inertia, self.force + other.force, by_rows, self.sums + other.sums)


class _Loads(NamedTuple):
    """Loads of one link's joint."""

    joint: ArticulatedJoint
    """Factors of the joint."""
    u: list[Scalar]
    """Remaining torques (dofs,)."""
    y: list[list[Scalar]]
    """Torques (rows, dofs) for a unit force along each row."""
    sums: _DelassusSums
    """Sums over this joint and all joints below."""


def _inward_step(
    link: TreeLink,
    children: _SubtreeSums | None,
    pose: JointTransform,
    motion: _MotionWithVelocity,
    rates: Sequence[Scalar],
    tau: Sequence[Scalar],
    part: _ConstraintPart,
) -> tuple[_SubtreeSums, _Loads]:
    """Inward pass: return the sums for the parent, and the loads of the link's joint."""
    inertia, joint = articulate_link(link, None if children is None else children.inertia, pose, part.ball or None)
    net_torques = [torque - link.resistance(d, rate) for d, (torque, rate) in enumerate(zip(tau, rates, strict=True))]
    net = motion.motion.net
    force, u = propagate(link, net if children is None else net + children.force, joint, net_torques)
    by_rows, y = [], []
    for row, (row_force, load) in enumerate(zip(part.forces, part.loads, strict=True)):
        force_below = SpatialForce(zeros(3), zeros(3)) if children is None else children.by_rows[row]
        parent_force, loads = propagate(
            link, force_below - row_force if row_force else force_below, joint, list(load) or [0.0 for _ in link.dofs]
        )
        by_rows.append(pose.force_to_parent(parent_force))
        y.append(loads)
    sums = _summed(link, joint, u, y)
    if children is not None:
        sums = sums + children.sums
    return _SubtreeSums(inertia, pose.force_to_parent(force), by_rows, sums), _Loads(joint, u, y, sums)


def _summed(
    link: TreeLink, joint: ArticulatedJoint, u: Sequence[Scalar], y: Sequence[Sequence[Scalar]]
) -> _DelassusSums:
    """Return the contribution of one joint to the sums."""
    inverse = [factor.inverse_d for factor in joint.factors]
    scaled = [array([own * d for own, d in zip(row, inverse, strict=True)]) for row in y]
    pairs = [(a, b) for a in range(len(y)) for b in range(a, len(y))]
    products = array([scaled[a] @ array(list(y[b])) for a, b in pairs])
    return _DelassusSums(products, array([row @ array(list(u)) for row in scaled]))


def _constraint_forces(
    solver: ConstraintSolver,
    tree: Tree,
    poses: Sequence[_Pose],
    active: Sequence[Scalar],
    rows: Array,
    loads: Sequence[_Loads],
) -> tuple[Array, Array]:
    """Solve for the constraint forces, and return them in the axes of the rows and in base axes."""
    first = [loads[i].sums for i in tree.links if tree.parents[i] < 0]
    entries = iter(sum((own.delassus for own in first[1:]), first[0].delassus))
    count = tree.source.constraint_rows
    matrix = symmetric(lambda a, b: label(next(entries), f"s_{a}_{b}"), count)
    reached = sum((own.reached for own in first[1:]), first[0].reached)
    row_forces, force = solver.pushes(active, matrix, reached, rows, 3)
    return row_forces, label(in_base(tree, _link_poses(tree, poses, ()), force), "force")


def _acceleration_step(
    link: TreeLink, parent: SpatialMotion | None, pose: JointTransform, loads: _Loads, row_forces: Array
) -> tuple[SpatialMotion, list[Scalar]]:
    """Outward pass: return the acceleration of a link, and q̈ of its joint."""
    net_torques = [u + array([row[d] for row in loads.y]) @ row_forces for d, u in enumerate(loads.u)]
    return joint_acceleration(
        link, ZERO_MOTION if parent is None else pose.motion_to_link(parent), loads.joint, net_torques
    )
