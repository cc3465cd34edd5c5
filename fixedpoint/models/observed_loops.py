"""Loops of graphs on integers, with formats for what their graphs met: for loops whose values no region describes.

Each graph has formats of its own, of one word. What passes from one to the next is the value of an integer, rounded
half up to the format of its reader. Such values are float64 numbers without error, for words of 32 bits at most.
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
from dynagate.graph.evaluate import evaluate
from dynagate.graph.late import late_terms_last
from dynagate.graph.loop import Loop, Until, evaluate_loop

MOST = 4096
"""States of a graph that its ranges come from."""


class Unlimited:
    """Values of which nothing is known but what was met."""

    def bounds(self, name: str) -> list[tuple[float, float]] | None:
        return None


class AcceptedInputs(Observed):
    """Inputs that reached each graph of a loop, without retries that failed.

    The formats need not hold a point that a line search rejects or that a factorization fails on, so the iterations of
    a retry are dropped if another follows. retries: names of such loops, which end when a value is small.
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
    """A loop in integers. formats: of its graphs, by `id`. overflows: by graph, in how many states of the last call a
    result did not fit its format, and became the nearest that does."""

    loop: Loop
    formats: Mapping[int, FormattedGraph]
    overflows: Counter[str] = field(default_factory=Counter)

    @classmethod
    def observing(
        cls,
        loop: Loop,
        inputs: Mapping[str, Array],
        policy: Policy,
        moving: Collection[str] = (),
        retries: Collection[str] = (),
    ) -> LoopEvaluator:
        """With formats for all that comes into each graph while the loop runs on these inputs in float64. moving:
        inputs of graphs whose entries change places, and so have one range. retries: as of `AcceptedInputs`. Raises
        ValueError: a value is not finite in one of them."""
        observed = AcceptedInputs(loop, retries)
        evaluate_loop(loop, inputs, observed.evaluated)
        formats = {id(graph): _formatted(graph, observed.of(graph), policy, moving) for graph in loop.graphs()}
        return cls(loop, formats)

    def evaluate(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of the loop, as `evaluate_loop` does.

        Integers often repeat themselves: a problem that cannot converge in its formats tries the same steps in each
        iteration. These steps are computed once.
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
    every = -(-len(next(iter(inputs.values()))) // MOST)
    sample = {name: x[::every] for name, x in inputs.items()}
    for name in sample.keys() & moving:
        largest = np.abs(sample[name]).max(axis=1, keepdims=True)
        sample[name] = np.repeat(largest, sample[name].shape[1], axis=1)
    graph = late_terms_last(graph)
    ranges = sampled_ranges(graph, sample)
    return assign_word(graph, Unlimited(), ranges, policy, WordLengths([policy.word] * len(graph)))
