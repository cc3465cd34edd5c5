"""Loops: programs whose steps are repeated, such as the time steps of a rollout. They run on every backend.

An iteration computes the steps of the body in order. A carried value becomes an input of the next iteration. `EVALUATE`
has a function for each kind of step that computes it in float64.
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
"""Additional outputs of a loop that ends by a tolerance: the number of iterations of each sample, (), and the absolute
value of its residual after the last one, ().
"""


@dataclass(frozen=True)
class Count:
    """A fixed number of iterations."""

    iterations: int | None = None
    """The number; None for the length of the per-iteration inputs of a call."""


@dataclass(frozen=True)
class Until:
    """A tolerance that ends the loop for each sample separately."""

    residual: str
    """Name of the value () of the body that must become small."""
    tolerance: float
    """The sample ends after the iteration in which the residual's magnitude is at most this."""
    at_most: int
    """Largest number of iterations."""


@dataclass(frozen=True)
class Loop(Program):
    """A body of steps (graphs, scans and loops) and how often it is computed.

    A loop in the body is a scope of its own: its inputs keep their values outside, and only its declared outputs are
    visible there. Its per-iteration inputs and kept outputs are values (iterations, *shape) of the scope around it, so
    it must state a number of iterations.

    Raises:
        GraphError: The loop is not well formed.
    """

    carry: Mapping[str, str]
    """Value -> the input that it becomes in the next iteration."""
    stop: Count | Until
    """When the loop ends."""
    per_iteration: tuple[str, ...] = ()
    """Names of the inputs that have a value for each iteration, (batch, iterations, *shape)."""
    kept: tuple[str, ...] = ()
    """Names of the values that are outputs for every iteration, (batch, iterations // every, *shape)."""
    last: tuple[str, ...] = ()
    """Names of the values that are outputs after the last iteration, (batch, *shape)."""
    backwards: bool = False
    """Whether the first iteration takes the last entries of per-iteration inputs and writes the last ones of kept
    outputs.
    """
    every: int = 1
    """Number of iterations between two entries of kept outputs."""

    @property
    def kind(self) -> str:
        return UNTIL if isinstance(self.stop, Until) else LOOP

    @property
    def max_iterations(self) -> int:
        """The largest number of iterations; 1 if the arrays of a call determine the number."""
        return self.stop.at_most if isinstance(self.stop, Until) else self.stop.iterations or 1

    @property
    def reads(self) -> tuple[Port, ...]:
        return tuple(self._of_all_iterations(self.inputs, self.per_iteration, 1))

    @property
    def writes(self) -> tuple[Port, ...]:
        return tuple(self._of_all_iterations(self.outputs, self.kept, self.every))

    def _of_all_iterations(self, ports: Iterable[Port], names: tuple[str, ...], every: int) -> Iterator[Port]:
        """Yield the ports, with the shape (iterations // every, *shape) for those with these names."""
        iterations = (self.stop.iterations or 1) // every if isinstance(self.stop, Count) else 1
        for port in ports:
            is_of_all = port.name in names
            yield Port(port.name, (iterations, *port.shape), port.nodes * iterations) if is_of_all else port

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The values in `kept` and `last`, in the shapes of one iteration; with a tolerance also ITERATIONS and
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
        """Yield what is not well formed."""
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
        """Yield what is wrong with a tolerance."""
        if stop.residual not in self.values or self.values[stop.residual].shape != ():
            yield f"it ends by '{stop.residual}'; expected a value () of a step"
        if not stop.tolerance > 0.0:
            yield f"tolerance {stop.tolerance}; expected more than 0"
        if stop.at_most < 1:
            yield f"at most {stop.at_most} iterations; expected 1 or more"
        if self.per_iteration or self.kept:
            yield "its samples end in different iterations; expected no `per_iteration` and no `kept`"

    def iterations(self, inputs: Mapping[str, Array]) -> int:
        """Return the largest number of iterations for the inputs of a call.

        Raises:
            ArgumentError: Per-iteration inputs have different lengths.
        """
        if isinstance(self.stop, Until):
            return self.stop.at_most
        counts = {name: int(inputs[name].shape[1]) for name in self.per_iteration}
        if self.stop.iterations is not None:
            counts["the loop"] = self.stop.iterations
        if len(set(counts.values())) > 1:
            raise ArgumentError(
                f"{self.name}: iterations differ: " + ", ".join(f"{k} has {n}" for k, n in counts.items()),
                code="DG-GRAPH-010",
            )
        return next(iter(counts.values()))

    def counted(self, iterations: int | None) -> int:
        """Return the number of iterations of a call; 1 for a loop with a tolerance.

        Args:
            iterations: The length of the per-iteration arrays; None if the loop states its number.

        Raises:
            ArgumentError: There is no number, or it differs from the loop's.
        """
        if isinstance(self.stop, Until):
            return 1
        own = self.stop.iterations
        count = own if iterations is None else iterations
        if count is None or count < 1 or own not in (None, count):
            raise ArgumentError(
                f"{self.name}: iterations={iterations}; expected {own or 'a number of iterations'}", code="DG-GRAPH-011"
            )
        return count


