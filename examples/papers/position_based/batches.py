"""Many trajectories on a CPU's threads: Figure 4 of Pan & Manocha (2018) and Figure 8 of 2019. These compare a GPU with
a CPU. Here all threads are compared with one."""

from __future__ import annotations

import os
import sys

import numpy as np
from dynagate.forces.contact import Contact
from matplotlib.figure import Figure

from examples.papers.position_based.figure import Data, axes, main, timed
from examples.papers.position_based.integrator import PositionBased
from examples.papers.position_based.optimizers import falling
from examples.papers.position_based.robots import bent, chain

STEPS = 10
LONG = (0.0025, 0.05)
"""s: the steps of the swinging chains of 2018."""

PBFD_STEP, PBFD_SPAN = 0.01, 1.0
"""s: the step and the length of each fall onto the ground, of 2019."""


def measure(short: bool) -> Data:
    """Seconds by links and by trajectories: ten steps of chains that swing, one second of chains that fall."""
    processors = os.cpu_count() or 1
    threads = sorted({1, processors})
    counts, batches = ((4,), (8,)) if short else ((10, 20, 30, 40), (25, 50, 100, 200, 400))
    few, many = (4, 8) if short else (10, 100)
    floating, crowds, crowd = ((2,), (4,), 4) if short else ((5, 10, 15, 20), (25, 50, 100, 200), 200)
    steps = 5 if short else round(PBFD_SPAN / PBFD_STEP)
    return {
        "threads": threads,
        "links": [swings(count, many, dt, threads) for dt in LONG for count in counts],
        "trajectories": [swings(few, batch, dt, threads) for dt in LONG for batch in batches],
        "PBFD by dofs": [falls(count, crowd, steps, threads) for count in floating],
        "PBFD by trajectories": [falls(2 if short else 5, batch, steps, threads) for batch in crowds],
    }


def swings(count: int, batch: int, dt: float, threads: list[int]) -> Data:
    robot = chain(count)
    q0 = bent(robot) + np.random.default_rng(0).uniform(-0.1, 0.1, (batch, robot.nq))
    sims = {number: PositionBased(robot, dt, threads=number) for number in threads}
    return {"links": count, "trajectories": batch, "dt": dt} | rows_of(sims, q0, STEPS, 3)


def falls(count: int, batch: int, steps: int, threads: list[int]) -> Data:
    robot, start, points = falling(count)
    q0 = np.tile(start, (batch, 1))
    q0[:, 7:] += np.random.default_rng(0).uniform(-0.1, 0.1, (batch, robot.nv - 6))
    contact = Contact(points, stiffness=1e4, friction=100.0 / PBFD_STEP)
    sims = {number: PositionBased(robot, PBFD_STEP, contact=contact, threads=number) for number in threads}
    return {"dofs": robot.nv, "trajectories": batch, "dt": PBFD_STEP} | rows_of(sims, q0, steps, 1)


def rows_of(sims: dict[int, PositionBased], q0: np.ndarray, steps: int, repeats: int) -> Data:
    """Seconds by threads, the least of some runs, and what a run was like."""
    row: Data = {}
    for number, sim in sims.items():
        runs = [timed(lambda count, sim=sim: sim.run(q0, None, count), steps) for _ in range(repeats)]
        row[f"seconds, {number} threads"] = min(taken for _, taken in runs)
        swing = runs[0][0]
    most = row[f"seconds, {max(sims)} threads"]
    row["iterations a step"] = float(swing.iterations.mean())
    row["stuck"] = int((~swing.converged).sum())
    row["microseconds a step"] = most / steps / len(q0) * 1e6
    row["speedup"] = row["seconds, 1 threads"] / most
    return row


def draw(data: Data) -> Figure:
    figure, panels = axes(6, rows=2)
    most = max(data["threads"])
    for k, key in enumerate(("links", "trajectories")):
        for dt in LONG:
            rows = [row for row in data[key] if row["dt"] == dt]
            where = [row[key] for row in rows]
            panels[k].plot(where, [row["speedup"] for row in rows], "o-", label=f"dt {dt} s")
            for number in data["threads"]:
                times = [row[f"seconds, {number} threads"] for row in rows]
                panels[3 + k].loglog(where, times, "o-", label=f"dt {dt} s, {number} threads")
        panels[k].set(xlabel=key, ylabel=f"{most} threads: times as fast as one", ylim=(0, None))
        panels[3 + k].set(xlabel=key, ylabel=f"time for {STEPS} steps (s)")
        panels[3 + k].legend(fontsize=7)
    for panel, key, where in (
        (panels[2], "PBFD by dofs", "dofs"),
        (panels[5], "PBFD by trajectories", "trajectories"),
    ):
        rows = data[key]
        panel.plot([row[where] for row in rows], [row["microseconds a step"] for row in rows], "o-")
        panel.set(title="PBFD", xlabel=where, ylabel=f"time a step, {most} threads (µs)", ylim=(0, None))
    return figure


if __name__ == "__main__":
    main("batches", measure, draw, sys.argv[1:])
