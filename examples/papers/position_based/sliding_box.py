"""How far a box slides by the parameter of friction: Figure 5 of Pan & Manocha (2019)."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
from dynagate.forces.contact import Contact, corners
from matplotlib.figure import Figure

from examples.papers.position_based.complementarity import StewartTrinkle
from examples.papers.position_based.figure import Data, axes, main
from examples.papers.position_based.integrator import PositionBased
from examples.papers.position_based.robots import planar_box

SPEED, STIFFNESS, GRAVITY = 1.0, 1e4, 9.81
POINTS = corners("box", (1.0, 0.0, 0.5))
FRICTIONS = 10.0 ** np.arange(3.0, 8.1, 0.5)
DEPTH = (GRAVITY / 2.0 / STIFFNESS) ** 0.5
"""m: how deep two corners rest."""


def closed_form(friction: np.ndarray, dt: float) -> np.ndarray:
    """s = v0 C⊥ / (2 g C∥ dt): alpha 2, beta and gamma 1, whatever the mass and the number of points."""
    return SPEED * STIFFNESS / (2.0 * GRAVITY * friction * dt)


def slides(model: str, friction: float, dt: float, span: float) -> tuple[float, bool]:
    """Meters until the box stands or the time is over, and whether all steps converged."""
    contact = Contact(POINTS, stiffness=STIFFNESS, friction=friction, model=model)
    sim = PositionBased(planar_box(), dt, contact=contact, objective="forces")
    track = sim.run([0.0, 0.25 - DEPTH, 0.0], [SPEED, 0.0, 0.0], round(span / dt))
    return float(track.q[-1, 0]), bool(track.converged.all())


def measure(short: bool) -> Data:
    frictions = FRICTIONS[2:9:2] if short else FRICTIONS
    data: Data = {"friction": frictions.tolist(), "mu": [0.1, 0.3, 0.5, 1.0], "dt": {}}
    for dt in (0.05,) if short else (0.0025, 0.01, 0.05, 0.1):
        row: Data = {"closed form": closed_form(frictions, dt).tolist()}
        for model in ("pbfd", "pbd"):
            runs = [slides(model, c, dt, 30.0) for c in frictions]
            distances = [s for s, _ in runs]
            row[model] = distances
            row[f"{model} stuck"] = sum(not good for _, good in runs)
            row[f"{model} monotone"] = all(b <= a * (1.0 + 1e-6) for a, b in pairwise(distances))
        row["dry"] = [
            float(
                StewartTrinkle(planar_box(), dt, POINTS, mu=mu)
                .run(np.array([0.0, 0.25, 0.0]), np.array([SPEED, 0.0, 0.0]), round(8.0 / dt))
                .q[-1, 0]
            )
            for mu in data["mu"]
        ]
        data["dt"][str(dt)] = row
    data["dry, exact"] = [SPEED**2 / (2.0 * mu * GRAVITY) for mu in data["mu"]]
    return data


def draw(data: Data) -> Figure:
    figure, panels = axes(3)
    for dt, row in data["dt"].items():
        for panel, model in zip(panels, ("pbfd", "pbd"), strict=False):
            panel.loglog(data["friction"], np.maximum(row[model], 1e-5), "o-", label=f"dt {dt} s")
        panels[0].loglog(data["friction"], row["closed form"], "k:", linewidth=0.8)
        panels[2].loglog(data["mu"], np.maximum(row["dry"], 1e-5), "o-", label=f"dt {dt} s")
    panels[2].loglog(data["mu"], data["dry, exact"], "k:", linewidth=0.8)
    for panel, title in zip(panels, ("PBFD, dotted: closed form", "PBD", "dry friction, dotted: exact"), strict=True):
        panel.set(title=title, xlabel="friction C∥", ylabel="distance (m)")
        panel.legend(fontsize=7)
    panels[2].set(xlabel="μ")
    return figure


if __name__ == "__main__":
    main("sliding_box", measure, draw, sys.argv[1:])
