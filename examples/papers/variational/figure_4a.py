"""Figure 4a: the residual over the iterations of one step, by Newton and by RIQN.

    python -m examples.papers.variational.figure_4a

50 links, tolerance 1e-8 N m s, the first step from IG1. The paper's text says "zero configurations as the initial
guess"; from q = 0 neither method converges, and the released code begins at the present configuration.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from examples.papers.variational.chain import axes, chain, options, states, written
from examples.papers.variational.integrator import Variational


def measure(links: int = 50, tolerance: float = 1e-8, guess: int = 1, seed: int = 0) -> dict[str, Any]:
    """Return the norms of the residual over the iterations, N m s, by method."""
    q0, qd0 = states(links, 1, seed)
    integrators = {
        name: Variational(chain(links), dt=1e-3, tolerance=tolerance, guess=guess, solver=name)
        for name in ("newton", "riqn")
    }
    return {
        "links": links,
        "tolerance": tolerance,
        **{name: integrator.convergence(q0[0], qd0[0]).tolist() for name, integrator in integrators.items()},
    }


LABELS = {"newton": "Newton", "riqn": "RIQN"}


def draw(results: dict[str, Any]) -> Figure:
    figure, plot = axes()
    for name, label in LABELS.items():
        plot.semilogy(np.arange(1, len(results[name]) + 1), results[name], marker="o", label=label)
    plot.axhline(results["tolerance"], color="gray", linestyle=":")
    plot.set(
        xlabel="residual evaluation",
        ylabel="residual (N m s)",
        title=f"Figure 4a: convergence, {results['links']} links",
    )
    plot.legend()
    return figure


def main() -> None:
    arguments = options(__doc__).parse_args()
    results = measure(5) if arguments.short else measure()
    for name, label in LABELS.items():
        print(f"{label:7}", " ".join(f"{value:8.1e}" for value in results[name]))
    written(arguments.folder, "figure_4a", results, draw(results))


if __name__ == "__main__":
    main()
