"""Derivatives of forward dynamics computed another way, to check the closed form against.

Nothing here is shared with the gradient algorithms: Newton-Euler with 6-vectors, of the links as the robot has them;
∂τ/∂q and ∂τ/∂q̇ by the complex step (exact to rounding, no difference quotient), M from unit accelerations, and numpy's
LU for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Floats
from dynagate.dynamics.configuration import integrated
from dynagate.forces import Force
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.robot import Robot

STEP = 1e-30
"""The complex step squared must vanish in a sum with any value: its error is of that order."""


def forward_dynamics_gradient(
    robot: Robot, inputs: Mapping[str, Floats], forces: Sequence[Force] = ()
) -> dict[str, Floats]:
    """q̈, ∂q̈/∂q, ∂q̈/∂q̇ and M⁻¹, (batch, ...) each, at q (batch, nq), q̇ and τ (batch, nv)."""
    graph = trace(robot, "inverse_dynamics", form="spatial", forces=forces)
    q, qd, tau = (np.asarray(inputs[name], dtype=np.float64) for name in ("q", "qd", "tau"))
    n = robot.nv
    zero = np.zeros_like(qd)

    def torque(**state: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return evaluate(graph, state)["tau"]

    still = torque(q=q, qd=zero, qdd=zero)
    unit = np.eye(n)
    m = np.stack([torque(q=q, qd=zero, qdd=zero + unit[k]) - still for k in range(n)], axis=2)
    qdd = np.linalg.solve(m, (tau - torque(q=q, qd=qd, qdd=zero))[..., None])[..., 0]
    by_q = [torque(q=integrated(robot, q, 1j * STEP * unit[k]), qd=qd + 0j, qdd=qdd + 0j).imag / STEP for k in range(n)]
    by_qd = [torque(q=q + 0j, qd=qd + 1j * STEP * unit[k], qdd=qdd + 0j).imag / STEP for k in range(n)]
    return {
        "qdd": qdd,
        "dqdd_dq": -np.linalg.solve(m, np.stack(by_q, axis=2)),
        "dqdd_dqd": -np.linalg.solve(m, np.stack(by_qd, axis=2)),
        "minv": np.linalg.inv(m),
    }


def relative_errors(got: npt.ArrayLike, expected: npt.ArrayLike, floor: float = 0.0) -> Floats:
    """Relative L2 error per state, (batch,): |got - expected| / max(|expected|, floor) over all entries of a block; the
    absolute error where both are zero. floor: in the block's units."""
    a, b = np.asarray(got, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
    size = np.maximum(np.linalg.norm(b, axis=1), floor)
    return np.linalg.norm(a - b, axis=1) / np.where(size == 0.0, 1.0, size)
