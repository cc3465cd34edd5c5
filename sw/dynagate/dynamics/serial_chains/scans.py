"""Scan-based algorithms for serial chains of revolute and prismatic joints.

The equations of motion are linear recursions along the chain: velocities and accelerations from the base to the tip,
and forces from the tip to the base. `docs/parallel.md` maps equations to functions.

Reference:
    Yang, Wu & Pan, "A Novel GPU-based Parallel Implementation Scheme and Performance Analysis of Robot Forward Dynamics
    Algorithms", 2016, eqs. 2a to 2c.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from dynagate.base.naming import label, scope
from dynagate.dynamics.factor import factorize, solve
from dynagate.dynamics.recursions.articulated import articulate
from dynagate.dynamics.serial_chains.linear_recursion import linear_recursion
from dynagate.dynamics.spatial import Array, Scalar, SpatialForce, SpatialMotion, array, cross, zeros
from dynagate.dynamics.transforms import FreeTransform, JointTransform
from dynagate.dynamics.tree import Tree
from dynagate.robot import RobotError


def check_serial(tree: Tree) -> None:
    """Raise RobotError with the first link at a branch, or the first joint with several degrees of freedom, if there is
    one.
    """
    robot = tree.robot
    for i, link in enumerate(robot.links):
        if link.joint.nv != 1:
            raise RobotError(
                f"joint '{link.joint.name}' is {link.joint.type}; expected a serial chain of revolute and prismatic "
                "joints. Use another form",
                code="DG-FUNCTION-044",
            )
        if link.parent != i - 1:
            parent = f"link '{robot.links[link.parent].name}'" if link.parent >= 0 else "the base"
            raise RobotError(
                f"robot '{robot.name}' branches at {parent}: links '{robot.links[link.parent + 1].name}' and "
                f"'{link.name}' hang from it; expected a serial chain. Use another form",
                code="DG-FUNCTION-045",
            )


class _Columns(dict[int, Any]):
    """Spatial vectors for several unit accelerations, by degree of freedom; missing entries are zero."""

    def __add__(self, other: _Columns) -> _Columns:
        return _Columns(
            {
                j: self[j] + other[j] if j in self and j in other else self.get(j, other.get(j))
                for j in {**self, **other}
            }
        )


def _poses(joints: Sequence[JointTransform]) -> list[FreeTransform]:
    one = array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    return [FreeTransform(joint.after(one), joint.translation) for joint in joints]


def _compose(outer: FreeTransform, inner: FreeTransform) -> FreeTransform:
    """Return the composition of two poses, Ad_outer Ad_inner."""
    return FreeTransform(outer.rotation @ inner.rotation, outer.to_parent(inner.translation) + outer.translation)


def _motions(poses: Sequence[FreeTransform], constants: Sequence[SpatialMotion], part: str) -> list[SpatialMotion]:
    """Return (I - Γ)⁻¹ c from base to tip: each link's motion is its parent's, in the link's frame, plus c."""
    return linear_recursion(poses, constants, FreeTransform.motion_to_link, lambda b, a: _compose(a, b), part)


def _forces(poses: Sequence[FreeTransform], constants: Sequence[SpatialForce], part: str) -> list[SpatialForce]:
    """Return (I - Γ)⁻ᵀ c from tip to base: each link's force is that of the next link, in this link's frame, plus c."""
    maps = [*poses[1:], poses[0]]  # link i is reached from link i + 1
    return linear_recursion(maps, constants, FreeTransform.force_to_parent, _compose, part, reverse=True)


def inverse_dynamics(
    tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], qdd: Sequence[Scalar], external: Array | None = None
) -> list[Scalar]:
    """Return τ (nv,) in N m, or N for joints that slide, by three scans (eqs. 2a to 2d).

    Args:
        tree: The robot.
        q: Configuration (nv,), rad or m.
        qd: Velocities (nv,), rad/s or m/s.
        qdd: Accelerations (nv,), rad/s² or m/s².
        external: Forces on the links (links, 6), [moment; force] at each link's origin in its frame, N m and N.
    """
    joints = tree.transforms(q)
    poses = _poses(joints)
    rate = [tree.joint_motion(i, qd) for i in tree.links]
    velocity = _motions(poses, rate, "scan_v")
    change = []
    for i in tree.links:
        with scope("scan_id", f"link{i}"):
            # the paper's (2b) has the opposite sign: [V, S q̇] = -ad_{S q̇}(Γ V)
            change.append(tree.joint_motion(i, qdd) + velocity[i].cross(rate[i]))
    change[0] = change[0] + SpatialMotion(zeros(3), joints[0].to_link(tree.base_acceleration))
    acceleration = _motions(poses, change, "scan_a")
    own = []
    for i in tree.links:
        with scope("scan_id", f"link{i}"):
            body = tree.inertias[i]
            needed = body @ acceleration[i] + velocity[i].cross_force(body @ velocity[i])  # (2c), sign corrected
            own.append(needed if external is None else needed - tree.external_force(i, external))
    force = _forces(poses, own, "scan_f")
    tau = []
    for i in tree.links:
        with scope("scan_id", f"link{i}"):
            tau.append(label(tree.joint_torque(i, force[i], qd, qdd), "tau"))
    return tau


