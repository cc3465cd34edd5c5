"""Figure 2: the energy of a chain of ten links under gravity alone, by RIQN and by the semi-implicit Euler method.

    python -m examples.papers.variational.figure_2

The error is divided by the energy above the chain's lowest position. The paper draws one trajectory for 1000 s
(1,000,000 steps of 1 ms: --steps 1000000).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate import Robot, Rollout, evaluate, trace
from matplotlib.figure import Figure

from examples.papers.variational.chain import LENGTH, MASS, ROOT, axes, chain, options, states, written
from examples.papers.variational.integrator import Variational

AT_ONCE = 10_000
"""Steps in one rollout; a longer run takes several."""


def lowest(links: int) -> float:
    """Return the potential energy of the chain that hangs down, J."""
    return float(sum(MASS * 9.81 * (ROOT - LENGTH * (i + 0.5)) for i in range(links)))


def euler_energy(
    robot: Robot, q: npt.NDArray[np.float64], qd: npt.NDArray[np.float64], steps: int, dt: float
) -> npt.NDArray[np.float64]:
    """Return kinetic plus potential energy, J (seeds, steps), after each step of the semi-implicit Euler method."""
    energy, at_once = np.empty((len(q), steps)), math.gcd(steps, AT_ONCE)
    rollout = Rollout(robot, steps=at_once, dt=dt, integrator="semi_implicit_euler")
    parts = [trace(robot, name) for name in ("kinetic_energy", "potential_energy")]
    for first in range(0, steps, at_once):
        motion = rollout(q, qd, np.zeros((len(q), at_once, robot.nv)))
        state = {name: x[:, 1:].reshape(-1, robot.nv) for name, x in (("q", motion.q), ("qd", motion.qd))}
        each = [evaluate(part, {port.name: state[port.name] for port in part.inputs})[part.name] for part in parts]
        energy[:, first : first + at_once] = sum(each).reshape(len(q), -1)
        q, qd = motion.q[:, -1], motion.qd[:, -1]
    return energy


def measure(links: int = 10, steps: int = 10_000, dt: float = 1e-3, seeds: int = 3) -> dict[str, Any]:
    """Return relative energy errors of each seed, at up to 5,000 steps, and their largest values over all steps."""
    robot = chain(links)
    q0, qd0 = states(links, seeds)
    trajectory = Variational(robot, dt=dt, tolerance=1e-9, guess=3).run(q0, qd0, steps)
    energy = trajectory.energy()
    euler = euler_energy(robot, q0, qd0, steps, dt)
    start = energy[:, :1]
    scale = start - lowest(links)
    errors = (energy - start) / scale, (euler - start) / scale
    seconds = dt * np.arange(steps)
    slopes = [float(np.polyfit(seconds, error, 1)[0] * seconds[-1]) for error in errors[0]]
    every = max(1, steps // 5000)
    return {
        "links": links,
        "steps": steps,
        "every": every,
        "dt": dt,
        "riqn": errors[0][:, ::every].tolist(),
        "euler": errors[1][:, ::every].tolist(),
        "riqn largest": np.abs(errors[0]).max(axis=1).tolist(),
        "riqn rms": np.sqrt((errors[0] ** 2).mean(axis=1)).tolist(),
        "riqn drift over all steps": slopes,
        "euler largest": np.abs(errors[1]).max(axis=1).tolist(),
    }


def draw(results: dict[str, Any]) -> Figure:
    figure, plot = axes()
    seconds = results["dt"] * np.arange(0, results["steps"], results["every"])
    plot.plot(seconds, 100 * np.array(results["euler"][0]), label="semi-implicit Euler")
    plot.plot(seconds, 100 * np.array(results["riqn"][0]), label="RIQN")
    plot.set(xlabel="time (s)", ylabel="energy error (% of scale)", title="Figure 2: energy, 10 links, dt = 1 ms")
    plot.legend()
    return figure


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--steps", type=int, default=10_000, help="steps of 1 ms (%(default)s)")
    arguments = parser.parse_args()
    results = measure(links=3, steps=200, seeds=1) if arguments.short else measure(steps=arguments.steps)
    for name in ("riqn largest", "riqn rms", "riqn drift over all steps", "euler largest"):
        print(f"{name:26}", " ".join(f"{value:9.2e}" for value in results[name]))
    written(arguments.folder, "figure_2", results, draw(results))


if __name__ == "__main__":
    main()
