"""Problems and options of the solvers that run on a core."""

from __future__ import annotations

from typing import Any

import numpy as np
from dynagate import robots
from dynagate.control import Cost
from dynagate.control.chip_mppi import MppiOptions
from dynagate.control.ilqr import IlqrOptions
from dynagate.forces.options import StepOptions
from dynagate.robot import Robot

ARM = robots.load("two_joint_arm")
COST = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=10.0)
ILQR = IlqrOptions(6, StepOptions(0.02), 20, 1e-4, 1e-7, 1.0)
WORD = 27


def problems(robot: Robot, batch: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    q, goal, guess = random.uniform(-1.0, 1.0, (3, batch, robot.nv))
    return {"q": q, "qd": 0.0 * q, "goal": goal, "guess": guess}


MPPI = MppiOptions(6, StepOptions(0.02), 9, 0.3, np.array([1.0, 0.1]))


def draws(batch: int, seed: int) -> dict[str, Any]:
    """Problems of MPPI, each with a draw of its own."""
    drawn = {"draw": 500.0 + np.arange(batch), "seed": np.full(batch, 7.0)}
    return {**problems(ARM, batch, seed), "qd": np.full((batch, 2), 0.1), **drawn}
