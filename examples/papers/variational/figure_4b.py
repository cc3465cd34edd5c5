"""Figure 4b: residual evaluations of each step, by Newton and by RIQN.

    python -m examples.papers.variational.figure_4b

The paper prints Newton 4 with no spread and RIQN 5.69 ± 1.16, and not the setup. Two setups are run: that of the
released code (50 links, tolerance 1e-8, IG3), and 10 links, 1e-9, IG1, which reproduces both numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from examples.papers.variational.chain import axes, chain, options, states, written
from examples.papers.variational.integrator import Variational

SETUPS = {"50 links, 1e-8, IG3": (50, 1e-8, 3, 300, 12), "10 links, 1e-9, IG1": (10, 1e-9, 1, 1000, 3)}
"""Each setup: links, tolerance in N m s, guess, steps, seeds. A chain of 50 links moves ever faster: its count grows
with time and differs between seeds, so many short runs describe it better than a long one."""

SOLVERS = {"newton": "Newton", "riqn": "RIQN", "broyden": "Broyden"}


def measure(
    links: int,
    tolerance: float,
    guess: int,
    steps: int = 1000,
    seeds: int = 3,
    solvers: tuple[str, ...] = tuple(SOLVERS),
) -> dict[str, Any]:
    """Return evaluations in each step (seeds, steps), their mean, standard deviation and largest number, by method."""
    q0, qd0 = states(links, seeds)
    results: dict[str, Any] = {}
    for solver in solvers:
        integrator = Variational(chain(links), dt=1e-3, tolerance=tolerance, guess=guess, solver=solver, most=60)
        counts = integrator.run(q0, qd0, steps).iterations
        results[solver] = {
            "mean": float(counts.mean()),
            "deviation": float(counts.std()),
            "most": int(counts.max()),
            "means": counts.mean(axis=1).tolist(),
            "counts": counts.tolist(),
        }
    return results


def draw(results: dict[str, dict[str, Any]]) -> Figure:
    """Draw the results of `measure`, by setup."""
    figure, plot = axes()
    for name, rows in results.items():
        for solver in ("newton", "riqn"):
            plot.plot(np.array(rows[solver]["counts"][0]), linewidth=0.7, label=f"{SOLVERS[solver]}, {name}")
    plot.set(xlabel="step", ylabel="residual evaluations", title="Figure 4b: evaluations per step, dt = 1 ms")
    plot.legend(fontsize=8)
    return figure


def main() -> None:
    arguments = options(__doc__).parse_args()
    setups = {"5 links, 1e-9, IG1": (5, 1e-9, 1, 20, 1)} if arguments.short else SETUPS
    results = {name: measure(*setup) for name, setup in setups.items()}
    for name, rows in results.items():
        for solver, row in rows.items():
            print(f"{name:20} {SOLVERS[solver]:8} {row['mean']:5.2f} ± {row['deviation']:4.2f}, at most {row['most']}")
    written(arguments.folder, "figure_4b", results, draw(results))


if __name__ == "__main__":
    main()
