"""Iterations and time of the optimisers: Figure 3 (a) to (c) of Pan & Manocha (2018), Figure 4 of 2019.

Fixed chains of N links, without contact, and a floating chain that falls on the ground.
"""

from __future__ import annotations

import sys

import numpy as np
from dynagate.integrators.contact import Contact, along
from dynagate.integrators.position_based import PositionBased
from dynagate.integrators.position_based_robots import bent, chain
from dynagate.robot import Robot
from figure import Data, axes, main, timed
from matplotlib.figure import Figure

DT = 0.05
COMBINATIONS = {
    "LM, energy": ("lm-full", "energy"),
    "JTJ-LM, energy": ("lm", "energy"),
    "L-BFGS, energy": ("lbfgs", "energy"),
    "JTJ-LM, forces": ("lm", "forces"),
    "L-BFGS, forces": ("lbfgs", "forces"),
}


def falling(count: int) -> tuple[Robot, np.ndarray, Contact]:
    """A floating chain of 0.2 m rods, bent a little, and the ground 0.3 m below. The contact of the paper of 2018 is an
    energy, so both objectives exist."""
    robot = chain(count, length=0.2, mass=0.2, radius=0.03, floating=True)
    q0 = np.zeros(robot.nq)
    q0[2], q0[6], q0[7:] = 0.3, 1.0, bent(robot, 8.0)[1:]
    points = [point for i in range(count) for point in along(f"link{i}", (0.0, 0.0, 0.0), (0.2, 0.0, 0.0), 2)]
    return robot, q0, Contact(points, stiffness=1e4, friction=2e3, model="pbd")


def steps_of(robot: Robot, q0: np.ndarray, contact: Contact | None, name: str, steps: int) -> Data:
    method, objective = COMBINATIONS[name]
    most = 3000 if method == "lbfgs" else 1000
    sim = PositionBased(robot, DT, method=method, objective=objective, contact=contact, iterations=most)
    swing, taken = timed(lambda count: sim.run(q0, None, count), steps)
    return {
        "iterations": swing.iterations.tolist(),
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
            name: steps_of(robot, bent(robot), None, name, min(steps, 10) if count > 10 and "BFGS" in name else steps)
            for name in names
        }
    robot, q0, contact = falling(3 if short else 10)
    names = [name for name in COMBINATIONS if name != "L-BFGS, forces"]
    data["falling"] = {name: steps_of(robot, q0, contact, name, 12 if short else steps) for name in names}
    return data


def draw(data: Data) -> Figure:
    counts = list(data["fixed"])
    figure, panels = axes(4)
    for panel, part, title in (
        (panels[0], data["fixed"][counts[0]], f"{counts[0]} links, fixed"),
        (panels[1], data["fixed"][counts[-1]], f"{counts[-1]} links, fixed"),
        (panels[2], data["falling"], "floating, onto the ground"),
    ):
        for name, row in part.items():
            panel.semilogy(np.maximum(row["iterations"], 0.5), label=name)
        panel.set(title=title, xlabel="step", ylabel="iterations")
    for name in COMBINATIONS:
        rows = [(int(n), part[name]["milliseconds a step"]) for n, part in data["fixed"].items() if name in part]
        panels[3].semilogy([n for n, _ in rows], [ms for _, ms in rows], "o-", label=name)
    panels[3].set(xlabel="links", ylabel="time a step (ms)")
    panels[3].legend(fontsize=7)
    return figure


if __name__ == "__main__":
    main("optimisers", measure, draw, sys.argv[1:])
