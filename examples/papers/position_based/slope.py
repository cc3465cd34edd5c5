"""A floating 10-link chain falls on a slope and slides off: Figure 6 of Pan & Manocha (2019)."""

from __future__ import annotations

import sys

import numpy as np
from dynagate.forces.contact import Contact, Plane, Point, along
from dynagate.robot import Robot
from matplotlib.figure import Figure

from examples.papers.position_based.complementarity import StewartTrinkle
from examples.papers.position_based.figure import Data, axes, main, timed
from examples.papers.position_based.integrator import PositionBased
from examples.papers.position_based.robots import bent, chain

LENGTH = 0.2
SLOPE = Plane.slope(30.0)
EQUIVALENT = 100.0
"""N s/m³: friction times dt, which is to mean the same at every step."""


def scene(count: int) -> tuple[Robot, np.ndarray]:
    """A chain 0.3 m above the slope, along it, bent by 8 degrees at each joint."""
    robot = chain(count, length=LENGTH, mass=0.2, radius=0.03, floating=True)
    q0 = np.zeros(robot.nq)
    q0[:3] = 0.3 * np.array(SLOPE.normal)
    q0[4], q0[6] = np.sin(np.radians(15.0)), np.cos(np.radians(15.0))
    q0[7:] = bent(robot, 8.0)[1:]
    return robot, q0


def points(count: int, each: int) -> list[Point]:
    return [p for i in range(count) for p in along(f"link{i}", (0.0, 0.0, 0.0), (LENGTH, 0.0, 0.0), each)]


def by_position(count: int, dt: float, each: int, strength: float, span: float) -> Data:
    robot, q0 = scene(count)
    contact = Contact(points(count, each), (SLOPE,), stiffness=1e4, friction=strength / dt)
    sim = PositionBased(robot, dt, contact=contact)
    track, taken = timed(lambda steps: sim.run(q0, None, steps), round(span / dt))
    return {
        "dt": dt,
        "points": count * each,
        "friction": strength,
        "seconds": taken,
        "iterations": float(track.iterations.mean()),
        "stuck": int((~track.converged).sum()),
        "down the slope": float((track.q[-1, :3] - track.q[0, :3]) @ (np.cos(np.pi / 6), 0.0, -np.sin(np.pi / 6))),
    }


def by_dry_friction(count: int, dt: float, each: int, mu: float, span: float) -> Data:
    robot, q0 = scene(count)
    sim = StewartTrinkle(robot, dt, points(count, each), (SLOPE,), mu)
    track, taken = timed(lambda steps: sim.run(q0, None, steps), round(span / dt))
    return {
        "dt": dt,
        "points": count * each,
        "mu": mu,
        "seconds": taken,
        "contacts": float(track.contacts.mean()),
        "iterations": float(track.iterations.mean()),
        "unsolved": int((track.solved == 0).sum()),
        "energy gained": float(np.nanmax(track.energy) - track.energy[0]),
        "finite": bool(np.isfinite(track.q).all()),
    }


def measure(short: bool) -> Data:
    count, span = (3, 0.5) if short else (10, 10.0)
    steps = (0.01, 0.1) if short else (0.0025, 0.01, 0.025, 0.05, 0.1)
    each = (2, 3) if short else (2, 3, 4)
    brief = min(span, 2.0)
    return {
        "span": span,
        "pbfd by dt": [by_position(count, dt, 2, EQUIVALENT, span) for dt in steps],
        "dry by dt": [by_dry_friction(count, dt, 2, 0.3, span) for dt in steps],
        "span of points (s)": brief,
        "pbfd by points": [by_position(count, 0.1, n, EQUIVALENT, brief) for n in each],
        "dry by points": [by_dry_friction(count, 0.01, n, 0.3, brief) for n in each],
        "pbfd by friction": [by_position(count, 0.1, 2, c, span) for c in (10.0, 30.0, 100.0, 300.0)],
        "dry by friction": [by_dry_friction(count, 0.01, 2, mu, span) for mu in (0.1, 0.3, 0.5, 1.0)],
    }


def draw(data: Data) -> Figure:
    figure, panels = axes(3)
    for panel, key, x in zip(panels, ("dt", "points", "friction"), ("dt", "points", "friction"), strict=True):
        pbfd, dry = data[f"pbfd by {key}"], data[f"dry by {key}"]
        where = range(len(dry)) if key == "friction" else [row[x] for row in dry]
        draws = panel.semilogy if key != "dt" else panel.loglog
        draws(list(where), [row["seconds"] for row in pbfd], "o-", label="PBFD")
        draws(list(where), [row["seconds"] for row in dry], "s-", label="Newton-Euler, dry friction")
        panel.set(xlabel={"dt": "dt (s)", "points": "points", "friction": "friction, four values"}[key])
        length = data["span of points (s)"] if key == "points" else data["span"]
        panel.set(ylabel=f"time for {length:g} s (s)")
    panels[0].legend()
    return figure


if __name__ == "__main__":
    main("slope", measure, draw, sys.argv[1:])
