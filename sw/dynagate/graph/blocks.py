"""A loop as few graphs as it can be: what a processor's program, which has blocks of instructions, is made of.

Graphs that follow each other become one, values that do not change become constants, and the iterations that an inner
loop took become a value like others.
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
    """A loop whose steps are graphs, no two of them neighbors, and such loops. starts: what inputs that are carried
    begin with, where it is one number; these are no inputs of the whole."""

    loop: Loop
    starts: Mapping[str, float]


def in_blocks(loop: Loop, constants: Mapping[str, float] | None = None) -> Blocks:
    """constants: inputs that have the same number in every entry. Raises ValueError naming what blocks do not have:
    scans, and loops in the loop that have values per iteration or keep values of their iterations."""
    for name, wrong in (("backwards", loop.backwards), ("every", loop.every > 1)):
        if wrong:
            raise ArgumentError(f"loop '{loop.name}' with {name}; expected it left out in a program")
    for each in loop.inner_loops():
        _check_inner(each)
    unique, counts = resolved(loop)
    joined, starts = _joined(unique, constants or {})
    return Blocks(joined, {**counts, **starts})


def _joined(loop: Loop, constants: Mapping[str, float]) -> tuple[Loop, dict[str, float]]:
    """A loop with unique names in blocks, and what carried inputs begin with."""
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
    """One graph of several, which gives those of their outputs that have these names."""
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
    """Raises ArgumentError."""
    for what, names in (("takes", loop.per_iteration), ("keeps", loop.kept)):
        if names:
            raise ArgumentError(
                f"loop '{loop.name}' {what} '{names[0]}' of every iteration; expected a loop without such values in a "
                "program's loop"
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
"""Each kind of step in blocks, with what the carried inputs of loops in it begin with."""
