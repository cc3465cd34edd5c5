"""Loops of graphs in integers, with formats from observed values: for loops whose values no region bounds.

Each graph has formats of its own, with one word length. A value passes from one graph to the next as the number that
its integer stands for, and is rounded half up to the format of its reader. These numbers are exact in float64 for words
of up to 32 bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from dynagate.base.arrays import Array
from dynagate.fixedpoint.assign import Policy, WordLengths, assign_word
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate_integers, gather_outputs, quantize_inputs
from dynagate.fixedpoint.models.loops import Observed
from dynagate.fixedpoint.ranges.sampled import sampled_ranges
from dynagate.graph import Graph
from dynagate.graph.critical_path import late_terms_last
from dynagate.graph.evaluate import evaluate
from dynagate.graph.loop import Loop, Until, evaluate_loop

MOST = 4096
"""Largest number of states of a graph that its ranges come from."""


class Unlimited:
    """Bounds of values that are known only from observation."""

    def bounds(self, name: str) -> list[tuple[float, float]] | None:
        return None


class AcceptedInputs(Observed):
    """Inputs that reached each graph of a loop, without failed retries.

    Formats need not hold a point that a line search rejects or on which a factorization fails. The iterations of a
    retry are therefore dropped if another one follows. retries: names of such loops, which end when a value is small.
    """

    def __init__(self, loop: Loop, retries: Collection[str]) -> None:
        super().__init__()
        self._within: dict[int, tuple[str, Until]] = {}  # graph of a retry -> that loop, and the value that ends it
        self._waiting: dict[str, list[tuple[int, dict[str, Array]]]] = {name: [] for name in retries}
        for each in loop.inner_loops():
            if each.name not in retries:
                continue
            assert isinstance(each.stop, Until)
            for graph in each.graphs():
                self._within[id(graph)] = each.name, each.stop

    def evaluated(self, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        if id(graph) not in self._within:
            return super().evaluated(graph, inputs)
        name, stop = self._within[id(graph)]
        outputs = evaluate(graph, inputs)
        waiting = self._waiting[name]
        waiting.append((id(graph), dict(inputs)))
        if stop.residual in outputs:
            rows = np.abs(outputs[stop.residual]) <= stop.tolerance
            for each, values in waiting if rows.any() else ():
                self.inputs.setdefault(each, []).append({k: x[rows] for k, x in values.items()})
            waiting.clear()
        return outputs


@dataclass
class LoopEvaluator:
    """Evaluates a loop in integers."""

    loop: Loop
    formats: Mapping[int, FormattedGraph]
    """Formats of the graphs, by `id`."""
    overflows: Counter[str] = field(default_factory=Counter)
    """Number of states of the last call in which a result saturated, by graph."""

    @classmethod
    def observing(
        cls,
        loop: Loop,
        inputs: Mapping[str, Array],
        policy: Policy,
        moving: Collection[str] = (),
        retries: Collection[str] = (),
    ) -> LoopEvaluator:
        """Return an evaluator with formats for all values that occur while the loop runs in float64.

        Args:
            loop: The loop.
            inputs: Inputs (batch, ...) by name.
            policy: Word length and arithmetic.
            moving: Inputs of graphs whose entries change places, and so share a range.
            retries: Names of retry loops, as in `AcceptedInputs`.

        Raises:
            ArgumentError: A value is not finite in a graph.
        """
        observed = AcceptedInputs(loop, retries)
        evaluate_loop(loop, inputs, observed.evaluated)
        formats = {id(graph): _formatted(graph, observed.of(graph), policy, moving) for graph in loop.graphs()}
        return cls(loop, formats)

    def evaluate(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of the loop, as `evaluate_loop` does.

        Integers often repeat: a problem that cannot converge in its formats tries the same steps in each iteration.
        These steps are computed once.
        """
        self.overflows.clear()
        return evaluate_loop(self.loop, inputs, self._graph, reuse=True)

    def _graph(self, graph: Graph, values: Mapping[str, Array]) -> dict[str, Array]:
        formatted = self.formats[id(graph)]
        results = evaluate_integers(formatted, quantize_inputs(formatted, values))
        if count := int(results.overflow.sum()):
            self.overflows[graph.name] += count
        return gather_outputs(formatted, results.value)


def _formatted(graph: Graph, inputs: Mapping[str, Array], policy: Policy, moving: Collection[str]) -> FormattedGraph:
    """Return a graph with formats for observed inputs."""
    every = -(-len(next(iter(inputs.values()))) // MOST)
    sample = {name: x[::every] for name, x in inputs.items()}
    for name in sample.keys() & moving:
        largest = np.abs(sample[name]).max(axis=1, keepdims=True)
        sample[name] = np.repeat(largest, sample[name].shape[1], axis=1)
    graph = late_terms_last(graph)
    ranges = sampled_ranges(graph, sample)
    return assign_word(graph, Unlimited(), ranges, policy, WordLengths([policy.word] * len(graph)))
