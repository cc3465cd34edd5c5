"""Mimic joints: the linear map between the coordinates of a robot and those of its individual joints.

The joints' coordinates follow from the robot's by q = G q_r + offset with a constant matrix G. Therefore q̇ = G q̇_r,
τ_r = Gᵀ τ and M_r = Gᵀ M G. For a robot without mimic joints the map is the identity and returns its argument.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.naming import label, scope
from dynagate.dynamics.spatial import Array, Scalar, zeros
from dynagate.robot.model import Robot


class _Follows(NamedTuple):
    """One joint coordinate as an affine function of one robot coordinate: ratio * robot coordinate + offset."""

    place: int
    """Index of the robot coordinate."""
    ratio: float
    offset: float = 0.0


class MimicMap:
    """The matrix G and the offset of a robot, and, as an `Elimination`, the sparsity of the factor of M_r.

    Attributes:
        is_identity: Whether no joint mimics another.
        leaders_q: For each number of q_r, the index of the joint coordinate that equals it.
        leaders: For each number of v_r, the index of the joint velocity that equals it.
    """

    def __init__(self, robot: Robot) -> None:
        places = {link.joint.name: (q.start, v.start) for link, q, v in robot.slices()}
        self.nq, self.nv, self.is_identity = robot.nq, robot.nv, not robot.followers
        self._q: list[_Follows] = []
        self._v: list[_Follows] = []
        self.leaders_q: list[int] = []
        self.leaders: list[int] = []
        self._scopes: list[tuple[str, ...]] = []
        for i, (link, q, v) in enumerate(robot.slices()):
            if mimic := link.joint.mimic:
                iq, iv = places[mimic.joint]
                self._q.append(_Follows(iq, mimic.multiplier, mimic.offset))
                self._v.append(_Follows(iv, mimic.multiplier))
            else:
                self.leaders_q += range(len(self._q), len(self._q) + link.joint.nq)
                self.leaders += range(len(self._v), len(self._v) + link.joint.nv)
                self._q += [_Follows(k, 1.0) for k in range(q.start, q.stop)]
                self._v += [_Follows(k, 1.0) for k in range(v.start, v.stop)]
                self._scopes += scopes_of_joint(i, range(v.start, v.stop))
        if not self.is_identity:
            self._scopes = [(f"dof{d}",) for d in range(self.nv)]
        self.chain = self._chains(robot)

    def _chains(self, robot: Robot) -> list[list[int]]:
        """Return, for each coordinate, the columns of its row in the factor of M_r."""
        if self.is_identity:
            dofs = [range(v.start, v.stop) for _, _, v in robot.slices()]
            support = [[e for j in robot.ancestors(i) for e in dofs[j]] for i in range(len(robot.links))]
            return [[e for e in support[i] if e <= d] for i, own in enumerate(dofs) for d in own]
        used = np.zeros((len(self._v), self.nv), dtype=bool)
        for d, follows in enumerate(self._v):
            used[d, follows.place] = True
        return _elimination(robot.uncoupled(), used)

    def where(self, d: int) -> tuple[str, ...]:
        """Return the scope that names operations of degree of freedom d."""
        return self._scopes[d]

    def configuration(self, q: Any) -> Any:
        """Return the joints' q = G q_r + offset for the robot's q_r (nq,)."""
        if self.is_identity:
            return q
        return [_times(q[f.place], f.ratio) + f.offset if f.offset else _times(q[f.place], f.ratio) for f in self._q]

    def rates(self, v: Any) -> Any:
        """Return G v: the joints' velocities or accelerations for the robot's (nv,)."""
        return v if self.is_identity else [_times(v[f.place], f.ratio) for f in self._v]

    def torques(self, tau: Any) -> Any:
        """Return Gᵀ τ (nv,): the robot's generalized forces for the joints' torques."""
        if self.is_identity:
            return tau
        result: list[Scalar] = [0.0] * self.nv
        for torque, f in zip(tau, self._v, strict=True):
            result[f.place] = result[f.place] + _times(torque, f.ratio)
        return result

    def columns(self, matrix: Array) -> Array:
        """Return X G (..., nv) for a matrix X whose last axis is over the joints' degrees of freedom."""
        if self.is_identity:
            return matrix
        result = zeros(*matrix.shape[:-1], self.nv)
        for d, f in enumerate(self._v):
            result[..., f.place] = result[..., f.place] + _each(matrix[..., d], f.ratio)
        return result

    def rows(self, matrix: Array) -> Array:
        """Return Gᵀ X: (nv, ...) of (joints' degrees of freedom, ...)."""
        return matrix if self.is_identity else np.moveaxis(self.columns(np.moveaxis(matrix, 0, -1)), -1, 0)

    def matrix(self, matrix: Array) -> Array:
        """Return Gᵀ X G (nv, nv)."""
        return matrix if self.is_identity else self.columns(self.columns(matrix).T).T

    def symmetric(self, matrix: Array) -> Array:
        """Return Gᵀ X G for a symmetric X, with mirrored entries that are the same object."""
        if self.is_identity:
            return matrix
        result = self.matrix(matrix)
        for a in range(self.nv):
            with scope("mimic", *self.where(a)):
                for b in range(a + 1):
                    result[b, a] = label(result[a, b], f"m_{b}")
        return result


def scopes_of_joint(link: int, dofs: range) -> list[tuple[str, ...]]:
    """Return the scope of each degree of freedom of a joint: the link, then the degree of freedom if there are
    several.
    """
    return [(f"link{link}",) if len(dofs) == 1 else (f"link{link}", f"dof{d}") for d in dofs]


def _times(x: Scalar, ratio: float) -> Scalar:
    return x if ratio == 1.0 else -x if ratio == -1.0 else x * ratio


def _each(values: Array, ratio: float) -> Any:
    return values if ratio == 1.0 else -values if ratio == -1.0 else values * ratio


def _elimination(free: Robot, used: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Return, for each coordinate, the columns of its row in the factor of M_r: its ancestors in the elimination tree.

    Args:
        free: The robot with all joints free.
        used: Which coordinates (nv,) each of its degrees of freedom follows.

    Reference:
        Liu, "The role of elimination trees in sparse factorization", 1990.
    """
    dofs = [range(v.start, v.stop) for _, _, v in free.slices()]
    full = np.zeros((free.nv, free.nv), dtype=bool)
    for i in range(len(free.links)):
        for j in free.ancestors(i):
            full[np.ix_(dofs[i], dofs[j])] = full[np.ix_(dofs[j], dofs[i])] = True
    filled = (used.T.astype(int) @ full.astype(int) @ used.astype(int)) > 0
    chain: list[list[int]] = [[] for _ in range(len(filled))]
    above = [-1] * len(filled)
    for k in reversed(range(len(filled))):
        lower = np.flatnonzero(filled[k, :k])
        filled[np.ix_(lower, lower)] = True
        above[k] = int(lower[-1]) if len(lower) else -1
    for k in range(len(filled)):
        chain[k] = [*(chain[above[k]] if above[k] >= 0 else []), k]
    return chain
