"""A loop as few graphs as it can be: what a processor's program, which has blocks of instructions, is made of.

Graphs that follow each other become one, values that do not change become constants, and the turns that an inner loop
took become a value like others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.dynamics.spatial import select
from dynagate.graph.derivatives import output_values
from dynagate.graph.graph import Graph
from dynagate.graph.loop import RESIDUAL, TURNS, Loop, Until
from dynagate.graph.recorder import Recording
from dynagate.graph.scan import Scan

Array = npt.NDArray[Any]
Step = Graph | Loop | Scan


@dataclass(frozen=True)
class Blocks:
    """A loop whose steps are graphs, no two of them neighbors, and such loops. starts: what inputs that are carried
    begin with, where it is one number; these are no inputs of the whole."""

    loop: Loop
    starts: Mapping[str, float]


def in_blocks(loop: Loop, constants: Mapping[str, float] | None = None) -> Blocks:
    """constants: inputs that have the same number in every entry. Raises ValueError naming what blocks do not have:
    scans, and loops in the loop that have values per turn or keep values of their turns."""
    for name, wrong in (("backwards", loop.backwards), ("every", loop.every > 1)):
        if wrong:
            raise ArgumentError(f"loop '{loop.name}' with {name}; expected it left out in a program")
    return Blocks(*_joined(loop, constants or {}))


def renamed(loop: Loop, names: Mapping[str, str]) -> Loop:
    """The loop and those in it with other names of values."""

    def name(old: str) -> str:
        return names.get(old, old)

    stop = replace(loop.stop, residual=name(loop.stop.residual)) if isinstance(loop.stop, Until) else loop.stop
    return replace(
        loop,
        steps=tuple(_renamed_step(step, names) for step in loop.steps),
        carry={name(a): name(b) for a, b in loop.carry.items()},
        stop=stop,
        per_turn=tuple(map(name, loop.per_turn)),
        kept=tuple(map(name, loop.kept)),
        last=tuple(map(name, loop.last)),
    )


def _renamed_step(step: Step, names: Mapping[str, str]) -> Step:
    if isinstance(step, Loop):
        return renamed(step, names)
    if isinstance(step, Scan):
        raise ArgumentError(f"scan '{step.name}' in a program; expected graphs and loops")
    return step.named(names, names)


def _joined(loop: Loop, constants: Mapping[str, float]) -> tuple[Loop, dict[str, float]]:
    """The loop in blocks, and what carried inputs begin with."""
    loop, starts = _counted(loop)
    carried = set(loop.carry.values())
    starts |= {name: value for name, value in constants.items() if name in carried}
    folded = {name: value for name, value in constants.items() if name not in carried}
    needed = {*loop.carry, *loop.kept, *loop.last}
    if isinstance(loop.stop, Until):
        needed.add(loop.stop.residual)
    steps: list[Graph | Loop] = []
    graphs: list[Graph] = []
    for k, step in enumerate(loop.steps):
        if isinstance(step, Loop):
            inner, own = _joined(step, folded)
            steps.append(inner)
            starts |= own
            continue
        assert isinstance(step, Graph)  # no scan: it was renamed
        graphs.append(step)
        if k + 1 == len(loop.steps) or not isinstance(loop.steps[k + 1], Graph):
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


def _counted(loop: Loop) -> tuple[Loop, dict[str, float]]:
    """TURNS and RESIDUAL of the loops in it as values of these loops, where something takes them."""
    starts: dict[str, float] = {}
    steps: list[Step] = []
    names: dict[str, str] = {}
    for k, step in enumerate(loop.steps):
        now = _renamed_step(step, names)
        if isinstance(now, Loop):
            now = _check_inner(now)
            later = {port.name for other in loop.steps[k + 1 :] for port in other.inputs}
            taken = (later | {*loop.kept, *loop.last, *loop.carry}) & {TURNS, RESIDUAL}
            if isinstance(now.stop, Until) and taken:
                names = {name: f"{now.name}_{name}" for name in taken}
                now = _with_turns(now, now.stop, names)
                starts[f"{now.name}_before"] = 0.0
        steps.append(now)
    return _outer(loop, tuple(steps), names), starts


def _outer(loop: Loop, steps: tuple[Step, ...], names: Mapping[str, str]) -> Loop:
    """The loop with other steps, and the names that values of them have now."""
    return replace(
        loop,
        steps=steps,
        carry={names.get(a, a): b for a, b in loop.carry.items()},
        kept=tuple(names.get(name, name) for name in loop.kept),
        last=tuple(names.get(name, name) for name in loop.last),
    )


def _with_turns(loop: Loop, stop: Until, names: Mapping[str, str]) -> Loop:
    """A loop that counts its turns, and gives them and the size of its residual by these names."""
    recording = Recording("count", loop.robot)
    outputs: dict[str, Array] = {}
    carry = dict(loop.carry)
    if TURNS in names:
        before = recording.input(f"{loop.name}_before", (), float(stop.at_most))
        outputs[names[TURNS]] = np.array(before[()] + 1.0, dtype=object)
        carry[names[TURNS]] = f"{loop.name}_before"
    if RESIDUAL in names:
        residual = recording.input(stop.residual, ())[()]
        outputs[names[RESIDUAL]] = np.array(select(residual, residual, -residual), dtype=object)
    count = recording.graph(outputs)
    return replace(loop, steps=(*loop.steps, count), carry=carry, last=(*loop.last, *names.values()))


def _check_inner(loop: Loop) -> Loop:
    """Raises ValueError."""
    for what, names in (("takes", loop.per_turn), ("keeps", loop.kept)):
        if names:
            raise ArgumentError(
                f"loop '{loop.name}' {what} '{names[0]}' of every turn; expected a loop without such values in a "
                "program's loop"
            )
    return loop
