"""Loops of graphs in integers: formats for all graphs, and the integers that a processor computes.

A carried value is stored in the format of the first graph that reads it. A new value is rounded to that format, and so
is a value that a graph reads in another format. A loop with a tolerance compares integers.

Values that an inner loop reads or writes separately in every iteration lie in a memory. A value and the input that it
is carried to share addresses, and so have the format of the first reader of either.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.base.arrays import Array
from dynagate.fixedpoint.assign import Policy, WordLengths, assign_word
from dynagate.fixedpoint.format import Arithmetic, Format, FormattedIntegers, carried, quantize, rescale, to_float
from dynagate.fixedpoint.formatted import Formatted, FormattedGraph
from dynagate.fixedpoint.models.evaluate import EXACT, evaluate_integers
from dynagate.fixedpoint.ranges.sampled import InputBounds, sampled_ranges
from dynagate.graph.blocks import Blocks
from dynagate.graph.critical_path import late_terms_last
from dynagate.graph.evaluate import evaluate
from dynagate.graph.graph import Graph, Port
from dynagate.graph.loop import Loop, Until, evaluate_iteration
from dynagate.graph.steps import GRAPH, LOOP, SCAN, UNTIL, refused, table

Values = dict[str, list[FormattedIntegers]]
"""Entries of each value: integers (batch,) with their format; values in memory are (batch, iterations)."""


@dataclass(frozen=True)
class FormattedLoop(Formatted):
    """A loop in blocks (`graph.blocks`) whose graphs have formats."""

    loop: Loop
    """The loop without formats."""
    steps: tuple[Formatted, ...]
    """Formatted steps in order."""
    starts: Mapping[str, float]
    """Initial values of carried inputs that begin with one number, for the loop and all inner loops."""

    @property
    def step(self) -> Loop:
        return self.loop

    def graphs(self) -> Iterator[FormattedGraph]:
        for step in self.steps:
            yield from step.graphs()

    def loops(self) -> Iterator[FormattedLoop]:
        yield self
        for step in self.steps:
            yield from step.loops()

    def mapped(self, change: Callable[[FormattedGraph], FormattedGraph]) -> FormattedLoop:
        return replace(self, steps=tuple(step.mapped(change) for step in self.steps))

    @property
    def carry(self) -> Mapping[str, str]:
        return {value: name for value, name in self.loop.carry.items() if name not in self.starts}

    @property
    def arithmetic(self) -> Arithmetic:
        return next(self.graphs()).arithmetic

    @cached_property
    def ports(self) -> dict[str, tuple[Port, FormattedGraph]]:
        """Return the port of the first graph that reads each input of the steps, at every depth."""
        ports: dict[str, tuple[Port, FormattedGraph]] = {}
        for graph in self.graphs():
            for port in graph.graph.inputs:
                ports.setdefault(port.name, (port, graph))
        return ports

    def input_formats(self, name: str) -> list[Format]:
        """Return the formats of the entries of an input."""
        port, graph = self.ports[name]
        return _formats_of(port, graph)

    @cached_property
    def makers(self) -> dict[str, tuple[Port, FormattedGraph]]:
        """Return the port and the graph that compute each output of the steps, at every depth."""
        return {port.name: (port, graph) for graph in self.graphs() for port in graph.graph.outputs}

    @cached_property
    def memory(self) -> dict[str, InMemory]:
        """Return, by name, the values that inner loops read from memory or store in it in every iteration."""
        formats: dict[str, list[Format]] = {}
        owners = owners_of(self.loop)
        for name, (port, graph) in (*self.ports.items(), *self.makers.items()):
            if name in owners:
                formats.setdefault(owners[name], _formats_of(port, graph))
        inner = self.loop.inner_loops()
        iterations = {name: loop.max_iterations for loop in inner for name in (*loop.per_iteration, *loop.kept)}
        return {name: InMemory(owner, iterations[name], formats[owner]) for name, owner in owners.items()}

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Return the inputs from outside: `Loop.inputs` without those in `starts` and without values in memory."""
        return tuple(p for p in self.loop.inputs if p.name not in self.starts and p.name not in self.memory)

    @cached_property
    def outputs(self) -> dict[str, tuple[Port, FormattedGraph]]:
        """Return, for each output, its port and the graph that computes it."""
        return {name: self.makers[name] for name in (*self.loop.kept, *self.loop.last)}


