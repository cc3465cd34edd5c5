"""Many trajectories on a CPU's threads: what Figure 4 of Pan & Manocha (2018) and Figure 8 of 2019 have of a GPU."""

from __future__ import annotations

import os
import sys

import numpy as np
from dynagate.integrators.position_based import PositionBased
from dynagate.integrators.position_based_robots import bent, chain
from figure import Data, axes, main, seconds
from matplotlib.figure import Figure

STEPS = 10


def measure(short: bool) -> Data:
    """Seconds for ten steps of 100 chains by their links, and of chains of ten links by their number; dt 0.0025 and
    0.05 s."""
    processors = os.cpu_count() or 1
    data: Data = {"threads": sorted({1, processors}), "links": [], "trajectories": []}
    for dt in (0.0025, 0.05):
        for count in (4,) if short else (10, 20, 30, 40):
            data["links"].append(timed(count, 8 if short else 100, dt, data["threads"]))
        for batch in (8,) if short else (25, 50, 100, 200, 400):
            data["trajectories"].append(timed(4 if short else 10, batch, dt, data["threads"]))
    return data


def timed(count: int, batch: int, dt: float, threads: list[int]) -> Data:
    robot = chain(count)
    q0 = bent(robot) + np.random.default_rng(0).uniform(-0.1, 0.1, (batch, robot.nq))
    row: Data = {"links": count, "trajectories": batch, "dt": dt}
    for number in threads:
        sim = PositionBased(robot, dt, threads=number)
        row[f"seconds, {number} threads"] = seconds(lambda sim=sim: sim.run(q0, None, STEPS), 3)
    swing = sim.run(q0, None, STEPS)
    row["iterations a step"] = float(swing.iterations.mean())
    row["stuck"] = int((~swing.converged).sum())
    return row


def draw(data: Data) -> Figure:
    figure, panels = axes(2)
    for panel, key in zip(panels, ("links", "trajectories"), strict=True):
        for dt in (0.0025, 0.05):
            rows = [row for row in data[key] if row["dt"] == dt]
            for number in data["threads"]:
                times = [row[f"seconds, {number} threads"] for row in rows]
                panel.loglog([row[key] for row in rows], times, "o-", label=f"dt {dt} s, {number} threads")
        panel.set(xlabel=key, ylabel=f"time for {STEPS} steps (s)")
    panels[0].legend(fontsize=7)
    return figure


if __name__ == "__main__":
    main("batches", measure, draw, sys.argv[1:])
