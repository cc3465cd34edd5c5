"""Energy of a chain that swings down: Figure 2 (a) and (b) of Pan & Manocha (2018)."""

from __future__ import annotations

import sys

import numpy as np
from matplotlib.figure import Figure

from examples.papers.position_based.figure import Data, axes, main
from examples.papers.position_based.integrator import PositionBased
from examples.papers.position_based.newton_euler import NewtonEuler
from examples.papers.position_based.robots import bent, chain

DT = 0.0025
SCHEMES = ("euler", "semi-implicit", "rk2", "rk3")
CHAINS = {"10 links": (10, 1.0, 5.0, 5.0, 1e-7, 1000), "100 links": (100, 0.2, 2.5, 1.0, 1e-4, 30)}
"""Links, length of each in m, seconds, seconds of order 3, tolerance, most iterations a step."""


def measure(short: bool) -> Data:
    """Energy over E0 - Emin by time; the lengths are those at which the paper's order of the curves appears."""
    data: Data = {"chains": {}, "order 3 by dt": [sticking(dt, short) for dt in (0.005, 0.01, 0.02, 0.05)]}
    for name, (count, length, span, brief, tolerance, most) in CHAINS.items():
        if short:
            count, span, brief = min(count, 12) // 2, 0.25, 0.25
        robot = chain(count, length=length, radius=0.1 * length)
        q0, steps = bent(robot), round(span / DT)
        scale = 9.81 * length * sum(i + 0.5 for i in range(count))  # from lying to hanging
        curves: Data = {}
        for scheme in SCHEMES:
            motion = NewtonEuler(robot, DT, scheme).run(q0, None, steps)
            curves[scheme] = {"energy": relative(motion.energy, scale), "seconds": motion.steps * DT}
        for order in (2, 3):
            sim = PositionBased(robot, DT, order=order, tolerance=tolerance, iterations=most)
            swing = sim.run(q0, None, steps if order == 2 else round(brief / DT))
            curves[f"order {order}"] = {
                "energy": relative(swing.energy, scale),
                "end": float((swing.energy[-1] - swing.energy[0]) / scale),
                "largest": float(np.abs(swing.energy - swing.energy[0]).max() / scale),
                "iterations": float(swing.iterations.mean()),
                "stuck": int((~swing.converged).sum()),
            }
        data["chains"][name] = {"times": [k * DT for k in range(0, steps + 1, 4)], "curves": curves}
    return data


def sticking(dt: float, short: bool) -> Data:
    """Steps of order 3 that do not converge, of a 10-link chain in 5 s, by dt."""
    robot = chain(3 if short else 10)
    swing = PositionBased(robot, dt, order=3).run(bent(robot), None, round((0.5 if short else 5.0) / dt))
    return {"dt": dt, "steps": len(swing.residual), "stuck": int((~swing.converged).sum())}


def relative(energy: np.ndarray, scale: float) -> list[float | None]:
    """Every fourth; None where it has left the page."""
    values = (energy - energy[0]) / scale
    return [float(v) if abs(v) < 2.0 else None for v in values[::4]]


def draw(data: Data) -> Figure:
    chains = data["chains"]
    figure, panels = axes(len(chains))
    for panel, (name, part) in zip(panels, chains.items(), strict=True):
        for label, curve in part["curves"].items():
            energy = [np.nan if v is None else v for v in curve["energy"]]
            panel.plot(part["times"][: len(energy)], energy, label=label)
        panel.set(title=name, xlabel="time (s)", ylabel="(E - E0) / (E0 - Emin)", ylim=(-0.5, 1.0))
    panels[0].legend()
    return figure


if __name__ == "__main__":
    main("energy", measure, draw, sys.argv[1:])
