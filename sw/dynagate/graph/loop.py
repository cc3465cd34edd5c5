"""Loops: programs whose steps are computed again and again. They step a robot through time, on every backend.

An iteration computes the steps of the body one after the other. A value that is carried is an input of the next
iteration. `EVALUATE` has what each kind of step computes in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_names, leading_axes, real
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.graph.evaluate import evaluate
from dynagate.graph.graph import Graph, Port
from dynagate.graph.program import Program
from dynagate.graph.scan import evaluate_scan
from dynagate.graph.steps import GRAPH, LOOP, SCAN, UNTIL, table

ITERATIONS, RESIDUAL = "iterations", "residual"
"""Outputs of a loop that ends by a tolerance, besides its own: the iterations that each sample took (), and the size of
its residual in the last of them ()."""


@dataclass(frozen=True)
class Count:
    """A loop of this many iterations; None for as many as its per-iteration inputs have."""

    iterations: int | None = None


@dataclass(frozen=True)
class Until:
    """A loop that ends for each sample with the iteration in which a value () of the body is at most a tolerance in
    size, and after `at_most` iterations in any case."""

    residual: str
    tolerance: float
    at_most: int


@dataclass(frozen=True)
class Loop(Program):
    """A body and how often it is computed. Raises GraphError where it breaks its contract.

    steps: graphs, scans and loops, in order. Values of a loop in it are its own but those that it gives: its inputs
    stay what they are outside. What it has per iteration, and what it keeps, are values (iterations, *shape) of the
    loop around it, so such a loop says its iterations itself. carry: value -> the input that it is in the next
    iteration. per_iteration: inputs of which every iteration has its own. kept: values that are given for every
    iteration, or every this many (`every`), (batch, iterations // every, *shape). last: values that are given after the
    last iteration, (batch, *shape). backwards: the first iteration has the last entries of `per_iteration`, and writes
    the last ones of `kept`.
    """

    carry: Mapping[str, str]
    stop: Count | Until
    per_iteration: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    backwards: bool = False
    every: int = 1

    @property
    def kind(self) -> str:
        return UNTIL if isinstance(self.stop, Until) else LOOP

    @property
    def max_iterations(self) -> int:
        """The number of iterations, at most; 1 if the arrays of a call decide it."""
        return self.stop.at_most if isinstance(self.stop, Until) else self.stop.iterations or 1

    @property
    def reads(self) -> tuple[Port, ...]:
        return tuple(self._of_all_iterations(self.inputs, self.per_iteration, 1))

    @property
    def writes(self) -> tuple[Port, ...]:
        return tuple(self._of_all_iterations(self.outputs, self.kept, self.every))

    def _of_all_iterations(self, ports: Iterable[Port], names: tuple[str, ...], every: int) -> Iterator[Port]:
        """Yield the ports, those of these names in the shape (iterations // every, *shape)."""
        iterations = (self.stop.iterations or 1) // every if isinstance(self.stop, Count) else 1
        for port in ports:
            is_of_all = port.name in names
            yield Port(port.name, (iterations, *port.shape), port.nodes * iterations) if is_of_all else port

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The values in `kept` and `last`, in the shapes of one iteration; with a tolerance, ITERATIONS and
        RESIDUAL.
        """
        extra = (ITERATIONS, RESIDUAL) if isinstance(self.stop, Until) else ()
        return (*(self.values[name] for name in (*self.kept, *self.last)), *(Port(name, (), (0,)) for name in extra))

    def renamed(self, names: Mapping[str, str]) -> Loop:
        def name(old: str) -> str:
            return names.get(old, old)

        stop = replace(self.stop, residual=name(self.stop.residual)) if isinstance(self.stop, Until) else self.stop
        return replace(
            self,
            steps=tuple(step.renamed(names) for step in self.steps),
            carry={name(a): name(b) for a, b in self.carry.items()},
            stop=stop,
            per_iteration=tuple(map(name, self.per_iteration)),
            kept=tuple(map(name, self.kept)),
            last=tuple(map(name, self.last)),
        )

    def mapped(self, change: Callable[[Graph], Graph]) -> Loop:
        return replace(self, steps=tuple(step.mapped(change) for step in self.steps))

    def loops(self) -> Iterator[Loop]:
        yield self
        yield from self.inner_loops()

    def inner_loops(self) -> Iterator[Loop]:
        """Yield the loops in the body at every depth, in order."""
        for step in self.steps:
            yield from step.loops()

    def _faults(self) -> Iterator[str]:
        for step in self.steps:
            if Count(None) in (loop.stop for loop in step.loops()):
                yield (
                    f"step '{step.name}' is a loop with as many iterations as its inputs have; expected a number of "
                    "iterations"
                )
                return
        yield from super()._faults()
        inputs, values = {port.name for port in self.inputs}, self.values
        for value, name in self.carry.items():
            if value not in values:
                yield f"it carries '{value}', which no step computes"
            elif name not in inputs:
                yield f"it carries '{value}' to '{name}', which is no input of a step"
            elif values[value].shape != values[name].shape:
                yield f"it carries '{value}' {values[value].shape} to '{name}' {values[name].shape}"
        if len(set(self.carry.values())) < len(self.carry):
            yield "it carries two values to one input"
        for name in self.per_iteration:
            if name not in inputs or name in self.carry.values():
                yield f"'{name}' is per iteration; expected an input of a step that is not carried"
        names = (*self.kept, *self.last, *((ITERATIONS, RESIDUAL) if isinstance(self.stop, Until) else ()))
        for name in (*self.kept, *self.last):
            if name not in values:
                yield f"it gives '{name}', which no step computes"
        yield from (f"it gives '{name}' twice" for name in dict.fromkeys(names) if names.count(name) > 1)
        if self.every < 1:
            yield f"it gives values every {self.every} iterations; expected 1 or more"
        if self.every > 1 and self.backwards:
            yield f"it gives values every {self.every} iterations and runs backwards; expected one or the other"
        if isinstance(self.stop, Until):
            yield from self._faults_of_tolerance(self.stop)
        elif self.stop.iterations is None and not self.per_iteration:
            yield "its iterations are counted by per-iteration inputs; expected one, or a number of iterations"
        elif self.stop.iterations is not None and self.stop.iterations < 1:
            yield f"{self.stop.iterations} iterations; expected 1 or more"

    def _faults_of_tolerance(self, stop: Until) -> Iterator[str]:
        if stop.residual not in self.values or self.values[stop.residual].shape != ():
            yield f"it ends by '{stop.residual}'; expected a value () of a step"
        if not stop.tolerance > 0.0:
            yield f"tolerance {stop.tolerance}; expected more than 0"
        if stop.at_most < 1:
            yield f"at most {stop.at_most} iterations; expected 1 or more"
        if self.per_iteration or self.kept:
            yield "its samples end in different iterations; expected no `per_iteration` and no `kept`"

    def iterations(self, inputs: Mapping[str, Array]) -> int:
        """How many iterations a batch takes, at most. Raises ValueError: per-iteration inputs differ in their
        iterations.
        """
        if isinstance(self.stop, Until):
            return self.stop.at_most
        counts = {name: int(inputs[name].shape[1]) for name in self.per_iteration}
        if self.stop.iterations is not None:
            counts["the loop"] = self.stop.iterations
        if len(set(counts.values())) > 1:
            raise ArgumentError(
                f"{self.name}: iterations differ: " + ", ".join(f"{k} has {n}" for k, n in counts.items())
            )
        return next(iter(counts.values()))

    def counted(self, iterations: int | None) -> int:
        """The iterations of a loop that counts, from how many its arrays have or None for those that it says itself; 1
        of a loop with a tolerance. Raises ValueError: none, or others than it says."""
        if isinstance(self.stop, Until):
            return 1
        own = self.stop.iterations
        count = own if iterations is None else iterations
        if count is None or count < 1 or own not in (None, count):
            raise ArgumentError(f"{self.name}: iterations={iterations}; expected {own or 'a number of iterations'}")
        return count


OfGraph = Callable[[Graph, Mapping[str, Array]], dict[str, Array]]
"""A function that evaluates a graph of a loop: its outputs by name, from its inputs."""

Kept = dict[int, tuple[Mapping[str, Array], Mapping[str, Array]]]
"""Inputs and outputs of the steps of a loop, by the place of the step."""


def evaluate_loop(
    loop: Loop, inputs: Mapping[str, npt.ArrayLike], of_graph: OfGraph = evaluate, *, reuse: bool = False
) -> dict[str, Array]:
    """The outputs of a loop in float64, by name: the reference of every backend.

    inputs: (batch, *shape) by name, those per iteration (batch, iterations, *shape). of_graph: what computes its
    graphs. reuse: whether a loop that ends by a tolerance keeps the outputs of a step whose inputs are those of the
    iteration before. Raises ValueError: an input is missing, unknown or of the wrong shape.
    """
    values = _checked(loop, inputs)
    if reuse and isinstance(loop.stop, Until):
        return _until(loop, values, of_graph, {})
    return EVALUATE[loop.kind](loop, values, of_graph)


def _counted(loop: Loop, inputs: Mapping[str, Array], of_graph: OfGraph) -> dict[str, Array]:
    iterations = loop.iterations(inputs)
    kept: dict[str, list[Array]] = {name: [] for name in loop.kept}
    state = {name: array for name, array in inputs.items() if name not in loop.per_iteration}
    results: dict[str, Array] = {}
    for iteration in reversed(range(iterations)) if loop.backwards else range(iterations):
        per_iteration = {name: inputs[name][:, iteration] for name in loop.per_iteration}
        results = evaluate_iteration(loop, {**state, **per_iteration}, of_graph)
        state = {**state, **{name: results[value] for value, name in loop.carry.items()}}
        for name, each in kept.items():
            if (iteration + 1) % loop.every == 0:
                each.append(results[name])
    return {
        **{name: _stacked(each[::-1] if loop.backwards else each, results[name]) for name, each in kept.items()},
        **{name: results[name] for name in loop.last},
    }


def _stacked(iterations: list[Array], like: Array) -> Array:
    """(batch, iterations, *shape), also of no iterations."""
    return np.stack(iterations, axis=1) if iterations else np.empty((len(like), 0, *like.shape[1:]))


def _checked(loop: Loop, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
    arrays = {name: real(f"input '{name}'", x).astype(np.float64, copy=False) for name, x in inputs.items()}
    check_names(loop.name, loop.inputs, arrays, loop.per_iteration)
    leading_axes(loop.inputs, arrays, iterations=loop.per_iteration, axes=1)
    return arrays


def evaluate_iteration(
    loop: Loop, values: Mapping[str, Array], of_graph: OfGraph = evaluate, kept: Kept | None = None
) -> dict[str, Array]:
    """All values after one iteration, from its inputs (batch, *shape) by name, without checks.

    of_graph: as of `evaluate_loop`. kept: inputs and outputs of each step in the iteration before, which are replaced
    by those of this iteration; None to compute every step.
    """
    results = dict(values)
    for place, step in enumerate(loop.steps):
        inputs = {port.name: results[port.name] for port in step.inputs}
        if kept is None:
            results |= EVALUATE[step.kind](step, inputs, of_graph)
            continue
        if place not in kept or not _equal(inputs, kept[place][0]):
            kept[place] = inputs, EVALUATE[step.kind](step, inputs, of_graph)
        results |= kept[place][1]
    return results


def _equal(inputs: Mapping[str, Array], others: Mapping[str, Array]) -> bool:
    return all(np.array_equal(array, others[name]) for name, array in inputs.items())


def _until(loop: Loop, values: Mapping[str, Array], of_graph: OfGraph, kept: Kept | None = None) -> dict[str, Array]:
    stop = loop.stop
    assert isinstance(stop, Until)
    batch = len(next(iter(values.values())))
    results: dict[str, Array] = {}
    iterations, residual = np.zeros(batch), np.full(batch, np.inf)
    rows = np.arange(batch)
    state = dict(values)
    for _ in range(stop.at_most):
        if not len(rows):
            break
        iteration = evaluate_iteration(loop, {name: array[rows] for name, array in state.items()}, of_graph, kept)
        iterations[rows] += 1
        residual[rows] = np.abs(iteration[stop.residual])
        for name in loop.last:
            results.setdefault(name, np.empty((batch, *iteration[name].shape[1:])))[rows] = iteration[name]
        for value, name in loop.carry.items():
            state[name] = state[name].copy()
            state[name][rows] = iteration[value]
        rows = rows[~(residual[rows] <= stop.tolerance)]
    return {**results, ITERATIONS: iterations, RESIDUAL: residual}


EVALUATE: Mapping[str, Callable[[Any, Mapping[str, Array], OfGraph], dict[str, Array]]] = table(
    "graph.loop.EVALUATE",
    {
        GRAPH: lambda graph, inputs, of_graph: of_graph(graph, inputs),
        LOOP: _counted,
        UNTIL: _until,
        SCAN: lambda scan, inputs, of_graph: evaluate_scan(scan, inputs),
    },
)
"""Function that computes the outputs of a step in float64 from its inputs (batch, *shape), by kind of step."""
