"""Iterations and time of the optimizers: Figure 3 (a) to (c) of Pan & Manocha (2018), Figure 4 of 2019.

Fixed chains of N links, without contact, and a floating chain that falls on the ground. There the energy is that of
contact by PBD, the forces are those of PBFD.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from dynagate.forces.contact import Contact, Point, along
from dynagate.robot import Robot
from matplotlib.figure import Figure

from examples.papers.position_based.figure import Data, axes, main, timed
from examples.papers.position_based.integrator import PositionBased
from examples.papers.position_based.kinematics import subtract
from examples.papers.position_based.links import links_of
from examples.papers.position_based.robots import bent, chain

DT = 0.05
COMBINATIONS = {
    "LM, energy": ("lm-full", "energy"),
    "JTJ-LM, energy": ("lm", "energy"),
    "L-BFGS, energy": ("lbfgs", "energy"),
    "JTJ-LM, forces": ("lm", "forces"),
    "L-BFGS, forces": ("lbfgs", "forces"),
}


def falling(count: int) -> tuple[Robot, np.ndarray, list[Point]]:
    """A floating chain of 0.2 m rods, bent a little, 0.3 m above the ground, and its points of contact."""
    robot = chain(count, length=0.2, mass=0.2, radius=0.03, floating=True)
    q0 = np.zeros(robot.nq)
    q0[2], q0[6], q0[7:] = 0.3, 1.0, bent(robot, 8.0)[1:]
    points = [point for i in range(count) for point in along(f"link{i}", (0.0, 0.0, 0.0), (0.2, 0.0, 0.0), 2)]
    return robot, q0, points


def steps_of(robot: Robot, q0: np.ndarray, points: list[Point], name: str, steps: int) -> Data:
    """A motion, and the time that each of its steps takes alone, which has a call's 0.1 ms in it."""
    method, objective = COMBINATIONS[name]
    model = "pbd" if objective == "energy" else "pbfd"
    contact = Contact(points, stiffness=1e4, friction=2e3, model=model) if points else None
    most = 3000 if method == "lbfgs" else 1000
    sim = PositionBased(robot, DT, method=method, objective=objective, contact=contact, iterations=most)
    swing, taken = timed(lambda count: sim.run(q0, None, count), steps)
    each, links, speed = [], links_of(robot), np.zeros(robot.nv)
    for k in range(steps):
        if k > 0:
            subtract(links, swing.q[k], swing.q[k - 1], speed)
        begin = time.perf_counter()
        sim.run(swing.q[k], speed / DT, 1)
        each.append((time.perf_counter() - begin) * 1e3)
    return {
        "iterations": swing.iterations.tolist(),
        "milliseconds": each,
        "mean": float(swing.iterations.mean()),
        "milliseconds a step": taken / steps * 1e3,
        "stuck": int((~swing.converged).sum()),
    }


def measure(short: bool) -> Data:
    steps = 3 if short else 40
    data: Data = {"dt": DT, "fixed": {}, "falling": {}}
    for count in (3,) if short else (10, 20, 30, 40):
        robot = chain(count)
        names = [name for name in COMBINATIONS if name != "L-BFGS, forces" or count == 10]
        data["fixed"][str(count)] = {
            name: steps_of(robot, bent(robot), [], name, min(steps, 10) if "BFGS" in name else steps) for name in names
        }
    robot, q0, points = falling(3 if short else 10)
    names = [name for name in COMBINATIONS if not short or name != "L-BFGS, forces"]
    data["falling"] = {
        name: steps_of(robot, q0, points, name, 12 if short or "BFGS" in name else steps) for name in names
    }
    return data


def draw(data: Data) -> Figure:
    counts = list(data["fixed"])
    figure, panels = axes(6, rows=2)
    for column, (part, title) in enumerate(
        (
            (data["fixed"][counts[0]], f"{counts[0]} links, fixed"),
            (data["fixed"][counts[-1]], f"{counts[-1]} links, fixed"),
            (data["falling"], "floating, onto the ground"),
        )
    ):
        above, below = panels[column], panels[3 + column]
        for name, row in part.items():
            above.semilogy(np.maximum(row["iterations"], 0.5), label=name)
            if column != 1:
                below.semilogy(row["milliseconds"], label=name)
        above.set(title=title, xlabel="step", ylabel="iterations")
        below.set(xlabel="step", ylabel="time of the step (ms)")
    for name in COMBINATIONS:
        rows = [(int(n), part[name]["milliseconds a step"]) for n, part in data["fixed"].items() if name in part]
        panels[4].semilogy([n for n, _ in rows], [ms for _, ms in rows], "o-", label=name)
    panels[4].set(xlabel="links", ylabel="time a step (ms)")
    panels[4].legend(fontsize=7)
    return figure


if __name__ == "__main__":
    main("optimizers", measure, draw, sys.argv[1:])