OfGraph = Callable[[Graph, Mapping[str, Array]], dict[str, Array]]
"""Function that evaluates a graph of a loop: from its inputs by name to its outputs by name."""

Kept = dict[int, tuple[Mapping[str, Array], Mapping[str, Array]]]
"""Inputs and outputs of the steps of a loop, by the position of the step."""


def evaluate_loop(
    loop: Loop, inputs: Mapping[str, npt.ArrayLike], of_graph: OfGraph = evaluate, *, reuse: bool = False
) -> dict[str, Array]:
    """Evaluate a loop in float64: the reference for every backend.

    Args:
        loop: The loop.
        inputs: Name -> array (batch, *shape), or (batch, iterations, *shape) for per-iteration inputs.
        of_graph: Evaluates the graphs of the loop.
        reuse: Whether a loop with a tolerance reuses the outputs of a step whose inputs did not change since the
            previous iteration.

    Returns:
        Output name -> array.

    Raises:
        ArgumentError: An input is missing, unknown or of the wrong shape.
    """
    values = _checked(loop, inputs)
    if reuse and isinstance(loop.stop, Until):
        return _until(loop, values, of_graph, {})
    return EVALUATE[loop.kind](loop, values, of_graph)


def _counted(loop: Loop, inputs: Mapping[str, Array], of_graph: OfGraph) -> dict[str, Array]:
    """Evaluate a loop with a number of iterations."""
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
    """Stack the values of iterations as (batch, iterations, *shape), also if there are no iterations."""
    return np.stack(iterations, axis=1) if iterations else np.empty((len(like), 0, *like.shape[1:]))


def _checked(loop: Loop, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
    """Return the inputs as float64 after checking their names and shapes."""
    arrays = {name: real(f"input '{name}'", x).astype(np.float64, copy=False) for name, x in inputs.items()}
    check_names(loop.name, loop.inputs, arrays, loop.per_iteration)
    leading_axes(loop.inputs, arrays, iterations=loop.per_iteration, axes=1)
    return arrays


def evaluate_iteration(
    loop: Loop, values: Mapping[str, Array], of_graph: OfGraph = evaluate, kept: Kept | None = None
) -> dict[str, Array]:
    """Evaluate one iteration of a loop in float64, without checks.

    Args:
        loop: The loop.
        values: Inputs of the iteration by name, (batch, *shape).
        of_graph: Evaluates the graphs of the loop.
        kept: Inputs and outputs of the steps in the previous iteration, which this call updates; None to compute
            every step.

    Returns:
        All values of the iteration by name.
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
    """Evaluate a loop with a tolerance; samples leave the batch when they end."""
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
"""For each kind of step, the function that computes its outputs in float64 from its inputs (batch, *shape)."""
