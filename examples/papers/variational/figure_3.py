"""Figure 3: time of a step against degrees of freedom, for both residuals and all root finders.

    python -m examples.papers.variational.figure_3

As the released code has it: no gravity, tolerance 1e-9 N m s times the links, 1 ms, IG3; the first 100 steps (1000 up
to 20 links). All six are the loops over links of this folder, compiled by the same compiler. The time is CPU
time of one thread, the best of some repetitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from examples.papers.variational.chain import axes, best, chain, options, states, written
from examples.papers.variational.integrator import Variational

METHODS = [(residual, solver) for residual in ("increment", "svi") for solver in ("riqn", "broyden", "newton")]
NAMES = {"increment": "DRNEA", "svi": "SVI", "riqn": "RIQN", "newton": "Newton", "broyden": "Broyden"}
FEW, MANY = tuple(range(2, 11)), (5, 10, 20, 40, 60, 80, 100)


def step_time(links: int, residual: str, solver: str, steps: int, repeats: int, guess: int = 3) -> tuple[float, float]:
    """Return the microseconds of a step and its residual evaluations."""
    integrator = Variational(
        chain(links, (0.0, 0.0, 0.0)),
        dt=1e-3,
        tolerance=1e-9 * links,
        residual=residual,
        solver=solver,
        guess=guess,
        most=60,
    )
    state = integrator.start(*states(links, 1))
    taken = best(lambda: integrator.advance(state, steps), repeats)
    return taken / steps * 1e6, float(integrator.advance(state, steps).iterations.mean())


def measure(sizes: tuple[int, ...] = FEW + MANY, seconds: float = 0.4, guess: int = 3) -> dict[str, Any]:
    """Return the microseconds of a step and its residual evaluations, by method, for each number of links."""
    results: dict[str, Any] = {"links": sorted(set(sizes)), "microseconds": {}, "iterations": {}}
    for residual, solver in METHODS:
        name = f"{NAMES[residual]} + {NAMES[solver]}"
        rows = []
        for links in results["links"]:
            once, _ = step_time(links, residual, solver, 2, 1, guess)
            steps = int(np.clip(seconds / 4 / (once * 1e-6), 2, 1000 if links <= 20 else 100))
            rows.append(step_time(links, residual, solver, steps, 4, guess))
        results["microseconds"][name] = [row[0] for row in rows]
        results["iterations"][name] = [row[1] for row in rows]
    return results


def ratios(results: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return ratios of times at 10 and 100 links: SVI over DRNEA with RIQN, and Newton over RIQN with DRNEA."""
    table = {}
    for links in (10, 100):
        if links in results["links"]:
            k = results["links"].index(links)
            times = {name: values[k] for name, values in results["microseconds"].items()}
            fastest = times["DRNEA + RIQN"]
            table[str(links)] = {
                "SVI over DRNEA, RIQN": times["SVI + RIQN"] / fastest,
                "Newton over RIQN, DRNEA": times["DRNEA + Newton"] / fastest,
            }
    return table


def draw(results: dict[str, Any]) -> Figure:
    figure, plot = axes()
    for name, values in results["microseconds"].items():
        plot.loglog(results["links"], values, marker="o", markersize=3, label=name)
    plot.set(xlabel="degrees of freedom", ylabel="time of a step (µs)", title="Figure 3: time of a step, dt = 1 ms")
    plot.legend(fontsize=8)
    return figure


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=0.4, help="for each method and number of links")
    parser.add_argument("--guess", type=int, default=3, help="1 to 4")
    arguments = parser.parse_args()
    sizes, seconds = ((2, 5), 0.004) if arguments.short else (FEW + MANY, arguments.seconds)
    results = measure(sizes, seconds, arguments.guess)
    results["ratios"] = ratios(results)
    print(f"{'links':18}", " ".join(f"{n:7}" for n in results["links"]))
    for name, values in results["microseconds"].items():
        print(f"{name:18}", " ".join(f"{value:7.1f}" for value in values), "µs")
    print(results["ratios"])
    written(arguments.folder, "figure_3", results, draw(results))


if __name__ == "__main__":
    main()
