"""Chains of both papers as they move in steps of 0.05 s: one swings, one slides down a slope (Figure 6 (a) of 2019)."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from dynagate.forces.contact import Contact
from matplotlib.figure import Figure

from examples.papers.position_based import slope
from examples.papers.position_based.figure import Data, axes, main
from examples.papers.position_based.integrator import PositionBased
from examples.papers.position_based.pictures import SIDE, overlay, skeleton
from examples.papers.position_based.pictures import animate as animated
from examples.papers.position_based.robots import bent, chain

DT = 0.05


def measure(short: bool) -> Data:
    count, steps = (3, 5) if short else (10, 100)
    swinging = chain(count)
    swing = PositionBased(swinging, DT).run(bent(swinging), None, steps)
    sliding, q0 = slope.scene(count)
    contact = Contact(slope.points(count, 2), (slope.SLOPE,), stiffness=1e4, friction=slope.EQUIVALENT / DT)
    slide = PositionBased(sliding, DT, contact=contact).run(q0, None, min(steps, 30))
    return {
        "swing": skeleton(swinging, swing.q, SIDE).tolist(),
        "slide": skeleton(sliding, slide.q, SIDE).tolist(),
        "stuck": int((~swing.converged).sum() + (~slide.converged).sum()),
    }


def draw(data: Data) -> Figure:
    figure, panels = axes(2)
    for panel, name, every in ((panels[0], "swing", 4), (panels[1], "slide", 3)):
        overlay(panel, np.array(data[name]), every)
        panel.set(title=name, xlabel="x (m)", ylabel="z (m)")
    reach = np.array(data["slide"])[..., 0].max()
    panels[1].plot([0.0, reach], [0.0, -reach * np.tan(np.radians(30.0))], "k-")
    return figure


def animate(data: Data, path: Path) -> None:
    animated({name: np.array(data[name]) for name in ("swing", "slide")}, path, DT)


if __name__ == "__main__":
    main("motion", measure, draw, sys.argv[1:], animate)
