"""Compile a loop with formats to blocks of instructions: nested loops, and loops that end by a tolerance.

A carried value has an address that is written before the loop and at the end of each iteration. Other values keep the
address at which they were computed. States of the outermost loop are inputs of a sample in its first iteration, and in
later iterations the values of the iteration before.

Values that an inner loop reads or writes separately in every iteration are loaded from and stored to the memory of
iterations. They stay there from one sample to the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from dynagate.fixedpoint.format import Format, quantize
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.fuse import MOST_SHIFT
from dynagate.fixedpoint.models.loops import FormattedLoop, read_inputs, tolerance_of
from dynagate.graph.graph import Port
from dynagate.graph.loop import Until
from dynagate.graph.steps import GRAPH, LOOP, SCAN, UNTIL, refused, table
from dynagate.hw.processor.compiler.instructions import (
    ONE,
    SUM,
    ZERO,
    Block,
    Instruction,
    Instructions,
    OperandSource,
    ProgramError,
    ProgramInterface,
    Repeat,
    instruction,
)
from dynagate.hw.processor.isa.shape import LOAD, STORE


class _Value(NamedTuple):
    """One entry of a value: its source and its format."""

    source: OperandSource
    format: Format


_Scope = dict[str, list[_Value]]


def loop_instructions(formatted: FormattedLoop) -> Instructions:
    """Compile a loop whose graphs `fixedpoint.fuse` has brought into one word length.

    Raises:
        ProgramError: A value is read after another value has taken its addresses in the memory of iterations.
    """
    return _Compiler(formatted).program()


class _Compiler:
    """Compiler state: finished blocks, instructions of the next block, names by result, and addresses in memory."""

    def __init__(self, formatted: FormattedLoop) -> None:
        self.formatted, self.loop = formatted, formatted.loop
        self.fresh = itertools.count()
        self.blocks: list[Block] = []
        self.now: list[Instruction] = []
        self.names: dict[int, str] = {}
        self.level, self.places = 0, 0
        self.memory = formatted.memory
        self.addresses: dict[str, list[int]] = {}
        self.there: dict[str, str] = {}
        for own in self.memory.values():
            if own.owner not in self.addresses:
                first = self.places
                self.places += own.iterations * len(own.formats)
                self.addresses[own.owner] = list(range(first, self.places, own.iterations))

    def program(self) -> Instructions:
        """Return the compiled program."""
        states = [name for name in self.loop.carry.values() if name not in self.memory]
        start = self.named("start") if states else None
        inputs = {port.name: self.entries(port.name, len(port.nodes), port.nodes) for port in self.formatted.inputs}
        scope: _Scope = {
            name: [
                _Value(OperandSource(i), fmt) for i, fmt in zip(own, self.formatted.input_formats(name), strict=True)
            ]
            for name, own in inputs.items()
        }
        kept: dict[str, list[int]] = {}
        for name in states:
            assert start is not None
            kept[name] = self.entries(f"{name}_kept", len(self.formatted.input_formats(name)))
            values = self.constants(self.formatted, name) if name in self.formatted.starts else scope[name]
            scope[name] = self.states(OperandSource(start), name, values, kept[name])
        self.there |= {self.memory[name].owner: name for name in self.loop.carry.values() if name in self.memory}
        if self.formatted.steps[0].as_graph is None:
            self.close()
        scope = self.body(self.formatted, scope, 0)
        ports, outputs, formats = self.results(scope)
        self.carried(self.formatted, kept, scope)
        self.close(last=True)
        own = tuple(replace(port, nodes=tuple(inputs[port.name])) for port in self.formatted.inputs)
        for port in own:
            formats |= dict(zip(port.nodes, self.formatted.input_formats(port.name), strict=True))
        interface = ProgramInterface(
            self.loop.robot, self.loop.name, own, ports, formats, self.bounds(own), self.names, tuple(outputs)
        )
        per_iteration = frozenset(i for name in self.loop.per_iteration for i in inputs[name] if start is not None)
        first = () if start is None else (start,)
        self.blocks[0] = replace(self.blocks[0], inputs=(*first, *interface.input_nodes))
        return Instructions(
            (interface,), tuple(self.blocks), outputs, (self.formatted,), start, per_iteration, self.places
        )

    def bounds(self, ports: tuple[Port, ...]) -> dict[int, tuple[float, float]]:
        """Return the smallest and largest value that the formats of the inputs were chosen for."""
        bounds: dict[int, tuple[float, float]] = {}
        for port in ports:
            first, graph = self.formatted.ports[port.name]
            bounds |= {i: graph.bounds[node] for i, node in zip(port.nodes, first.nodes, strict=True)}
        return bounds

    # numbers and instructions

    def named(self, name: str) -> int:
        """Return an unused number for a result with a name."""
        i = next(self.fresh)
        self.names[i] = name
        return i

    def entries(self, name: str, count: int, like: tuple[int, ...] | None = None) -> list[int]:
        """Return numbers for the entries of a value. like: entries that are equal there share a number."""
        known: dict[int, int] = {}
        for k, node in enumerate(like or range(count)):
            if node not in known:
                known[node] = self.named(f"{name}_{k}")
        return [known[node] for node in like or range(count)]

    def add(self, each: Instruction) -> OperandSource:
        """Add an instruction to the next block and return its result as an operand."""
        self.now.append(each)
        return OperandSource(each.result)

    def close(self, repeat: Repeat | None = None, *, last: bool = False) -> None:
        """End the block."""
        self.blocks.append(Block(tuple(self.now), repeat, last, level=self.level))
        self.now = []

    def move(self, result: int, value: _Value, to: Format, *, out: bool = False) -> OperandSource:
        """Return a value in another format, as the result of a new instruction."""
        down = value.format.frac - to.frac
        if down > MOST_SHIFT:  # less than half a unit in the last place
            return self.add(Instruction(result, SUM, ZERO, ONE, out=out))
        most = min(to.width - 2, MOST_SHIFT)
        if down < -most:  # farther than an instruction moves it
            nearer = Format(to.width, value.format.frac + most)
            part = self.move(self.named(f"{self.names[result]}_nearer"), value, nearer)
            return self.move(result, _Value(part, nearer), to, out=out)
        factor = OperandSource(None, 1 << max(-down, 0))
        return self.add(Instruction(result, SUM, value.source, factor, down=max(down, 0), out=out))

    # loops and graphs

    def states(self, start: OperandSource, name: str, values: list[_Value], kept: list[int]) -> list[_Value]:
        """Return the states: the input in the first iteration, else the result of the iteration before."""
        states = []
        for k, (value, previous) in enumerate(zip(values, kept, strict=True)):
            each = Instruction(self.named(f"{name}_{k}"), SUM, start, value.source, OperandSource(previous, 0, True))
            states.append(_Value(self.add(replace(each, select=True)), value.format))
        return states

    def constants(self, formatted: FormattedLoop, name: str) -> list[_Value]:
        """Return the initial values of a carried input."""
        start = np.array([formatted.starts[name]])
        return [_Value(OperandSource(None, int(quantize(start, f).value[0])), f) for f in formatted.input_formats(name)]

    def body(self, formatted: FormattedLoop, scope: _Scope, level: int) -> _Scope:
        """Return all values after the steps of a loop. level: number of loops around the steps."""
        for step in formatted.steps:
            scope = {**scope, **BLOCKS[step.kind](self, step, scope, level)}
        return scope

    def graph(self, step: FormattedGraph, scope: _Scope, level: int) -> _Scope:
        """Add the instructions of a graph to the next block and return its outputs."""
        graph, formats, needed = step.graph, step.formats, read_inputs(step.graph)
        sources: list[OperandSource] = [OperandSource(None)] * len(graph)
        for port in graph.inputs:
            for i, value in zip(port.nodes, scope[port.name], strict=True):
                if i in needed and value.format.frac != formats[i].frac:
                    value = _Value(self.move(self.named(graph.nodes[i].name), value, formats[i]), formats[i])
                sources[i] = value.source
        for i, node in enumerate(graph.nodes):
            if node.op == "const":
                sources[i] = OperandSource(None, step.constants[i][0])
            elif node.op == "shift":
                sources[i] = sources[node.args[0]]
            elif node.op != "input":
                each = instruction(step, i, node, [sources[a] for a in node.args])
                sources[i] = self.add(replace(each, result=self.named(node.name)))
        return {port.name: [_Value(sources[i], formats[i]) for i in port.nodes] for port in graph.outputs}

    def inner(self, step: FormattedLoop, scope: _Scope, level: int) -> _Scope:
        """Add the blocks of an inner loop and return its outputs."""
        cells: dict[str, list[int]] = {}
        inside = dict(scope)
        for name in step.loop.carry.values():
            if name in self.memory:
                self.is_there(step, name)
                continue
            values = self.constants(step, name) if name in step.starts else scope[name]
            formats = step.input_formats(name)
            cells[name] = self.entries(f"{step.loop.name}.{name}", len(formats), step.ports[name][0].nodes)
            for cell, value, to in _once(cells[name], values, formats):
                self.move(cell, value, to)
            inside[name] = [_Value(OperandSource(i, 0, True), fmt) for i, fmt in zip(cells[name], formats, strict=True)]
        if self.now:
            self.close()
        target, around = len(self.blocks), self.level
        self.level = level
        inside |= {name: self.loaded(step, name) for name in step.loop.per_iteration}
        iteration = self.body(step, inside, level + 1)
        for name in step.loop.kept:
            self.stored(step, name, iteration[name])
        last = [name for name in step.loop.last if name not in self.memory]
        results = {name: [self.stays(value, cells) for value in iteration[name]] for name in last}
        self.carried(step, cells, iteration)
        stop = step.loop.stop
        if isinstance(stop, Until):
            self.test(iteration[stop.residual][0], stop)
        self.close(Repeat(target, step.loop.max_iterations, isinstance(stop, Until), level))
        self.level = around
        for source, name in step.loop.carry.items():  # behind the loop its last iteration's value has its own name
            if name in self.memory:
                self.there[self.memory[name].owner] = source
        return results

    # the memory of iterations

    def is_there(self, step: FormattedLoop, name: str) -> None:
        """Check that the addresses of a value in the memory of iterations still hold it.

        Raises:
            ProgramError: Another value has taken the addresses.
        """
        holds = self.there.setdefault(self.memory[name].owner, name)
        if holds != name:
            raise ProgramError(
                f"{self.loop.robot} {self.loop.name}: loop '{step.loop.name}' takes '{name}' where the memory holds "
                f"'{holds}' already; expected a loop that takes it before",
                code="DG-CORE-010",
            )

    def addressed(self, each: Instruction, step: FormattedLoop, name: str, entry: int) -> Instruction:
        """Return a load or a store with the address of an entry of the value."""
        own = self.memory[name]
        backwards = step.loop.backwards
        first = self.addresses[own.owner][entry] + (own.iterations - 1 if backwards else 0)
        return replace(each, address=first, backwards=backwards)

    def loaded(self, step: FormattedLoop, name: str) -> list[_Value]:
        """Load the value of this iteration, only the entries that an instruction reads."""
        self.is_there(step, name)
        needed: set[int] = set()
        for formatted in step.graphs():
            for port in formatted.graph.inputs:
                if port.name == name:
                    used = read_inputs(formatted.graph)
                    needed |= {k for k, i in enumerate(port.nodes) if i in used}
        values = []
        for k, to in enumerate(self.memory[name].formats):
            i = self.named(f"{name}_{k}")
            if k in needed:
                self.add(self.addressed(Instruction(i, LOAD, ZERO), step, name, k))
            values.append(_Value(OperandSource(i), to))
        return values

    def stored(self, step: FormattedLoop, name: str, values: list[_Value]) -> None:
        """Store the value of this iteration."""
        for k, (value, to) in enumerate(zip(values, self.memory[name].formats, strict=True)):
            source = value.source
            if value.format.frac != to.frac:
                source = self.move(self.named(f"{name}_{k}"), value, to)
            each = Instruction(self.named(f"{name}_{k}_stored"), STORE, source)
            self.add(self.addressed(each, step, name, k))
        self.there[self.memory[name].owner] = name

    def stays(self, value: _Value, cells: dict[str, list[int]]) -> _Value:
        """Return the value at an address that the loop does not write again."""
        if not any(value.source.node in own for own in cells.values()):
            return value
        return _Value(self.move(self.named("copy"), value, value.format), value.format)

    def carried(self, step: FormattedLoop, cells: dict[str, list[int]], scope: _Scope) -> None:
        """Copy the results to the carried inputs of the next iteration."""
        for source, name in step.loop.carry.items():
            if name in self.memory:
                self.is_there(step, source)
                self.there[self.memory[name].owner] = name
        moves = [
            (cell, self.stays(value, cells), to)
            for source, name in step.loop.carry.items()
            if name not in self.memory
            for cell, value, to in _once(cells[name], scope[source], step.input_formats(name))
        ]
        for cell, value, to in moves:
            self.move(cell, value, to)

    def test(self, residual: _Value, stop: Until) -> None:
        """Add the tests that continue the loop while |residual| exceeds the tolerance.

        A test computes (± residual - tolerance) / 2, rounded half up, which never overflows a word.
        """
        tolerance = OperandSource(None, tolerance_of(stop, residual.format))
        for negative in (False, True):
            each = Instruction(self.named("test"), SUM, residual.source, ONE, tolerance, negative, True, down=1)
            self.add(replace(each, test=True))

    def results(self, scope: _Scope) -> tuple[tuple[Port, ...], dict[int, int], dict[int, Format]]:
        """Return the ports of the loop's outputs, the results that are sent, and their formats."""
        ports, outputs, formats = [], dict[int, int](), dict[int, Format]()
        known: dict[_Value, int] = {}
        for name, (port, _) in self.formatted.outputs.items():
            for k, value in enumerate(scope[name]):
                if value not in known:
                    known[value] = i = self.named(f"{name}_{k}")
                    self.move(i, value, value.format, out=True)
                    outputs[i], formats[i] = i, value.format
            ports.append(replace(port, nodes=tuple(known[value] for value in scope[name])))
        return tuple(ports), outputs, formats


BLOCKS: Mapping[str, Callable[[_Compiler, Any, _Scope, int], _Scope]] = table(
    "hw.processor.compiler.loops.BLOCKS",
    {
        GRAPH: _Compiler.graph,
        LOOP: _Compiler.inner,
        UNTIL: _Compiler.inner,
        SCAN: refused("a program", "graphs and loops"),
    },
)
"""Functions that add the blocks of each kind of step.

Each maps the values of its scope to the outputs of the step. The last argument is the number of loops around it.
"""


def _once(cells: list[int], values: list[_Value], formats: list[Format]) -> list[tuple[int, _Value, Format]]:
    """Return the value of each cell once; entries of a symmetric matrix share a cell and a value."""
    by_cell = {cell: (cell, value, to) for cell, value, to in zip(cells, values, formats, strict=True)}
    return list(by_cell.values())
