"""Make statements about all states of an operating region from a sample, with a confidence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.base.arrays import Floats
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate as evaluate_fixed
from dynagate.fixedpoint.wordlength.goal import Goal
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.graph.parts import part_graph, parts_of
from dynagate.graph.reference_gradient import relative_errors
from dynagate.graph.region import KINDS, Kind, Region, part_states
from scipy.special import bdtr, betaincinv

OVERFLOWS: dict[Kind, float] = {"uniform": 1e-4, "limits": 1e-3, "rest": 1e-4}
"""Share of the states of each kind that may overflow in a design with an accuracy goal."""

MARGIN = 0.5
"""Share of OVERFLOWS that a sample may show; some samples show less than the true rate."""

OTHERS = 16384
"""Largest number of states at the limits, and of states near rest, in a statement's sample."""

NAMED = 3
"""Largest number of nodes that an error names."""


class MeasuredErrors(NamedTuple):
    """Errors and overflows of a batch of states."""

    errors: dict[str, Floats]
    """Error of each output block in every state, (states,), as `Goal` defines it."""
    overflow: npt.NDArray[np.bool_]
    """States in which a node overflows, (states,)."""
    origins: Counter[int]
    """Number of states in which overflow began at a node, by node."""


@dataclass(frozen=True)
class Sample:
    """Results in the states of one kind."""

    states: int
    """Number of states."""
    seed: int
    """Seed of the states."""
    error: dict[str, float]
    """Upper bound of the error's quantile, by block."""
    overflow: float
    """Share of the sampled states that overflowed."""
    overflow_bound: float
    """Upper bound of the share of all states that overflow."""

    @property
    def worst(self) -> tuple[float, str]:
        """Return the largest error and its block."""
        return max((error, block) for block, error in self.error.items())


@dataclass(frozen=True)
class Statement:
    """Statistical guarantee that a sample gives for a design.

    For each kind of states (`Region.sample`) and with this confidence, a share `quantile` of them has errors of at most
    `error` in each block, and at most a share `overflow_bound` overflows. If the sample is too small, the bounds are
    infinity and 1. An error is |e| / max(|x|, floor) over a block.
    """

    quantile: float
    """Share of the states that keep the errors."""
    confidence: float
    """Probability that the bounds hold."""
    floors: dict[str, float]
    """Floor of each block, in its units."""
    samples: dict[Kind, Sample]
    """Results by kind of states."""
    origins: Counter[int] = field(default_factory=Counter, compare=False)
    """Number of states in which overflow began at a node, by node."""

    @property
    def error(self) -> dict[str, float]:
        """Return the error of uniform states, by block."""
        return self.samples["uniform"].error

    @property
    def worst(self) -> tuple[float, str]:
        """Return the largest error of uniform states and its block."""
        return self.samples["uniform"].worst

    @property
    def overflow(self) -> float:
        """Return the upper bound of the share of uniform states that overflow."""
        return self.samples["uniform"].overflow_bound

    def faults(self, goal: Goal) -> Iterator[str]:
        """Yield the conditions of a goal that the sample violates, as text."""
        for kind, sample in self.samples.items():
            allowed = MARGIN * OVERFLOWS[kind]
            if sample.overflow > allowed:
                yield f"{sample.overflow:.1e} of the {WHICH[kind]} overflow; at most {allowed:.0e} may"
        for kind in goal.kinds:
            for block, error in self.samples[kind].error.items():
                if error > goal.of(block):
                    yield f"{block} errs by {error:.2e} in {WHICH[kind]}; the goal is {goal.of(block):.1e}"

    def text(self) -> str:
        """Return the statement for people: states, confidence, errors and overflows."""
        lines = [
            f"Measured by the integer executor against float64, on states that chose nothing, for {self.quantile:.1%} "
            f"of them with {self.confidence:.0%} confidence. An error is |e| / max(|x|, floor) over a block."
        ]
        for kind, sample in self.samples.items():
            error, block = sample.worst
            lines.append(
                f"Of {sample.states} {WHICH[kind]} (seed {sample.seed}) {block} errs most, by {error:.1e}, and "
                f"{sample.overflow:.1e} overflow."
            )
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the statement for JSON."""
        content = asdict(self)
        del content["origins"]
        return content

    @classmethod
    def of_dict(cls, content: Mapping[str, Any]) -> Statement:
        """Return the statement that `as_dict` converted."""
        samples = {kind: Sample(**sample) for kind, sample in content["samples"].items()}
        return cls(content["quantile"], content["confidence"], content["floors"], samples)


WHICH: dict[Kind, str] = {
    "uniform": "states in the region",
    "limits": "states at its limits",
    "rest": "states near rest",
}
"""Name of each kind of states in texts."""


def state(
    formatted: FormattedGraph,
    region: Region,
    goal: Goal | None = None,
    *,
    draw: int = 0,
    floors: dict[str, float] | None = None,
    number: str | None = None,
) -> Statement:
    """Measure formats against float64 on fresh states, and return the statement.

    Args:
        formatted: Graph with formats.
        region: Operating region.
        goal: Quantile, confidence, floor and number of fresh states; its errors are not used.
        draw: Number of the draw; each draw has its own states.
        floors: Result of `block_floors`, if it is known.
        number: Type that streams round results to, "float32", or None.
    """
    goal = goal or Goal(0.5)
    graph = formatted.graph
    floors = floors or block_floors(graph, region, goal)
    ids = {node.name: i for i, node in enumerate(graph.nodes)}
    samples: dict[Kind, Sample] = {}
    origins: Counter[int] = Counter()
    for k, kind in enumerate(KINDS, start=1 + draw * len(KINDS)):
        count, seed = goal.fresh if kind == "uniform" else min(goal.fresh, OTHERS), goal.seed + k
        error: dict[str, float] = {}
        overflows = 0
        for part, inputs in _samples(formatted, region, count, seed, kind):
            result = measured(part, inputs, evaluate(part.graph, inputs), floors, number)
            overflows = max(overflows, int(result.overflow.sum()))
            origins += Counter({ids[part.graph.nodes[i].name]: states for i, states in result.origins.items()})
            for block, errors in result.errors.items():
                bound = quantile_bound(errors, goal.quantile, goal.confidence)
                error[block] = max(bound, error.get(block, 0.0))
        error = {port.name: error[port.name] for port in graph.outputs}
        samples[kind] = Sample(count, seed, error, overflows / count, rate_bound(overflows, count, goal.confidence))
    return Statement(goal.quantile, goal.confidence, floors, samples, origins)


def _samples(
    formatted: FormattedGraph, region: Region, count: int, seed: int, kind: Kind
) -> Iterator[tuple[FormattedGraph, dict[str, Floats]]]:
    """Yield each function of a graph with the states to compute it for."""
    parts = parts_of(formatted.graph.name)
    if not parts:
        yield formatted, region.states(formatted.graph, count, seed, kind)
    for part in parts:
        own = formatted.of_part(part)
        yield own, part_states(own.graph, part, region, count, seed, kind)


def block_floors(graph: Graph, region: Region, goal: Goal) -> dict[str, float]:
    """Return the floor of each output block's error, by name.

    It is the goal's floor times the root mean square of the block's L2 norm over the goal's states.
    """
    floors: dict[str, float] = {}
    for part in parts_of(graph.name):
        floors |= _floors(own := part_graph(graph, part), part_states(own, part, region, goal.states, goal.seed), goal)
    if not floors:
        floors = _floors(graph, region.states(graph, goal.states, goal.seed), goal)
    return {port.name: floors[port.name] for port in graph.outputs}


def _floors(graph: Graph, states: Mapping[str, Floats], goal: Goal) -> dict[str, float]:
    """Return the floors of one function's output blocks."""
    return {
        name: goal.floor * float(np.sqrt(np.mean(np.sum(np.square(value.reshape(len(value), -1)), axis=1))))
        for name, value in evaluate(graph, states).items()
    }


