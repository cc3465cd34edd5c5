"""Convert a loop to as few graphs as possible, for the instruction blocks of the small processor.

Consecutive graphs become one, inputs with a fixed value become constants, and the iteration counts of inner loops
become ordinary values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.graph.derivatives import output_values
from dynagate.graph.graph import Graph
from dynagate.graph.loop import Loop, Until
from dynagate.graph.recorder import Recording
from dynagate.graph.scopes import resolved
from dynagate.graph.steps import GRAPH, LOOP, SCAN, UNTIL, Step, refused, table


@dataclass(frozen=True)
class Blocks:
    """A loop whose steps are graphs and inner loops of the same form, without two adjacent graphs."""

    loop: Loop
    """The loop, with unique names for all values."""
    starts: Mapping[str, float]
    """Initial value of each carried input that starts from one fixed number. The complete loop has no input
    for it.
    """


def in_blocks(loop: Loop, constants: Mapping[str, float] | None = None) -> Blocks:
    """Convert a loop to blocks.

    Args:
        loop: The loop.
        constants: Inputs that have the same number in every entry, by name.

    Returns:
        The loop in blocks.

    Raises:
        ArgumentError: The loop has a scan, runs backwards, keeps only some iterations, or has an inner loop with
            values per iteration.
    """
    for name, wrong in (("backwards", loop.backwards), ("every", loop.every > 1)):
        if wrong:
            raise ArgumentError(
                f"loop '{loop.name}' with {name}; expected it left out in a program", code="DG-GRAPH-001"
            )
    for each in loop.inner_loops():
        _check_inner(each)
    unique, counts = resolved(loop)
    joined, starts = _joined(unique, constants or {})
    return Blocks(joined, {**counts, **starts})


def _joined(loop: Loop, constants: Mapping[str, float]) -> tuple[Loop, dict[str, float]]:
    """Merge adjacent graphs of a loop with unique names, and return it with the initial values of its carried
    inputs.
    """
    carried = set(loop.carry.values())
    starts = {name: value for name, value in constants.items() if name in carried}
    folded = {name: value for name, value in constants.items() if name not in carried}
    needed = {*loop.carry, *loop.kept, *loop.last}
    if isinstance(loop.stop, Until):
        needed.add(loop.stop.residual)
    steps: list[Step] = []
    graphs: list[Graph] = []
    for k, step in enumerate(loop.steps):
        inner, own = IN_BLOCKS[step.kind](step, folded)
        starts |= own
        if (graph := inner.as_graph) is None:
            steps.append(inner)
            continue
        graphs.append(graph)
        if k + 1 == len(loop.steps) or loop.steps[k + 1].as_graph is None:
            later = {port.name for other in loop.steps[k + 1 :] for port in other.inputs}
            steps.append(_join(graphs, folded, later | needed))
            graphs = []
    return replace(loop, steps=tuple(steps)), starts


def _join(graphs: Sequence[Graph], constants: Mapping[str, float], needed: set[str]) -> Graph:
    """Merge consecutive graphs into one graph with the outputs in `needed`."""
    recording = Recording("_".join(graph.name for graph in graphs), graphs[0].robot)
    values: dict[str, Array] = {}
    computed: dict[str, Array] = {}
    for graph in graphs:
        for port in graph.inputs:
            if port.name in constants:
                values[port.name] = np.full(port.shape, constants[port.name], dtype=object)
            elif port.name not in values:
                values[port.name] = recording.input_like(port)
        results = output_values(graph.outputs, recording.replay(graph, values))
        values |= results
        computed |= results
    joined = recording.graph({name: value for name, value in computed.items() if name in needed})
    return replace(joined, forces=graphs[0].forces)


def _check_inner(loop: Loop) -> None:
    """Raise ArgumentError if an inner loop takes or keeps a value of every iteration."""
    for what, names in (("takes", loop.per_iteration), ("keeps", loop.kept)):
        if names:
            raise ArgumentError(
                f"loop '{loop.name}' {what} '{names[0]}' of every iteration; expected a loop without such values in a "
                "program's loop",
                code="DG-GRAPH-002",
            )


IN_BLOCKS: Mapping[str, Callable[[Any, Mapping[str, float]], tuple[Step, dict[str, float]]]] = table(
    "graph.blocks.IN_BLOCKS",
    {
        GRAPH: lambda graph, constants: (graph, {}),
        LOOP: _joined,
        UNTIL: _joined,
        SCAN: refused("a program", "graphs and loops"),
    },
)
"""For each kind of step, the function that returns the step in blocks and the initial values of carried
inputs in it.
"""