@dataclass(frozen=True)
class InMemory:
    """A value that is stored separately for every iteration."""

    owner: str
    """Value whose addresses it uses."""
    iterations: int
    """Number of iterations."""
    formats: list[Format]
    """Formats of the entries of one iteration."""


def _formats_of(port: Port, graph: FormattedGraph) -> list[Format]:
    """Return the formats of the entries of a port."""
    return [graph.formats[i] for i in port.nodes]


def owners_of(loop: Loop) -> dict[str, str]:
    """Return one name for all values in memory that share addresses: a carried value, and the input that it becomes."""
    inner = tuple(loop.inner_loops())
    names = dict.fromkeys(name for each in inner for name in (*each.per_iteration, *each.kept))
    owners = {name: name for name in names}
    for each in (loop, *inner):
        for value, name in each.carry.items():
            if value in owners or name in owners:
                old, new = owners.get(value, value), owners.get(name, name)
                owners = {k: new if v == old else v for k, v in {**owners, value: old, name: new}.items()}
    return {name: owners[name] for name in owners}


def tolerance_of(stop: Until, residual: Format) -> int:
    """Return the largest integer of a residual at which a loop ends."""
    return min(math.floor(math.ldexp(stop.tolerance, residual.frac)), residual.highest)


def read_inputs(graph: Graph) -> set[int]:
    """Return the inputs of a graph that an operation or an output reads."""
    used = {a for node in graph.nodes for a in node.args} | set(graph.output_nodes)
    return used & set(graph.input_nodes)


class LoopTrajectories:
    """Trajectories of a loop, computed iteration by iteration. Memory begins with zeros.

    Args:
        formatted: The loop.
        states: Integers (batch,) of the entries of each carried input, in its formats.
        batch: Number of trajectories, if there are no states.
    """

    def __init__(
        self, formatted: FormattedLoop, states: Mapping[str, Sequence[npt.NDArray[np.int64]]], batch: int = 0
    ) -> None:
        self.formatted = formatted
        self._states: Values = {
            name: [FormattedIntegers(x, fmt) for x, fmt in zip(own, formatted.input_formats(name), strict=True)]
            for name, own in states.items()
        }
        self.batch = len(next(iter(states.values()))[0]) if states else batch
        for name, own in formatted.memory.items():
            self._states[name] = [
                FormattedIntegers(np.zeros((self.batch, own.iterations), np.int64), fmt) for fmt in own.formats
            ]
        for name in formatted.loop.carry.values():
            if name in formatted.starts:
                self._states[name] = _constant(formatted, name, self.batch)
        self._flagged = np.zeros(self.batch, dtype=bool)
        self.overflow = self._flagged
        """Trajectories that overflowed in the last iteration, (batch,)."""

    def memory_of(self, other: LoopTrajectories) -> None:
        """Copy the memory of other trajectories."""
        self._states |= {name: own for name, own in other._states.items() if name in self.formatted.memory}

    def advance(
        self, per_iteration: Mapping[str, Sequence[npt.NDArray[np.int64]]]
    ) -> tuple[Values, npt.NDArray[np.bool_]]:
        """Compute one iteration.

        Args:
            per_iteration: Integers (batch,) of the other inputs, by name.

        Returns:
            All values, and the trajectories (batch,) that overflowed in this iteration or an earlier one.
        """
        formatted = self.formatted
        values = dict(self._states)
        for name, own in per_iteration.items():
            values[name] = [
                FormattedIntegers(x, fmt) for x, fmt in zip(own, formatted.input_formats(name), strict=True)
            ]
        run, rows = _Run(self.batch, formatted.arithmetic, formatted.memory), np.arange(self.batch)
        values = run.body(formatted, values, rows)
        self._states |= run.carried(formatted, values, rows)
        self.overflow = run.overflow
        self._flagged = self._flagged | run.overflow
        return values, self._flagged


