"""Forward dynamics of a serial chain by the constraint force algorithm.

The unknowns are the forces between the links: F = S τ_δ + W x, where S is the joint's direction and W spans all others.
With the block-tridiagonal matrix K = (1 - Γ) J⁻¹ (1 - Γ)ᵀ, which needs no recursion,

    Wᵀ K W x = -Wᵀ K S τ_δ    and then    q̈ = Sᵀ K F.

A rotor of inertia r takes the torque r q̈ away from S. It adds an unknown y = √r q̈: W gets the column -√r S, and the
matrix gets 1 at that diagonal entry. The formulas do not change.

Reference:
    Fijany, Sharf & D'Eleuterio 1995; Yang, Wu & Pan 2016, eqs. 9 to 17.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynagate.base.naming import label, scope
from dynagate.dynamics.serial_chains.block_tridiagonal import odd_even_elimination
from dynagate.dynamics.serial_chains.scans import check_serial, inverse_dynamics, net_torque
from dynagate.dynamics.spatial import Array, Scalar, array, cos, sin, zeros
from dynagate.dynamics.tree import Tree
from dynagate.robot import RobotError
from dynagate.robot.kinds import JointKind
from dynagate.robot.vectors import summed


def check_bodies(tree: Tree) -> None:
    """Raise RobotError if the robot is not a serial chain, or a link has a singular spatial inertia; the link is
    named.
    """
    check_serial(tree)
    for link in tree.robot.links:
        moments = np.linalg.eigvalsh(np.array(link.inertia))
        if not (link.mass > 0.0 and moments[0] > 0.0):
            raise RobotError(
                f"link '{link.name}' has mass {link.mass:g} kg and least moment of inertia {moments[0]:g} kg m²; the "
                "constraint force algorithm needs positive ones in every link. Use another form",
                code="DG-FUNCTION-043",
            )


class ChainMatrices(NamedTuple):
    """Constant parts of K, in the frames of the links."""

    mobility: list[Array]
    """J_i⁻¹ (6, 6) of each link."""
    fixed: list[Array]
    """X_i at q = 0."""
    above: list[Array]
    """The parent's mobility expressed in link i at q = 0."""
    direction: list[int]
    """Index of the 1 in S_i."""
    basis: list[Array]
    """W_i (6, 5 or 6)."""


def constants(tree: Tree) -> ChainMatrices:
    """Return the constant matrices of the links with their complete masses, because regrouped inertias are not
    invertible.
    """
    unreduced = tree.unreduced
    mobility = [_mobility(link.mass, np.array(link.com), np.array(link.inertia)) for link in unreduced.robot.links]
    fixed = [
        _adjoint(np.array(link.joint.rotation), np.array(link.joint.translation)) for link in unreduced.robot.links
    ]
    above = [np.zeros((6, 6)), *(summed(x @ p @ x.T) for x, p in zip(fixed[1:], mobility, strict=False))]
    direction = [5 if unreduced.slides(i) else 2 for i in unreduced.links]
    basis = [_basis(k, rotor) for k, rotor in zip(direction, unreduced.armature, strict=True)]
    mobility, fixed, above = ([array(matrix) for matrix in part] for part in (mobility, fixed, above))
    return ChainMatrices(mobility, fixed, above, direction, basis)


