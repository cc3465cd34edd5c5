"""Regressors: matrices by which torques and energies are linear in the dynamic parameters of a robot.

Inverse dynamics is tau = Y(q, q̇, q̈) π (Atkeson, An & Hollerbach 1986; Siciliano et al., "Robotics", 2009, §7.2). π has
13 numbers for each link: its mass, first moments and inertia about its origin in the link's frame, then armature,
damping and Coulomb friction of its joint (`Robot.dynamic_parameters`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dynagate.base.naming import label, scope
from dynagate.dynamics.friction import SPEED, FrictionModel
from dynagate.dynamics.links import TreeLink
from dynagate.dynamics.recursions.poses import poses
from dynagate.dynamics.recursions.rnea import acceleration_map_of, link_motions
from dynagate.dynamics.spatial import Array, Scalar, SpatialMotion, array, cross, zeros
from dynagate.dynamics.transforms import JointTransform
from dynagate.dynamics.tree import Tree
from dynagate.robot.variable import COUNT, DYNAMIC

ARMATURE, DAMPING, FRICTION = range(COUNT, DYNAMIC)
"""Columns of the parameters of a link's joint."""


def inverse_dynamics_regressor(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], qdd: Sequence[Scalar]) -> Array:
    """Return Y (nv, links, 13), so that inverse dynamics is the sum of Y times the dynamic parameters (links, 13)."""
    tree = tree.unreduced
    result = zeros(tree.nv, len(tree.links), DYNAMIC)
    motions = link_motions(tree.frictionless(), q, qd, qdd)
    for i, axes in enumerate(_support_axes(tree, q)):
        with scope("regressor", f"link{i}"):
            turn = tree.to_file_axes[i]
            w, wd, a = (turn @ vector for vector in motions[i][:3])
            forces, moments = acceleration_map_of(w, wd).T, _moments(w, wd)
            for d, axis in axes.items():
                by_first = forces @ axis.linear + cross(a, axis.angular)
                result[d, i, :COUNT] = array([a @ axis.linear, *by_first, *(moments @ axis.angular)])
    friction = _unit_friction(tree)
    for d, i in enumerate(tree.link_of):
        with scope("regressor", *tree.where(d)):
            result[d, i, ARMATURE], result[d, i, DAMPING] = qdd[d], qd[d]
            result[d, i, FRICTION] = friction.torque(d, qd[d])
    return label(result, "regressor")


def energy_regressor(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar]) -> tuple[Array, Array]:
    """Return the matrices (links, 13) whose sums with the dynamic parameters are the kinetic and potential energy."""
    tree = tree.unreduced
    kinetic, potential = (zeros(len(tree.links), DYNAMIC) for _ in range(2))
    where, velocities = poses(tree, q, "base"), _velocities(tree, q, qd)
    for i in tree.links:
        with scope("regressor", f"link{i}"):
            turn = tree.to_file_axes[i]
            w, v = turn @ velocities[i].angular, turn @ velocities[i].linear
            kinetic[i, 0] = (v @ v) * 0.5
            kinetic[i, 1:4] = cross(v, w)
            kinetic[i, 4:COUNT] = _squares(w)
            rates = qd[tree.dofs[i].start : tree.dofs[i].stop]
            kinetic[i, ARMATURE] = sum((rate * rate for rate in rates), zeros(1)[0]) * 0.5
            potential[i, 0] = where.position[i] @ tree.base_acceleration
            potential[i, 1:4] = turn @ (where.rotation[i].T @ tree.base_acceleration)
    return label(kinetic, "kinetic_regressor"), label(potential, "potential_regressor")


def _unit_friction(tree: Tree) -> FrictionModel:
    """Return friction of 1 N m or N at every degree of freedom, with the speed of the robot's own friction."""
    speed = tree.friction.speed if tree.friction else tree.source.friction_speed or SPEED
    return FrictionModel((1.0,) * tree.nv, speed)


def _velocities(tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar]) -> list[SpatialMotion]:
    """Return the velocity of every link's origin in the tree's own axes of the link."""

    def passed(
        link: TreeLink, above: SpatialMotion | None, joint: JointTransform, rates: Sequence[Scalar]
    ) -> tuple[SpatialMotion, SpatialMotion]:
        own = link.motion(rates)
        motion = own if above is None else joint.motion_to_link(above) + own
        return motion, motion

    motions: list[SpatialMotion] = tree.down("velocity", passed, tree.transforms(q), tree.velocities(qd))
    return motions


def _support_axes(tree: Tree, q: Sequence[Scalar]) -> Iterator[Mapping[int, SpatialMotion]]:
    """Yield for each link the axes of the degrees of freedom that move it, in the link's frame as the file has it."""
    joints = tree.transforms(q)
    axes: list[dict[int, SpatialMotion]] = []
    for i in tree.links:
        with scope("axes", f"link{i}"):
            above = axes[tree.parents[i]] if tree.parents[i] >= 0 else {}
            own = {d: joints[i].motion_to_link(axis) for d, axis in above.items()}
            axes.append(own | {d: tree.axis(d) for d in tree.dofs[i]})
            turn = tree.to_file_axes[i]
            yield {d: SpatialMotion(turn @ axis.angular, turn @ axis.linear) for d, axis in axes[i].items()}


def _moments(w: Array, wd: Array) -> Array:
    """Return the moments (6, 3) of unit inertias xx, xy, yy, xz, yz, zz of a link that rotates with w and wd (3,)."""
    dx, dy, dz = wd
    xx, yy, zz = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    xy, xz, yz = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    rows = [
        [dx, xz, -xy],
        [dy - xz, dx + yz, xx - yy],
        [-yz, dy, xy],
        [dz + xy, zz - xx, dx - yz],
        [yy - zz, dz - xy, dy + xz],
        [yz, -xz, dz],
    ]
    return array(rows)


def _squares(w: Array) -> Array:
    """Return the kinetic energies (6,) of unit inertias xx, xy, yy, xz, yz, zz."""
    half = w * 0.5
    return array([half[0] * w[0], w[0] * w[1], half[1] * w[1], w[0] * w[2], w[1] * w[2], half[2] * w[2]])