class _Run:
    """One iteration. overflow: trajectories that overflowed in it, (batch,)."""

    def __init__(self, batch: int, arithmetic: Arithmetic, memory: Mapping[str, InMemory]) -> None:
        self.arithmetic, self.memory = arithmetic, memory
        self.overflow = np.zeros(batch, dtype=bool)

    def body(self, formatted: FormattedLoop, values: Values, rows: npt.NDArray[np.int64]) -> Values:
        """Return all values after the steps. rows: trajectories of the values."""
        for step in formatted.steps:
            values = {**values, **INTEGERS[step.kind](self, step, values, rows)}
        return values

    def graph(self, step: FormattedGraph, values: Values, rows: npt.NDArray[np.int64]) -> Values:
        """Return the outputs of a graph."""
        needed, integers = read_inputs(step.graph), {}
        for port in step.graph.inputs:
            for i, fixed in zip(port.nodes, values[port.name], strict=True):
                integers[i] = self.rounded(fixed, step.formats[i], rows).value if i in needed else fixed.value
        result = evaluate_integers(step, integers)
        self.overflow[rows] |= result.overflow
        return {
            port.name: [FormattedIntegers(result.value[i], step.formats[i]) for i in port.nodes]
            for port in step.graph.outputs
        }

    def rounded(self, fixed: FormattedIntegers, to: Format, rows: npt.NDArray[np.int64]) -> FormattedIntegers:
        """Return a value in another format."""
        if fixed.format == to:
            return fixed
        result = rescale(fixed.value, fixed.format.frac, to, self.arithmetic)
        self.overflow[rows] |= result.overflow
        return FormattedIntegers(result.value, to)

    def carried(self, formatted: FormattedLoop, values: Values, rows: npt.NDArray[np.int64]) -> Values:
        """Return the carried inputs of the next iteration."""
        return {
            name: values[value]
            if name in self.memory
            else [
                self.rounded(fixed, to, rows)
                for fixed, to in zip(values[value], formatted.input_formats(name), strict=True)
            ]
            for value, name in formatted.loop.carry.items()
        }

    def loop(self, step: FormattedLoop, values: Values, rows: npt.NDArray[np.int64]) -> Values:
        """Return the outputs of an inner loop."""
        state = dict(values)
        for name in step.loop.carry.values():
            state[name] = _constant(step, name, len(rows)) if name in step.starts else values[name]
        for name in step.loop.carry.values():
            if name not in self.memory:
                fixed = zip(state[name], step.input_formats(name), strict=True)
                state[name] = [self.rounded(each, to, rows) for each, to in fixed]
        stop = step.loop.stop
        results: Values = {}
        place = np.arange(len(rows))  # of the rows that go on
        iterations = range(step.loop.max_iterations)
        for k in reversed(iterations) if step.loop.backwards else iterations:
            own = {
                name: [FormattedIntegers(x.value[:, k], x.format) for x in state[name]]
                for name in step.loop.per_iteration
            }
            iteration = self.body(step, {**state, **own}, rows[place])
            for name in step.loop.last:
                results[name] = _put(results.get(name), iteration[name], place, len(rows))
            self.keep(step, k, iteration, results, rows)
            goes_on = np.ones(len(place), dtype=bool)
            if isinstance(stop, Until):
                (residual,) = iteration[stop.residual]
                goes_on = np.abs(residual.value) > tolerance_of(stop, residual.format)
            next_ones = self.carried(step, iteration, rows[place])
            state = {name: _rows(entries, goes_on) for name, entries in {**state, **next_ones}.items()}
            place = place[goes_on]
            if not len(place):
                break
        return results

    def keep(
        self, step: FormattedLoop, k: int, iteration: Values, results: Values, rows: npt.NDArray[np.int64]
    ) -> None:
        """Store the values of iteration k that a loop keeps."""
        for name in step.loop.kept:
            own = self.memory[name]
            if name not in results:
                results[name] = [
                    FormattedIntegers(np.zeros((len(rows), own.iterations), np.int64), fmt) for fmt in own.formats
                ]
            for whole, fixed, to in zip(results[name], iteration[name], own.formats, strict=True):
                whole.value[:, k] = self.rounded(fixed, to, rows).value


