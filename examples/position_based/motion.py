"""Robots of both papers as they move: a chain that swings and one that slides down a slope, in steps of 0.05 s."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import slope
from dynagate import evaluate, trace
from dynagate.integrators.contact import Contact
from dynagate.integrators.position_based import PositionBased
from dynagate.integrators.position_based_robots import bent, chain
from dynagate.robot import Robot
from figure import Data, axes, main
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure

DT = 0.05


def joints_of(robot: Robot, q: np.ndarray) -> np.ndarray:
    """Positions (steps, links, 2) of the links' origins in x and z, m."""
    return evaluate(trace(robot, "link_positions"), {"q": q})["link_positions"][:, :, [0, 2]]


def measure(short: bool) -> Data:
    count, steps = (3, 5) if short else (10, 100)
    swinging = chain(count)
    swing = PositionBased(swinging, DT).run(bent(swinging), None, steps)
    sliding, q0 = slope.scene(count)
    contact = Contact(slope.points(count, 2), (slope.SLOPE,), stiffness=1e4, friction=slope.EQUIVALENT / DT)
    slide = PositionBased(sliding, DT, contact=contact).run(q0, None, min(steps, 30))
    return {
        "swing": joints_of(swinging, swing.q).tolist(),
        "slide": joints_of(sliding, slide.q).tolist(),
        "stuck": int((~swing.converged).sum() + (~slide.converged).sum()),
    }


def draw(data: Data) -> Figure:
    figure, (left, right) = axes(2)
    for panel, name, every in ((left, "swing", 4), (right, "slide", 3)):
        for points in np.array(data[name])[::every]:
            panel.plot(*points.T, "-", color="tab:blue", alpha=0.5)
        panel.set(title=name, xlabel="x (m)", ylabel="z (m)", aspect="equal")
    reach = np.array(data["slide"])[:, :, 0].max()
    right.plot([0.0, reach], [0.0, -reach * np.tan(np.radians(30.0))], "k-")
    return figure


def animate(data: Data, path: Path) -> None:
    """The swing as a GIF."""
    figure, (panel,) = axes(1)
    track = np.array(data["swing"])
    reach = np.abs(track).max() * 1.05
    panel.set(xlim=(-reach, reach), ylim=(-reach, 0.3 * reach), aspect="equal")
    (line,) = panel.plot([], [], "o-", markersize=3)
    FuncAnimation(figure, lambda k: line.set_data(*track[k].T), len(track)).save(path, PillowWriter(round(1.0 / DT)))


if __name__ == "__main__":
    main("motion", measure, draw, sys.argv[1:], animate)
