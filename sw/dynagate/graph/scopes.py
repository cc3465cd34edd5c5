"""Resolve the names of a program: make the name of each value unique across all scopes.

A program of the small processor, and the integer model of it, keep the values of all scopes in one table. `resolved`
renames values with equal names in different scopes, and values that two steps of a scope compute one after the other.
Names that are already unique stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dynagate.dynamics.spatial import select
from dynagate.graph.graph import Graph, Port
from dynagate.graph.loop import ITERATIONS, RESIDUAL, Loop, Until
from dynagate.graph.recorder import Recording
from dynagate.graph.scan import Scan
from dynagate.graph.steps import GRAPH, LOOP, SCAN, UNTIL, Step, table

Names = dict[str, str]
"""Names of a scope -> names in the resolved program."""


class Resolved(NamedTuple):
    """A program with unique names."""

    loop: Loop
    """The program."""
    starts: Mapping[str, float]
    """Initial values of the carried inputs that `resolved` has added."""


def resolved(loop: Loop) -> Resolved:
    """Return a program with unique names. The names of its inputs and outputs stay.

    ITERATIONS and RESIDUAL of a loop in it become values like others, if a step or the program reads them. Their names
    begin with the name of that loop.
    """
    inputs = {port.name for port in loop.inputs}
    scopes = _Scopes(set(inputs))
    now, names = scopes.loop(loop, {name: name for name in inputs}, frozenset(), is_inner=False)
    counts = {ITERATIONS, RESIDUAL}
    taken = {name: new for name, new in names.items() if name != new and name not in counts}  # renamed by inner scopes
    swapped = taken | {new: name for name, new in taken.items()}
    now = now.renamed({new: name for name, new in swapped.items()})
    return Resolved(now, {swapped.get(name, name): value for name, value in scopes.starts.items()})


@dataclass
class _Scopes:
    """The names in use, and the initial values of added carried inputs."""

    used: set[str]
    starts: dict[str, float] = field(default_factory=dict)

    def new(self, name: str, scope: str) -> str:
        """Return an unused name: this one if possible, else one that begins with the scope."""
        candidate, k = name, 1
        while candidate in self.used:
            candidate, k = f"{scope}.{name}" if k == 1 else f"{scope}.{name}.{k}", k + 1
        self.used.add(candidate)
        return candidate

    def loop(
        self, loop: Loop, around: Mapping[str, str], carried: frozenset[str], *, is_inner: bool = True
    ) -> tuple[Loop, Names]:
        """Return a loop with unique names, and the names of its outputs.

        Args:
            loop: The loop.
            around: Names of the scope around it.
            carried: Resolved names that the loops around it carry.
            is_inner: Whether the loop is inside another loop.
        """
        names = {port.name: around[port.name] for port in loop.inputs}
        inputs = dict(names)
        within = carried | {names[name] for name in loop.carry.values()}
        at_end = {*loop.carry, *loop.kept, *loop.last}
        steps: list[Step] = []
        for k, step in enumerate(loop.steps):
            read = at_end | {port.name for other in loop.steps[k + 1 :] for port in other.inputs}
            named, own = NAMED[step.kind](self, step, _Around(loop.name, names, within, read))
            steps += named
            names |= own
        for name in dict.fromkeys((*loop.kept, *loop.last)):
            if name in inputs and is_inner:  # the scope around has another value of this name
                names[name] = self.new(name, loop.name)
                steps.append(_copy(loop.robot, loop.values[name], inputs[name], names[name]))
        stop = loop.stop
        if isinstance(stop, Until):
            stop = replace(stop, residual=names[stop.residual])
        return replace(
            loop,
            steps=tuple(steps),
            carry={names[value]: inputs[name] for value, name in loop.carry.items()},
            stop=stop,
            per_iteration=tuple(inputs[name] for name in loop.per_iteration),
            kept=tuple(names[name] for name in loop.kept),
            last=tuple(names[name] for name in loop.last),
        ), {name: names[name] for name in (*loop.kept, *loop.last)}

    def named_graph(self, graph: Graph, around: _Around) -> tuple[list[Step], Names]:
        own = {port.name: self.new(port.name, around.scope) for port in graph.outputs}
        return [graph.named(around.names, own)], own

    def named_scan(self, scan: Scan, around: _Around) -> tuple[list[Step], Names]:
        own = {port.name: self.new(port.name, around.scope) for port in scan.outputs}
        return [scan.renamed({**around.names, **own})], own

    def named_loop(self, loop: Loop, around: _Around) -> tuple[list[Step], Names]:
        names, copies = dict(around.names), list[Step]()
        for name in loop.carry.values():
            if names[name] in around.carried:  # a loop around it changes the value in each iteration
                names[name] = self.new(name, loop.name)
                port = next(port for port in loop.inputs if port.name == name)
                copies.append(_copy(loop.robot, port, around.names[name], names[name]))
        now, own = self.loop(loop, names, around.carried)
        if isinstance(loop.stop, Until) and (counted := around.read & {ITERATIONS, RESIDUAL}):
            more = {name: self.new(f"{loop.name}_{name}", around.scope) for name in sorted(counted)}
            now, own = self._with_iterations(now, more), own | more
        return [*copies, now], own

    def _with_iterations(self, loop: Loop, names: Mapping[str, str]) -> Loop:
        """Return a resolved loop that counts its iterations, with these names for ITERATIONS and RESIDUAL."""
        stop = loop.stop
        assert isinstance(stop, Until)
        recording = Recording("count", loop.robot)
        outputs: dict[str, Any] = {}
        carry = dict(loop.carry)
        if ITERATIONS in names:
            start = self.new(f"{loop.name}_before", loop.name)
            self.starts[start] = 0.0
            before = recording.input(start, (), float(stop.at_most))
            outputs[names[ITERATIONS]] = np.array(before[()] + 1.0, dtype=object)
            carry[names[ITERATIONS]] = start
        if RESIDUAL in names:
            residual = recording.input(stop.residual, ())[()]
            outputs[names[RESIDUAL]] = np.array(select(residual, residual, -residual), dtype=object)
        count = recording.graph(outputs)
        return replace(loop, steps=(*loop.steps, count), carry=carry, last=(*loop.last, *names.values()))


class _Around(NamedTuple):
    """The scope around a step."""

    scope: str
    """Name of the scope."""
    names: Names
    """Names of the scope's values -> resolved names."""
    carried: frozenset[str]
    """Resolved names that the scope and the scopes around it carry."""
    read: set[str]
    """Values that are read after the step."""


def _copy(robot: str, like: Port, name: str, new: str) -> Graph:
    """Return a graph that gives a value another name."""
    recording = Recording("copy", robot)
    return recording.graph({new: recording.input_like(replace(like, name=name))})


NAMED: Mapping[str, Callable[[_Scopes, Any, _Around], tuple[list[Step], Names]]] = table(
    "graph.scopes.NAMED",
    {
        GRAPH: _Scopes.named_graph,
        LOOP: _Scopes.named_loop,
        UNTIL: _Scopes.named_loop,
        SCAN: _Scopes.named_scan,
    },
)
"""For each kind of step, the function that returns it with unique names, after copies it needs, and its
outputs' names.
"""
