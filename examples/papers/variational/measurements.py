"""The variational integrator in numbers: accuracy, speed next to its baselines, a batch next to Pinocchio, fixed point.

    python -m examples.papers.variational.measurements

Times are CPU time of one thread, the best of some repetitions.
"""

from __future__ import annotations

from typing import Any

import dynagate
import numpy as np
from dynagate import Rollout
from dynagate.fixedpoint.assign import Policy
from dynagate.integrators.implicit.variational_method import VariationalIntegrator

from examples.papers.compiled import fused
from examples.papers.variational.articulated import pose
from examples.papers.variational.chain import best, chain, options, states, written
from examples.papers.variational.device import device_inverse
from examples.papers.variational.figure_3 import step_time
from examples.papers.variational.integrator import Variational
from examples.papers.variational.links import links_of
from examples.papers.variational.loops import residual
from examples.papers.variational.svi import discrete_momenta

SHORT: dict[str, dict[str, Any]] = {
    "floors": {"sizes": (3,)},
    "order": {"links": 2, "seconds": 0.02},
    "linear": {"sizes": (2, 4)},
    "residuals": {"sizes": (3,)},
    "batch": {"links": 3, "size": 8, "steps": 10, "peer": False},
    "fixed_point": {"steps": 5, "seeds": 1},
}
"""Arguments of each measurement with --short."""


def floors(sizes: tuple[int, ...] = (10, 50, 100)) -> dict[str, Any]:
    """Return the residual that rounding leaves, N m s, for each form of it."""
    return {
        form: {n: Variational(chain(n), dt=1e-3, residual=form).floor(*(x[0] for x in states(n, 1))) for n in sizes}
        for form in ("increment", "printed")
    }


def order(links: int = 10, seconds: float = 0.2) -> dict[str, Any]:
    """Return the distance from a run with small steps, rad, and the slope of its logarithm over that of dt."""
    q0, qd0 = (x[0] for x in states(links, 1))

    def end(dt: float) -> np.ndarray:
        return Variational(chain(links), dt=dt, tolerance=1e-10, guess=4).run(q0, qd0, round(seconds / dt)).q[-1]

    exact = end(3.125e-5)
    steps = (4e-3, 2e-3, 1e-3, 5e-4)
    errors = [float(np.abs(end(dt) - exact).max()) for dt in steps]
    return {"dt": steps, "error": errors, "slope": float(np.polyfit(np.log(steps), np.log(errors), 1)[0])}


def linear(sizes: tuple[int, ...] = (25, 50, 100, 200, 400)) -> dict[str, Any]:
    """Return the time of a RIQN step, µs, by number of links, and the exponent of its growth per iteration."""
    rows = [step_time(n, "increment", "riqn", 40, 5) for n in sizes]
    per_iteration = [time / iterations for time, iterations in rows]
    exponent = float(np.polyfit(np.log(sizes), np.log(per_iteration), 1)[0])
    return {
        "links": sizes,
        "microseconds": [row[0] for row in rows],
        "iterations": [row[1] for row in rows],
        "exponent": exponent,
    }


@fused
def _repeat_drnea(links, rotation, offset, delta, load, impulse, moved, f, momentum, force, count):  # type: ignore[no-untyped-def]
    for _ in range(count):
        residual(links, rotation, offset, delta, load, impulse, 1e-3, moved, f, momentum, force)


@fused
def _repeat_svi(links, q, delta, left, right, count):  # type: ignore[no-untyped-def]
    for _ in range(count):
        discrete_momenta(links, q, delta, 1e-3, left, right)


def residuals(sizes: tuple[int, ...] = (10, 100)) -> dict[str, Any]:
    """Return the time of a residual, µs, by DRNEA and by SVI, as loops."""
    table = {}
    for n in sizes:
        links, (q, qd) = links_of(chain(n)), (x[0] for x in states(n, 1))
        rotation, offset = np.zeros((n, 9)), np.zeros((n, 3))
        pose(links, q, rotation, offset)
        load, moved, left, right = np.zeros((n, 6)), np.zeros((n, 7)), np.zeros(n), np.zeros(n)
        momentum, force, delta = np.zeros((n, 6)), np.zeros((n, 6)), 1e-3 * qd
        count = 20_000 // n
        drnea = (links, rotation, offset, delta, load, left, moved, right, momentum, force, count)
        svi = (links, q, delta, left, right, max(1, count // 10))
        times = best(lambda: _repeat_drnea(*drnea)) / count, best(lambda: _repeat_svi(*svi)) / svi[-1]  # noqa: B023
        table[n] = {"DRNEA": times[0] * 1e6, "SVI": times[1] * 1e6, "ratio": times[1] / times[0]}
    return table


def rolled(links: int, size: int, steps: int) -> dict[str, Any]:
    """Return the processor time of a step and trajectory, µs, and its iterations for each guess, in C at 1e-8."""
    table: dict[str, Any] = {}
    q0, qd0 = states(links, size)
    for guess in (3, 4):
        method = VariationalIntegrator(guess=guess, tolerance=1e-8)
        rollout = Rollout(chain(links), steps=steps, dt=1e-3, integrator=method)
        inputs = q0, qd0, np.zeros((size, steps, links))
        trajectories = rollout(*inputs)
        assert trajectories.iterations is not None
        taken = best(lambda: rollout(*inputs), 5)  # noqa: B023
        table[f"IG{guess}"] = {
            "microseconds": taken / steps / size * 1e6,
            "iterations": float(trajectories.iterations.mean()),
        }
    return table


def batch(links: int = 10, size: int = 1024, steps: int = 200, peer: bool = True) -> dict[str, Any]:
    """Return the times of `rolled` and of one call of Pinocchio's articulated-body algorithm in C++, µs."""
    table = rolled(links, size, steps)
    if peer:
        from dynagate.bench.peers import Peer, pinocchio

        times = pinocchio(chain(links))
        table["Pinocchio aba"] = times.times["forward_dynamics"][0] / 1e3 if isinstance(times, Peer) else times
    return table


def fixed_point(word: int = 24, steps: int = 200, seeds: int = 4) -> dict[str, Any]:
    """Return the iterations of iiwa14 in free fall, tolerance 1e-10, with M⁻¹ in float64 and in fixed point."""
    robot = dynagate.robots.load("iiwa14")
    random = np.random.default_rng(0)
    q0, qd0 = random.uniform(-1.0, 1.0, (2, seeds, robot.nv))
    double = Variational(robot, dt=1e-3, tolerance=1e-10).run(q0, qd0, steps)
    with dynagate.compile(robot, "mass_matrix_inverse", device="fixed", policy=Policy(word=word)) as accelerator:
        inverse = device_inverse(robot, accelerator)
        fixed = Variational(robot, dt=1e-3, tolerance=1e-10, inverse=inverse).run(q0, qd0, steps)
    return {
        "word": word,
        "iterations": [float(double.iterations.mean()), float(fixed.iterations.mean())],
        "extra": float(fixed.iterations.mean() - double.iterations.mean()),
        "residual": [float(double.residuals.max()), float(fixed.residuals.max())],
        "difference of q": float(np.abs(double.q - fixed.q).max()),
    }


def main() -> None:
    arguments = options(__doc__).parse_args()
    results: dict[str, Any] = {}
    for measure in (floors, order, linear, residuals, batch, fixed_point):
        results[measure.__name__] = measure(**SHORT[measure.__name__] if arguments.short else {})  # type: ignore[operator]
        print(measure.__name__, results[measure.__name__], flush=True)
    written(arguments.folder, "measurements", results)


if __name__ == "__main__":
    main()
