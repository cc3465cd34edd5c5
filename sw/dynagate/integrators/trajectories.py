"""Motions inside an operating region and the torques that cause them, on which rollouts are checked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynagate.base.arrays import Array
from dynagate.dynamics.configuration import integrated
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import DEFAULT_ACCELERATION, Region

FREQUENCIES = (0.2, 1.0)
"""Hz, of each degree of freedom's motion."""
SWING = 1.0
"""rad or m, the most that a degree of freedom without a range of positions swings to each side."""


class Motions(NamedTuple):
    """q0 (count, nq), qd0 (count, nv) and tau (count, steps, nv), N m or N."""

    q0: Array
    qd0: Array
    tau: Array


def motions(region: Region, steps: int, dt: float, count: int, seed: int) -> Motions:
    """Return torques with which semi-implicit Euler in float64 follows sinusoids inside a region.

    Args:
        region: The operating region.
        steps: Number of steps.
        dt: Time step in s.
        count: Number of motions.
        seed: Seed of the generator.
    """
    random = np.random.default_rng(seed)
    robot = region.robot
    rate = 2.0 * np.pi * random.uniform(*FREQUENCIES, (count, robot.nv))
    low, high = _ranges(region)
    fastest = np.minimum(np.asarray(region.velocity), (high - low) / 4.0 * rate)
    accelerations = np.asarray(region.acceleration or [DEFAULT_ACCELERATION] * robot.nv)
    speed = random.uniform(0.0, 1.0, rate.shape) * np.minimum(fastest, accelerations / rate)
    phase = random.uniform(0.0, 2.0 * np.pi, rate.shape)
    swing = speed / rate
    q = region.sample("mass_matrix", count, seed)["q"]
    for link, at, dof in robot.slices():
        if not link.joint.has_quaternion:
            # of a sine's integral, the middle lies cos(phase) from its beginning
            middle = random.uniform(low[dof] + swing[:, dof], high[dof] - swing[:, dof])
            q[:, at] = middle - swing[:, dof] * np.cos(phase[:, dof])
    q0, velocities = q, speed * np.sin(phase)
    torques = []
    inverse = trace(robot, "inverse_dynamics")
    for k in range(steps):
        after = speed * np.sin(phase + rate * (k + 1) * dt)
        state = {"q": q, "qd": velocities, "qdd": (after - velocities) / dt}
        torques.append(evaluate(inverse, state)["tau"])
        q, velocities = integrated(robot, q, after * dt), after
    return Motions(q0, speed * np.sin(phase), np.stack(torques, axis=1))


def _ranges(region: Region) -> tuple[Array, Array]:
    """Return the range of positions of each degree of freedom; a quaternion stays near its start."""
    low, high = np.full(region.robot.nv, -SWING), np.full(region.robot.nv, SWING)
    for link, at, dof in region.robot.slices():
        if not link.joint.has_quaternion:
            low[dof], high[dof] = region.lower[at], region.upper[at]
    return low, high