INTEGERS: Mapping[str, Callable[[_Run, Any, Values, npt.NDArray[np.int64]], Values]] = table(
    "fixedpoint.models.loops.INTEGERS",
    {
        GRAPH: _Run.graph,
        LOOP: _Run.loop,
        UNTIL: _Run.loop,
        SCAN: refused("integers of a program", "graphs and loops"),
    },
)
"""Functions that compute the outputs of each kind of step, from all values of its scope, for some trajectories."""


def _constant(formatted: FormattedLoop, name: str, batch: int) -> list[FormattedIntegers]:
    """Return the initial value of a carried input."""
    return [
        FormattedIntegers(np.full(batch, int(quantize(np.array([formatted.starts[name]]), fmt).value[0])), fmt)
        for fmt in formatted.input_formats(name)
    ]


def _rows(entries: list[FormattedIntegers], rows: npt.NDArray[np.bool_]) -> list[FormattedIntegers]:
    """Return the entries of some trajectories."""
    return entries if rows.all() else [FormattedIntegers(each.value[rows], each.format) for each in entries]


def _put(
    whole: list[FormattedIntegers] | None, entries: list[FormattedIntegers], place: npt.NDArray[np.int64], batch: int
) -> list[FormattedIntegers]:
    """Write entries of some trajectories into those of all."""
    whole = whole or [
        FormattedIntegers(np.zeros((batch, *each.value.shape[1:]), np.int64), each.format) for each in entries
    ]
    for all_rows, each in zip(whole, entries, strict=True):
        all_rows.value[place] = each.value
    return whole


