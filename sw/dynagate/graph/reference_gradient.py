"""Reference derivatives of forward dynamics, against which the closed form is checked.

They share no code with the gradient algorithms: Newton-Euler with 6-vectors over the links as in the robot's file,
∂τ/∂q and ∂τ/∂q̇ by the complex step (exact to rounding, without a difference quotient), M from unit accelerations, and
numpy's LU.
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
"""Size of the complex step. Its square, the order of the error, vanishes in a sum with any value."""


def forward_dynamics_gradient(
    robot: Robot, inputs: Mapping[str, Floats], forces: Sequence[Force] = ()
) -> dict[str, Floats]:
    """Return q̈, ∂q̈/∂q, ∂q̈/∂q̇ and M⁻¹, (batch, ...) each.

    Args:
        robot: The robot.
        inputs: q (batch, nq), qd and tau (batch, nv), in rad, m, s and N.
        forces: Joint friction.
    """
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
    """Return the relative L2 error of each state, (batch,): |got - expected| / max(|expected|, floor) over all entries.

    Where both are zero, return the absolute error.

    Args:
        got: Computed values (batch, ...).
        expected: Reference values (batch, ...).
        floor: Smallest divisor, in the unit of the values.
    """
    a, b = np.asarray(got, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
    size = np.maximum(np.linalg.norm(b, axis=1), floor)
    return np.linalg.norm(a - b, axis=1) / np.where(size == 0.0, 1.0, size)