def _hat(v: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def _mobility(mass: float, com: np.ndarray, inertia: np.ndarray) -> np.ndarray:
    """Return J⁻¹ (6, 6) about the link's origin: [[I⁻¹, -I⁻¹ c×], [c× I⁻¹, 1/m - c× I⁻¹ c×]]."""
    turning, lever = summed(np.linalg.inv(inertia)), _hat(com)
    turning = 0.5 * (turning + turning.T)
    moved = summed(lever @ turning)
    return np.block([[turning, moved.T], [moved, np.eye(3) / mass - summed(moved @ lever)]])


def _adjoint(rotation: np.ndarray, translation: np.ndarray) -> np.ndarray:
    turned = summed(-rotation.T @ _hat(translation))
    return np.block([[rotation.T, np.zeros((3, 3))], [turned, rotation.T]])


def _basis(direction: int, rotor: float) -> Array:
    columns = [k for k in range(6) if k != direction]
    basis = np.eye(6)[:, columns]
    return array(np.column_stack([basis, -math.sqrt(rotor) * np.eye(6)[direction]]) if rotor else basis)


def _turn(kind: JointKind, i: int, q: Scalar) -> Array:
    """Return the joint's part of X_i (6, 6): a rotation about z, or a translation along z."""
    x = array(np.eye(6))
    if kind.sliding:
        x[3, 1], x[4, 0] = q, -q
        return x
    c, s = label(cos(q), f"cos_{i}"), label(sin(q), f"sin_{i}")
    for at in (0, 3):
        x[at : at + 2, at : at + 2] = array([[c, s], [-s, c]])
    return x


def tridiagonal(tree: Tree, links: ChainMatrices, q: Sequence[Scalar]) -> tuple[list[Array], list[Array]]:
    """Return K_ii (n,) and K_{i,i+1} (n - 1,) as blocks (6, 6), each computed from a link and the next one."""
    turns = [_turn(link.joint.kind, i, q[i]) for i, link in enumerate(tree.robot.links)]
    diagonal, upper = [], []
    for i in tree.links:
        with scope("cfa", f"link{i}"):
            diagonal.append(label(links.mobility[i] + _congruent(turns[i], links.above[i]), "k"))
            if i + 1 < len(turns):
                upper.append(label(-((links.mobility[i] @ links.fixed[i + 1].T) @ turns[i + 1].T), "n"))
    return diagonal, upper


def _congruent(turn: Array, matrix: Array) -> Array:
    """Return X A Xᵀ for a symmetric A, with each pair of mirrored entries computed once."""
    half = turn @ matrix
    result = zeros(6, 6)
    for a in range(6):
        for b in range(a, 6):
            result[a, b] = result[b, a] = half[a] @ turn[b]
    return result


def forward_dynamics(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    external: Array | None = None,
) -> list[Scalar]:
    """Return q̈ (nv,) of a serial chain with a longest path that grows with log2(nv).

    Scans compute τ_δ, and odd-even elimination solves for x.

    Args:
        tree: The robot.
        q: Configuration (nv,), rad or m.
        qd: Velocities (nv,), rad/s or m/s.
        tau: Joint torques (nv,), N m or N.
        external: Forces on the links (links, 6), [moment; force] at each link's origin in its frame, N m and N.

    Reference:
        Yang, Wu & Pan 2016, algorithm 1.
    """
    chain = _equations(tree, q)
    return _accelerations(chain, net_torque(tree, q, qd, tau, external))


def refined_forward_dynamics(
    tree: Tree,
    q: Sequence[Scalar],
    qd: Sequence[Scalar],
    tau: Sequence[Scalar],
    external: Array | None = None,
) -> list[Scalar]:
    """Return q̈ (nv,) as `forward_dynamics`, corrected once by the torque that inverse dynamics of q̈ misses.

    The correction uses the same equations, so only their right-hand sides are computed again.

    Args:
        tree: The robot.
        q: Configuration (nv,), rad or m.
        qd: Velocities (nv,), rad/s or m/s.
        tau: Joint torques (nv,), N m or N.
        external: Forces on the links (links, 6), [moment; force] at each link's origin in its frame, N m and N.
    """
    chain = _equations(tree, q)
    qdd = _accelerations(chain, net_torque(tree, q, qd, tau, external))
    needed = inverse_dynamics(tree, q, qd, qdd, external)
    correction = _accelerations(chain, [t - n for t, n in zip(tau, needed, strict=True)])
    return [label(a + b, "qdd") for a, b in zip(qdd, correction, strict=True)]


class _Equations(NamedTuple):
    """The equations of a chain at a configuration, whose right-hand sides follow from the net torques."""

    links: ChainMatrices
    k_diagonal: list[Array]
    k_upper: list[Array]
    diagonal: list[Array]
    """Wᵀ K W, diagonal blocks."""
    upper: list[Array]
    """Wᵀ K W, blocks above the diagonal."""


def _equations(tree: Tree, q: Sequence[Scalar]) -> _Equations:
    links = constants(tree)
    k_diagonal, k_upper = tridiagonal(tree, links, q)
    basis, diagonal, upper = links.basis, [], []
    for i in tree.links:
        with scope("cfa", f"link{i}"):
            a = basis[i].T @ k_diagonal[i] @ basis[i]
            if len(a) == 6:
                a[5, 5] = a[5, 5] + 1.0
            diagonal.append(label(a, "a"))
            if i + 1 < len(basis):
                upper.append(label(basis[i].T @ k_upper[i] @ basis[i + 1], "u"))
    return _Equations(links, k_diagonal, k_upper, diagonal, upper)


def _accelerations(chain: _Equations, net: Sequence[Scalar]) -> list[Scalar]:
    """Return the accelerations (nv,) that net torques (nv,) cause."""
    (_, _, _, along, basis), k_diagonal, k_upper, diagonal, upper = chain.links, *chain[1:]
    count, right, free = len(net), [], []
    for i in range(count):
        with scope("cfa", f"link{i}"):
            pushed = k_diagonal[i][:, along[i]] * net[i]  # K S τ_δ
            if i + 1 < count:
                pushed = pushed + k_upper[i][:, along[i + 1]] * net[i + 1]
            if i:
                pushed = pushed + k_upper[i - 1][along[i - 1]] * net[i - 1]
            right.append(label(-(basis[i].T @ pushed), "r"))
            free.append(pushed[along[i]])
    forces = odd_even_elimination(diagonal, upper, right)
    qdd = []
    for i in range(count):
        with scope("cfa", f"link{i}"):
            total = free[i] + (k_diagonal[i][along[i]] @ basis[i]) @ forces[i]
            if i + 1 < count:
                total = total + (k_upper[i][along[i]] @ basis[i + 1]) @ forces[i + 1]
            if i:
                total = total + (k_upper[i - 1][:, along[i]] @ basis[i - 1]) @ forces[i - 1]
            qdd.append(label(total, "qdd"))
    return qdd