def measured(
    formatted: FormattedGraph,
    inputs: Mapping[str, Floats],
    expected: Mapping[str, Floats],
    floors: Mapping[str, float] | None = None,
    number: str | None = None,
) -> MeasuredErrors:
    """Return errors and overflows of the integer model.

    Args:
        formatted: Graph with formats.
        inputs: Inputs by name, (states, *shape).
        expected: Float64 outputs by name, (states, *shape).
        floors: Floor of each block; 0 by default.
        number: Type that streams round results to, or None.
    """
    result = evaluate_fixed(formatted, inputs, {} if number is None else dict.fromkeys(expected, number))
    errors = {
        name: relative_errors(result.outputs[name], value, (floors or {}).get(name, 0.0))
        for name, value in expected.items()
    }
    return MeasuredErrors(errors, result.overflow, result.origins)


def names_of(graph: Graph, origins: Counter[int]) -> str:
    """Return the nodes at which overflow began in the most states, as text."""
    return ", ".join(f"'{graph.nodes[i].name}'" for i, _ in origins.most_common(NAMED))


def quantile_bound(values: Floats, quantile: float, confidence: float) -> float:
    """Return the smallest order statistic that exceeds a quantile with a confidence, for any distribution.

    Reference: Conover, "Practical nonparametric statistics", 1999, §3.2.

    Args:
        values: Sample, (count,).
        quantile: Share of the distribution below the bound.
        confidence: Probability that the bound holds.

    Returns:
        The bound; infinity if the sample is too small.
    """
    count = len(values)
    # bdtr: the probability that at most k values lie below the quantile, so that order statistic k (from 0) does not
    k = int(np.searchsorted(bdtr(np.arange(count), count, quantile), confidence))
    return float(np.partition(values, k)[k]) if k < count else math.inf


def rate_bound(count: int, states: int, confidence: float) -> float:
    """Return an upper bound of the rate of an event (Clopper & Pearson, 1934).

    Args:
        count: Number of states with the event.
        states: Number of states.
        confidence: Probability that the bound holds.
    """
    return 1.0 if count == states else float(betaincinv(count + 1, states - count, confidence))
