"""What a sample of states says of all of them, with its confidence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.evaluate import evaluate as evaluate_fixed
from dynagate.graph.evaluate import evaluate
from dynagate.region import Region
from dynagate.truth import relative_errors

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Statement:
    """With this confidence, from this many states of the region: a `quantile` of them has relative L2 errors of at most
    `error` (by block), and at most `overflow` of them overflow; infinity and 1 where the states are too few to say."""

    quantile: float
    confidence: float
    states: int
    seed: int
    error: dict[str, float]
    overflow: float

    @property
    def worst(self) -> tuple[float, str]:
        """The largest error and its block."""
        return max((error, block) for block, error in self.error.items())

    def text(self) -> str:
        error, block = self.worst
        return (
            f"{self.quantile:.1%} of the states in the region have relative L2 errors below {error:.1e} ({block} the "
            f"worst block) and at most {self.overflow:.1e} of them overflow, each with {self.confidence:.0%} "
            f"confidence, from {self.states} states (seed {self.seed})"
        )


def state(
    formatted: FormattedGraph,
    region: Region,
    *,
    quantile: float = 0.999,
    confidence: float = 0.99,
    states: int = 16384,
    seed: int = 31,
) -> Statement:
    """Measured by the integer executor against float64."""
    inputs = region.sample(formatted.graph.name, states, seed)
    errors, overflow = measured(formatted, inputs, evaluate(formatted.graph, inputs))
    return Statement(
        quantile,
        confidence,
        states,
        seed,
        {k: quantile_bound(e, quantile, confidence) for k, e in errors.items()},
        rate_bound(int(overflow.sum()), states, confidence),
    )


def measured(
    formatted: FormattedGraph, inputs: Mapping[str, Array], expected: Mapping[str, Array]
) -> tuple[dict[str, Array], npt.NDArray[np.bool_]]:
    """By block the relative L2 error of every state, (states,), and which states overflow."""
    result = evaluate_fixed(formatted, inputs)
    return {k: relative_errors(result.outputs[k], value) for k, value in expected.items()}, result.overflow


def quantile_bound(values: Array, quantile: float, confidence: float) -> float:
    """The order statistic that is above the quantile with this confidence, whatever the distribution (Conover,
    "Practical nonparametric statistics", 1999, §3.2); infinity where none is."""
    ordered, below = np.sort(values), 0.0
    for k in range(len(ordered)):
        # the k + 1 smallest are below the quantile only if so many states are
        below += _binomial(len(ordered), k, quantile) if k > len(ordered) * quantile - 60 else 0.0
        if below >= confidence:
            return float(ordered[k])
    return math.inf


def rate_bound(count: int, states: int, confidence: float) -> float:
    """The rate above which so few events in so many states have a chance of 1 - confidence (Clopper & Pearson 1934)."""
    low, high = count / states, 1.0
    if count == states:
        return 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if sum(_binomial(states, k, middle) for k in range(count + 1)) > 1.0 - confidence:
            low = middle
        else:
            high = middle
    return high


def _binomial(n: int, k: int, p: float) -> float:
    """Chance of k successes in n."""
    if p <= 0.0 or p >= 1.0:
        return float(k == (0 if p <= 0.0 else n))
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))