def values_of(entries: Sequence[FormattedIntegers], shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return a value (batch, *shape) as float64."""
    return np.stack([to_float(each.value, each.format) for each in entries], axis=1).reshape(-1, *shape)


def integers_of(
    formatted: FormattedLoop, inputs: Mapping[str, npt.ArrayLike], numbers: Mapping[str, str] = EXACT
) -> dict[str, list[npt.NDArray[np.int64]]]:
    """Convert inputs (batch, *shape) to integers in their formats.

    Args:
        formatted: The loop.
        inputs: Arrays by name.
        numbers: Type that streams round each input to before, by name.
    """
    integers = {}
    for name, array in inputs.items():
        flat = carried(np.asarray(array, dtype=np.float64), numbers.get(name))
        flat = flat.reshape(len(flat), -1)
        integers[name] = [quantize(flat[:, k], fmt).value for k, fmt in enumerate(formatted.input_formats(name))]
    return integers


# formats


@dataclass
class Observed:
    """Inputs that reached each graph of a loop in float64: batches of inputs by name, by the `id` of the graph."""

    inputs: dict[int, list[dict[str, Array]]] = field(default_factory=dict)

    def of(self, graph: Graph) -> dict[str, Array]:
        """Return all inputs of a graph, joined."""
        batches = self.inputs[id(graph)]
        return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}

    def evaluated(self, graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Evaluate a graph and record its inputs."""
        self.inputs.setdefault(id(graph), []).append(dict(inputs))
        return evaluate(graph, inputs)

    def add(self, other: Observed) -> None:
        """Add the records of another run."""
        for graph, batches in other.inputs.items():
            self.inputs.setdefault(graph, []).extend(batches)


def observe(
    blocks: Blocks,
    states: Mapping[str, Array],
    per_iteration: Mapping[str, Array],
    kept: Callable[[Mapping[str, Array]], Any],
) -> Observed:
    """Run a loop in float64 and record the inputs that reach each of its graphs.

    Args:
        blocks: The loop.
        states: Carried and constant inputs (batch, *shape).
        per_iteration: Inputs of every iteration, (batch, iterations, *shape).
        kept: Function from the values after an iteration to the trajectories that continue, (batch,). The others end,
            and that iteration does not count.
    """
    observed = Observed()
    state = {name: np.asarray(x, dtype=np.float64) for name, x in states.items()}
    batch = len(next(iter(state.values())))
    shapes = {port.name: port.shape for graph in blocks.loop.graphs() for port in graph.inputs}
    starts = {name: np.full((batch, *shapes.get(name, ())), value) for name, value in blocks.starts.items()}
    state |= {name: starts[name] for name in blocks.loop.carry.values() if name in starts}
    iterations = next(iter(per_iteration.values())).shape[1]
    for iteration in range(iterations):
        one = Observed()
        with np.errstate(all="ignore"):  # some trajectories may come to no end
            values = evaluate_iteration(blocks.loop, _inputs_of(state, starts, per_iteration, iteration), one.evaluated)
            goes_on = np.asarray(kept(values), dtype=bool)
        if not goes_on.any():
            break
        if not goes_on.all():  # once more without those that end
            state, starts, per_iteration = (
                {name: x[goes_on] for name, x in each.items()} for each in (state, starts, per_iteration)
            )
            one = Observed()
            values = evaluate_iteration(blocks.loop, _inputs_of(state, starts, per_iteration, iteration), one.evaluated)
        observed.add(one)
        state |= {name: values[value] for value, name in blocks.loop.carry.items()}
    return observed


def _inputs_of(
    state: Mapping[str, Array], starts: Mapping[str, Array], per_iteration: Mapping[str, Array], iteration: int
) -> dict[str, Array]:
    """Return the inputs of an iteration."""
    return {**starts, **state, **{name: x[:, iteration] for name, x in per_iteration.items()}}


def assign_loop(blocks: Blocks, observed: Observed, limits: InputBounds, policy: Policy) -> FormattedLoop:
    """Choose formats of one word length, with binary points from the observed ranges.

    A step reads a value in the format that the value has, unless it is carried.

    Args:
        blocks: The loop.
        observed: Inputs that reached each graph.
        limits: Bounds of the inputs.
        policy: Word length and arithmetic.
    """
    return _Assigner(observed, limits, policy, blocks.starts, owners_of(blocks.loop)).loop(blocks.loop, {})


@dataclass(frozen=True)
class _Limits:
    """Bounds of inputs: the limits of their formats, if they have any."""

    outside: InputBounds
    formats: Mapping[str, list[Format]]

    def bounds(self, name: str) -> list[tuple[float, float]] | None:
        if name in self.formats:
            return [fmt.limits for fmt in self.formats[name]]
        return self.outside.bounds(name)


class _Formatter(ABC):
    """Chooses formats for the graphs of a loop, in order. starts: initial values of carried inputs."""

    def __init__(self, starts: Mapping[str, float]) -> None:
        self.starts = starts

    @abstractmethod
    def graph(self, graph: Graph, known: Mapping[str, list[Format]]) -> FormattedGraph:
        """Return a graph with formats. known: formats of the entries of values that have formats."""

    @abstractmethod
    def kept(self, name: str, formats: list[Format]) -> None:
        """Record the format of a value that the loop keeps."""

    def loop(self, loop: Loop, known: Mapping[str, list[Format]]) -> FormattedLoop:
        """Return a loop with formats. known: formats of the entries of values that have formats."""
        formats = {name: own for name, own in known.items() if name not in loop.carry.values()}
        steps = tuple(FORMATS[step.kind](self, step, formats) for step in loop.steps)
        for name in loop.kept:
            self.kept(name, formats[name])
        return FormattedLoop(loop, steps, self.starts)

    def add_loop(self, loop: Loop, formats: dict[str, list[Format]]) -> FormattedLoop:
        """Choose the formats of an inner loop, and add those of its outputs to the scope around it."""
        inner = self.loop(loop, formats)
        formats |= {name: _formats_of(*maker) for name, maker in inner.outputs.items()}
        return inner

    def add_graph(self, graph: Graph, formats: dict[str, list[Format]]) -> FormattedGraph:
        """Choose the formats of a graph, and add those of its ports to its scope."""
        own = self.graph(graph, formats)
        for port in own.graph.inputs:
            formats.setdefault(port.name, _formats_of(port, own))
            self.kept(port.name, formats[port.name])
        formats |= {port.name: _formats_of(port, own) for port in own.graph.outputs}
        return own


class _Listed(_Formatter):
    """Uses the formats that a function returns for each graph."""

    def __init__(self, starts: Mapping[str, float], formatted: Callable[[Graph], FormattedGraph]) -> None:
        super().__init__(starts)
        self._formatted = formatted

    def graph(self, graph: Graph, known: Mapping[str, list[Format]]) -> FormattedGraph:
        return self._formatted(graph)

    def kept(self, name: str, formats: list[Format]) -> None: ...


def formatted_loop(blocks: Blocks, formatted: Callable[[Graph], FormattedGraph]) -> FormattedLoop:
    """Return a loop with formats.

    Args:
        blocks: The loop.
        formatted: Function that returns each graph, in order, with formats.
    """
    return _Listed(blocks.starts, formatted).loop(blocks.loop, {})


class _Assigner(_Formatter):
    """Chooses formats by ranges. in_memory: formats of values in memory, by owner."""

    def __init__(
        self,
        observed: Observed,
        limits: InputBounds,
        policy: Policy,
        starts: Mapping[str, float],
        owners: Mapping[str, str],
    ) -> None:
        super().__init__(starts)
        self.observed, self.limits, self.policy, self.owners = observed, limits, policy, owners
        self.in_memory: dict[str, list[Format]] = {}

    def kept(self, name: str, formats: list[Format]) -> None:
        """Record the format of a value, if it lies in memory and has none."""
        if name in self.owners:
            self.in_memory.setdefault(self.owners[name], formats)

    def graph(self, graph: Graph, known: Mapping[str, list[Format]]) -> FormattedGraph:
        formats = {**known, **{k: self.in_memory[o] for k, o in self.owners.items() if o in self.in_memory}}
        inputs, graph = self.observed.of(graph), late_terms_last(graph)
        ranges = sampled_ranges(graph, inputs)
        fixed = {
            i: (fmt, None)
            for port in graph.inputs
            if port.name in formats
            for i, fmt in zip(port.nodes, formats[port.name], strict=True)
        }
        for port in graph.outputs:  # results that a memory keeps are rounded to its formats at once
            own = self.in_memory.get(self.owners.get(port.name, ""), ())
            computed = ((i, fmt) for i, fmt in zip(port.nodes, own, strict=False) if graph.nodes[i].args)
            fixed |= {i: (fmt, None) for i, fmt in computed if i not in fixed}
        words = WordLengths([self.policy.word] * len(graph), fixed=fixed)
        return assign_word(graph, _Limits(self.limits, formats), ranges, self.policy, words)


FORMATS: Mapping[str, Callable[[_Formatter, Any, dict[str, list[Format]]], Formatted]] = table(
    "fixedpoint.models.loops.FORMATS",
    {
        GRAPH: _Formatter.add_graph,
        LOOP: _Formatter.add_loop,
        UNTIL: _Formatter.add_loop,
        SCAN: refused("a program", "graphs and loops"),
    },
)
"""Functions that give formats to each kind of step, and add those of its outputs to the formats of its scope."""
