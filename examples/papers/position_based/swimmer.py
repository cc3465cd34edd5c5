"""A swimmer of four links learns to swim by CMA-ES: Figure 5 (a) of Pan & Manocha (2018).

The paper's drag is the same in all directions, and no gait moves a swimmer in it: the impulse over a cycle is zero.
So the drag here is ten times as strong across a link as along it. Rollouts run here, in processes (`--jobs`), or on a
Ray cluster (`--backend ray --cluster ADDRESS`).
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
from cmaes import CMA
from dynagate import evaluate, trace
from dynagate.forces.drag import Drag
from dynagate.forces.servo import Servo
from matplotlib.figure import Figure

from examples.papers.position_based.figure import Data, axes, main
from examples.papers.position_based.integrator import PositionBased
from examples.papers.position_based.pictures import ABOVE, overlay, skeleton
from examples.papers.position_based.pictures import animate as animated
from examples.papers.position_based.robots import swimmer
from examples.papers.position_based.rollouts import OPTIONS, connect, spread

DT = 0.05
ROBOT = swimmer()
HINGES = slice(6, 9)
ALONG_AND_ACROSS, EQUAL = (1e3, 1e4), (1e4, 1e4)
"""N s/m for each m³."""


def gait(parameters: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Targets of the hinges (steps, nv) in rad: three amplitudes up to 1 rad, a frequency of 0.2 to 1.2 Hz, two phases;
    from six numbers without bounds."""
    amplitude = 0.5 + 0.5 * np.tanh(parameters[:3])
    frequency = 0.7 + 0.5 * np.tanh(parameters[3])
    phase = np.array([0.0, parameters[4], parameters[5]])
    target = np.zeros((len(times), ROBOT.nv))
    fade = np.minimum(times, 1.0)[:, None]
    target[:, HINGES] = fade * amplitude * np.sin(2.0 * np.pi * frequency * times[:, None] - phase)
    return target


def swim(gaits: np.ndarray, steps: int, viscosity: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Centers of mass (gaits, steps + 1, 3) in m, and configurations (gaits, steps + 1, nq), from rest along x."""
    sim = PositionBased(ROBOT, DT, drag=Drag(viscosity), servo=Servo(50.0, 1.0))
    q0 = np.zeros((len(gaits), ROBOT.nq))
    q0[:, 6] = 1.0
    times = DT * np.arange(1, steps + 1)
    track = sim.run(q0, None, steps, target=np.array([gait(g, times) for g in gaits]))
    assert track.converged.all()
    flat = {"q": track.q.reshape(-1, ROBOT.nq)}
    return evaluate(trace(ROBOT, "center_of_mass"), flat)["center_of_mass"].reshape(*track.q.shape[:2], 3), track.q


def distances(steps: int, gaits: np.ndarray) -> np.ndarray:
    """Meters along x (gaits,) in this many steps."""
    return np.abs(swim(gaits, steps, ALONG_AND_ACROSS)[0][:, -1, 0])


def measure(short: bool, backend: str = "loky", jobs: int = 1, cluster: str | None = None) -> Data:
    connect(backend, cluster)
    steps, generations, population = (20, 3, 6) if short else (200, 40, 12)
    search = CMA(mean=np.zeros(6), sigma=0.7, seed=1, population_size=population)
    history = []
    best, best_distance = np.zeros(6), -np.inf
    for _ in range(generations):
        gaits = np.array([search.ask() for _ in range(population)])
        distance = np.concatenate(spread(partial(distances, steps), np.array_split(gaits, jobs), backend, jobs))
        search.tell([(g, -d) for g, d in zip(gaits, distance, strict=True)])
        if distance.max() > best_distance:
            best, best_distance = gaits[np.argmax(distance)], float(distance.max())
        history.append(best_distance)
    centers, q = swim(best[None], steps, ALONG_AND_ACROSS)
    equal, _ = swim(best[None], steps, EQUAL)
    first, _ = swim(np.zeros((1, 6)), steps, ALONG_AND_ACROSS)
    return {
        "seconds swum": steps * DT,
        "best by generation (m)": history,
        "first gait (m)": float(np.abs(first[0, -1, 0])),
        "best gait": best.tolist(),
        "best gait, drag equal in all directions (m)": float(np.linalg.norm(equal[0, -1] - equal[0, 0])),
        "path": centers[0, :, :2].tolist(),
        "configurations": q[0].tolist(),
    }


def draw(data: Data) -> Figure:
    figure, (left, right) = axes(2)
    left.plot(data["best by generation (m)"])
    left.set(xlabel="generation", ylabel=f"distance in {data['seconds swum']:g} s (m)")
    right.plot(*np.array(data["path"]).T, "k:", label="center of mass")
    overlay(right, skeleton(ROBOT, data["configurations"], ABOVE), max(1, len(data["configurations"]) // 10))
    right.set(xlabel="x (m)", ylabel="y (m)")
    return figure


def animate(data: Data, path: Path) -> None:
    animated({"swimmer": skeleton(ROBOT, data["configurations"], ABOVE)}, path, DT)


if __name__ == "__main__":
    main("swimmer", measure, draw, sys.argv[1:], animate, OPTIONS)
