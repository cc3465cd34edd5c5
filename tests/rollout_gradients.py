"""Compare the gradient of a rollout with complex steps of its graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from dynagate import Robot, Rollout, evaluate, integrate, neutral
from dynagate.graph.reference_gradient import STEP
from dynagate.integrators.step import step_graph

STEPS, DT = 5, 0.01


def cost_of(q: np.ndarray, qd: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """A cost of all states that is no sum over their numbers alone: (batch, steps + 1, ·) -> (batch,)."""
    return np.einsum("bsi,i->b", np.sin(q), weights[: q.shape[2]]) + np.einsum("bsi,bsi->b", qd, qd) / 2


def check_gradient(robot: Robot, **options: Any) -> None:
    n, batch = robot.nv, 3
    random = np.random.default_rng(7)
    weights = random.normal(size=robot.nq)
    q0 = integrate(robot, np.tile(neutral(robot), (batch, 1)), random.uniform(-0.8, 0.8, (batch, n)))
    qd0, tau = random.uniform(-0.5, 0.5, (batch, n)), random.uniform(-0.1, 0.1, (batch, STEPS, n))
    rollout = Rollout(robot, steps=STEPS, dt=DT, device="numpy", **options)
    motion = rollout(q0, qd0, tau)
    unit = 1j * STEP * np.eye(n)
    by_position = np.empty((batch, STEPS + 1, n))
    for k in range(n):
        moved = integrate(robot, motion.q.reshape(-1, robot.nq), unit[k]).reshape(motion.q.shape)
        by_position[..., k] = np.einsum("bsi,i->bs", np.sin(moved), weights).imag / STEP
    gradient = rollout.vjp(motion, tau, by_position, motion.qd)

    along = {part: random.normal(size=value.shape) for part, value in gradient.items()}
    body = step_graph(robot, rollout.options)
    q = integrate(robot, q0, 1j * STEP * along["q0"])
    qd, moved_tau = qd0 + 1j * STEP * along["qd0"], tau + 1j * STEP * along["tau"]
    states = [(q, qd)]
    held = {"active": np.ones((batch, len(robot.constraints)))} if rollout.options.constrained else {}
    for k in range(STEPS):
        after = evaluate(body, {"q": states[-1][0], "qd": states[-1][1], "tau": moved_tau[:, k], **held})
        states.append((after["q_next"], after["qd_next"]))
    positions, velocities = (np.stack(each, axis=1) for each in zip(*states, strict=True))
    np.testing.assert_allclose(positions.real, motion.q, rtol=1e-9, atol=1e-9)
    expected = cost_of(positions, velocities, weights).imag / STEP
    slope = sum((gradient[part] * along[part]).reshape(batch, -1).sum(axis=1) for part in gradient)
    np.testing.assert_allclose(slope, expected, rtol=1e-9)
