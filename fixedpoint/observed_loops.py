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
from dynagate.fixedpoint.loops import Observed
from dynagate.fixedpoint.ranges import sampled_ranges
from dynagate.graph import Graph
from dynagate.graph.late import late_terms_last
from dynagate.graph.loop import Loop, evaluate_loop, graphs

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
        observed = Observed()
        evaluate_loop(loop, inputs, observed.evaluated)
        formats = {id(graph): _formatted(graph, observed.of(graph), policy, moving) for graph in graphs(loop)}
        return cls(loop, formats)

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


def _formatted(graph: Graph, inputs: Mapping[str, Array], policy: Policy, moving: Collection[str]) -> FormattedGraph:
    every = -(-len(next(iter(inputs.values()))) // MOST)
    sample = {name: x[::every] for name, x in inputs.items()}
    for name in sample.keys() & moving:
        largest = np.abs(sample[name]).max(axis=1, keepdims=True)
        sample[name] = np.repeat(largest, sample[name].shape[1], axis=1)
    graph = late_terms_last(graph)
    ranges = sampled_ranges(graph, sample)
    return assign_word(graph, _Unlimited(), ranges, policy, WordLengths([policy.word] * len(graph)))
