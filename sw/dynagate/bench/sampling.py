"""Benchmark of MPPI against its rollouts: calls of the solver alternate with calls of its loop in C on the same
torques.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.control import Cost
from dynagate.host.mppi import Mppi
from dynagate.native.loop import LoopKernel
from dynagate.robot import Robot

SAMPLES, KNOTS, NODES, DT = 1024, 30, 6, 0.02
SPREAD, TEMPERATURE = 1.0, 1.0
"""N m or N; in the cost's unit."""
CALLS = 50
"""Number of calls in a round."""
DTYPES = ("float32", "float64")


def turns(robot: Robot, cost: Cost, q0: Array, goal: Array) -> Iterator[tuple[str, Callable[[], int]]]:
    """Yield functions that make CALLS calls near torques that hold the robot at q0 (nq,), and that return CALLS.

    Their names are "mppi" or "rollouts" with a dtype.
    """
    options: dict[str, Any] = {"knots": KNOTS, "dt": DT, "cost": cost, "samples": SAMPLES, "nodes": NODES}
    for dtype in DTYPES:
        solver = Mppi(robot, spread=SPREAD, temperature=TEMPERATURE, dtype=dtype, **options)
        tau, still = solver.holding(q0[None])[0], np.zeros(robot.nv)
        known = {"goal": goal, "hold": still}
        arrays = {each.at(name, last=False): known[name] for name, each in solver.inputs.items()}
        arrays |= {"q0": q0, "qd0": still, "total": np.zeros(())}
        inputs = {name: x[None].astype(dtype) for name, x in arrays.items()}
        inputs["tau"] = solver.torques(tau[None], 0)[0]
        outputs = {"cost": np.empty(SAMPLES, dtype)}
        run = LoopKernel(solver.loop, dtype).bound(inputs, outputs, SAMPLES, 1)
        yield f"mppi_{dtype}", partial(repeated, partial(solver, q0, still, tau, goal=goal))
        yield f"rollouts_{dtype}", partial(repeated, run)


def repeated(call: Callable[[], Any]) -> int:
    """Make CALLS calls and return CALLS."""
    for _ in range(CALLS):
        call()
    return CALLS


def text(result: dict[str, Any]) -> list[str]:
    """Return a table of the figures. `result` holds the ns of a call by the names of `turns`."""
    lines = [f"MPPI, {SAMPLES} samples of {KNOTS} knots, one thread, processor time"]
    lines.append(f"{'':<34}{'µs a call':>16}{'rollouts / call':>18}")
    for dtype in DTYPES:
        alone, call = (result[f"{name}_{dtype}"]["ns"] for name in ("rollouts", "mppi"))
        lines.append(f"{f'rollouts with their cost, {dtype}':<34}{alone / 1e3:>16.1f}")
        lines.append(f"{f'a call, {dtype}':<34}{call / 1e3:>16.1f}{alone / call:>18.2f}")
    return lines
