"""Time for ten seconds of a 10-link chain by the step: Figures 2 (c) and 3 (d) of Pan & Manocha (2018)."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from examples.papers.position_based.figure import Data, axes, main, seconds
from examples.papers.position_based.integrator import PositionBased
from examples.papers.position_based.newton_euler import NewtonEuler
from examples.papers.position_based.robots import bent, chain

STEPS = (0.001, 0.002, 0.0025, 0.004, 0.008, 0.016, 0.032, 0.05, 0.064, 0.128)
LARGEST = 0.0025
"""s: the largest step of semi-implicit Euler in the paper; here its energy has doubled by then."""

METHODS: dict[str, dict[str, Any]] = {
    "JTJ-LM, energy": {"method": "lm"},
    "LM, energy": {"method": "lm-full"},
    "LM, forces": {"objective": "forces"},
}
"""Equation 5 with two Hessians, and Equation 7 at K = 2, the paper's collocation of second order."""


def measure(short: bool) -> Data:
    robot = chain(4 if short else 10)
    q0, span, repeats = bent(robot), 1.0 if short else 10.0, 1 if short else 3
    data: Data = {"span": span, "steps": list(STEPS), "methods": {}, "semi-implicit": {}}
    for name, options in METHODS.items():
        rows = []
        for dt in STEPS:
            sim, count = PositionBased(robot, dt, **options), round(span / dt)
            swing = sim.run(q0, None, count)
            taken = seconds(lambda sim=sim, count=count: sim.run(q0, None, count), repeats)
            rows.append(
                {
                    "dt": dt,
                    "seconds": taken,
                    "microseconds a step": taken / count * 1e6,
                    "iterations": float(swing.iterations.mean()),
                    "stuck": int((~swing.converged).sum()),
                    "energy gained": float(np.max(swing.energy - swing.energy[0])),
                }
            )
        data["methods"][name] = rows
    for dt in STEPS[:3]:
        euler, count = NewtonEuler(robot, dt), round(span / dt)
        data["semi-implicit"][str(dt)] = seconds(lambda e=euler, count=count: e.run(q0, None, count), repeats)
    data["semi-implicit Euler's time at its largest step, over that at 0.05 s"] = {
        name: data["semi-implicit"][str(LARGEST)] / rows[STEPS.index(0.05)]["seconds"]
        for name, rows in data["methods"].items()
    }
    return data


def draw(data: Data) -> Figure:
    figure, (whole, each, its) = axes(3)
    for method, rows in data["methods"].items():
        whole.loglog(data["steps"], [row["seconds"] for row in rows], "o-", label=method)
        each.loglog(data["steps"], [row["microseconds a step"] for row in rows], "o-", label=method)
        its.loglog(data["steps"], [row["iterations"] for row in rows], "o-", label=method)
    peers = data["semi-implicit"]
    whole.loglog([float(dt) for dt in peers], list(peers.values()), "s-", label="semi-implicit Euler")
    whole.set(xlabel="dt (s)", ylabel=f"time for {data['span']:g} s (s)")
    each.set(xlabel="dt (s)", ylabel="time a step (µs)", ylim=(1, None))
    its.set(xlabel="dt (s)", ylabel="iterations a step")
    whole.legend()
    return figure


if __name__ == "__main__":
    main("cost", measure, draw, sys.argv[1:])
