"""Loops of graphs on integers, with formats for what their graphs met: for loops whose values no region describes.

Each graph has formats of its own, of one word. What passes from one to the next is the value of an integer, rounded
half up to the format of whoever takes it. Such values are float64 numbers without error, for words of 32 bits at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.assign import FormattedGraph, Policy, WordLengths, assign_word
from dynagate.fixedpoint.evaluate import evaluate_integers, gather_outputs, quantise_inputs
from dynagate.fixedpoint.ranges import sampled_ranges
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.graph.late import late_terms_last
from dynagate.graph.loop import Loop, evaluate_loop

Array = npt.NDArray[Any]

MOST = 4096
"""States of a graph that its ranges come from."""


class _Unlimited:
    """Values of which nothing is known but what was met."""

    def bounds(self, name: str) -> list[tuple[float, float]] | None:
        return None


@dataclass
class LoopOnIntegers:
    """A loop in integers. formats: of its graphs, by `id`. overflows: by graph, in how many states of the last call a
    result did not fit its format, and became the nearest that does."""

    loop: Loop
    formats: Mapping[int, FormattedGraph]
    overflows: Counter[str] = field(default_factory=Counter)

    @classmethod
    def observing(
        cls, loop: Loop, inputs: Mapping[str, Array], policy: Policy, moving: Collection[str] = ()
    ) -> LoopOnIntegers:
        """With formats for all that comes into each graph while the loop runs on these inputs in float64. moving:
        inputs of graphs whose entries change places, and so have one range. Raises ValueError: a value is not finite in
        one of them."""
        met: dict[int, tuple[Graph, list[dict[str, Array]]]] = {}

        def observed(graph: Graph, values: Mapping[str, Array]) -> dict[str, Array]:
            spread = {
                name: np.repeat(np.abs(values[name]).max(axis=1, keepdims=True), values[name].shape[1], axis=1)
                for name in moving
                if name in values
            }
            met.setdefault(id(graph), (graph, []))[1].append({**values, **spread})
            return evaluate(graph, values)

        evaluate_loop(loop, inputs, observed)
        return cls(loop, {key: _formatted(graph, batches, policy) for key, (graph, batches) in met.items()})

    def evaluate(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of the loop, as `evaluate_loop`."""
        self.overflows.clear()
        return evaluate_loop(self.loop, inputs, self._graph)

    def _graph(self, graph: Graph, values: Mapping[str, Array]) -> dict[str, Array]:
        formatted = self.formats[id(graph)]
        results = evaluate_integers(formatted, quantise_inputs(formatted, values))
        if count := int(results.overflow.sum()):
            self.overflows[graph.name] += count
        return gather_outputs(formatted, results.value)


def _formatted(graph: Graph, batches: list[dict[str, Array]], policy: Policy) -> FormattedGraph:
    inputs = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    every = -(-len(next(iter(inputs.values()))) // MOST)
    graph = late_terms_last(graph)
    ranges = sampled_ranges(graph, {name: x[::every] for name, x in inputs.items()})
    return assign_word(graph, _Unlimited(), ranges, policy, WordLengths([policy.word] * len(graph)))