def net_torque(
    tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], tau: Sequence[Scalar], external: Array | None
) -> list[Scalar]:
    """Return τ_δ (nv,), eq. 7: the torque in excess of the one that keeps all joint accelerations at zero."""
    bias = inverse_dynamics(tree, q, qd, [0.0] * tree.nv, external)
    return [t - b for t, b in zip(tau, bias, strict=True)]


def mass_matrix(tree: Tree, q: Sequence[Scalar]) -> Array:
    """Return M (nv, nv), kg m² or kg: inverse dynamics of unit accelerations, with all columns in the same two
    scans.
    """
    poses = _poses(tree.transforms(q))

    def motion_to_link(pose: FreeTransform, columns: _Columns) -> _Columns:
        return _Columns({j: pose.motion_to_link(motion) for j, motion in columns.items()})

    def force_to_parent(pose: FreeTransform, columns: _Columns) -> _Columns:
        return _Columns({j: pose.force_to_parent(force) for j, force in columns.items()})

    units = [_Columns({i: tree.axis(i)}) for i in tree.links]
    acceleration = linear_recursion(poses, units, motion_to_link, lambda b, a: _compose(a, b), "scan_a")
    own = []
    for i in tree.links:
        with scope("jsiia", f"link{i}"):
            own.append(_Columns({j: tree.inertias[i] @ motion for j, motion in acceleration[i].items()}))
    maps = [*poses[1:], poses[0]]
    force = linear_recursion(maps, own, force_to_parent, _compose, "scan_f", reverse=True)
    m = zeros(tree.nv, tree.nv)
    for i in tree.links:
        with scope("jsiia", f"link{i}"):
            for j in range(i + 1):
                m[i, j] = m[j, i] = label(tree.along(i, force[i][j]) + (tree.armature[i] if i == j else 0.0), f"m_{j}")
    return m


def by_joint_space_inertia(
    tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], tau: Sequence[Scalar], external: Array | None = None
) -> list[Scalar]:
    """Return q̈ (nv,) by the joint-space inertia inversion algorithm: M from scans, then M q̈ = τ_δ by LᵀDL."""
    return solve(tree, factorize(tree, mass_matrix(tree, q)), net_torque(tree, q, qd, tau, external))


def by_articulated_inertia(
    tree: Tree, q: Sequence[Scalar], qd: Sequence[Scalar], tau: Sequence[Scalar], external: Array | None = None
) -> list[Scalar]:
    """Return q̈ (nv,) by the hybrid articulated-body algorithm: inertias link by link, then the factors of M⁻¹ (eq. 8)
    by scans.

    M⁻¹ = [1 - Sᵀ Y Π]ᵀ D⁻¹ [1 - Sᵀ Y Π], where Y solves a recursion with the 6 × 6 maps (1 - S Uᵀ D⁻¹) X.
    """
    joints = tree.transforms(q)
    factors, _ = articulate(tree, joints)
    gain: list[Array] = []  # Uᵀ X D⁻¹ (6,): q̈ of a free joint per unit of its parent's acceleration
    maps: list[Array] = []
    for i, pose in enumerate(_poses(joints)):
        with scope("abia", f"link{i}"):
            u, inverse_d = factors[i]
            pulled = pose.force_to_parent(u.scaled(inverse_d))
            gain.append(label(array([*pulled.angular, *pulled.linear]), "gain"))
            moved = _adjoint(pose)
            k = 5 if tree.slides(i) else 2
            moved[k] = moved[k] - gain[i]
            maps.append(label(moved, "x"))
    net = net_torque(tree, q, qd, tau, external)
    loads = [*(gain[i + 1] * net[i + 1] for i in range(tree.nv - 1)), zeros(6)]
    below = linear_recursion(
        [*(x.T for x in maps[1:]), maps[0]], loads, operator.matmul, operator.matmul, "scan_z", reverse=True
    )
    drive: list[Scalar] = []
    pushed: list[Array] = []
    for i in tree.links:
        with scope("abia", f"link{i}"):
            k = 5 if tree.slides(i) else 2
            drive.append(label((net[i] - below[i][k]) * factors[i].inverse_d, "drive"))
            pushed.append(zeros(6))
            pushed[i][k] = drive[i]
    motion = linear_recursion(maps, pushed, operator.matmul, operator.matmul, "scan_y")
    qdd = drive[:1]
    for i in tree.links[1:]:
        with scope("abia", f"link{i}"):
            qdd.append(label(drive[i] - gain[i] @ motion[i - 1], "qdd"))
    return qdd


def _adjoint(pose: JointTransform) -> Array:
    """Return X (6, 6), which expresses a spatial motion in the link's frame: [[Rᵀ, 0], [-Rᵀ [t]×, Rᵀ]]."""
    x = zeros(6, 6)
    for column in range(3):
        unit = zeros(3)
        unit[column] = 1.0
        turned = pose.to_link(unit)
        x[:3, column] = x[3:, column + 3] = turned
        x[3:, column] = pose.to_link(cross(unit, pose.translation))
    return x
