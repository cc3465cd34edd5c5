"""Models of hardware: exact integers of graphs, loops over links, steps of motions, and solvers, behind one
interface.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import EXACT, evaluate, gather_outputs, infinite, quantize_inputs
from dynagate.fixedpoint.models.feedback import FeedbackModel
from dynagate.fixedpoint.models.loops import FormattedLoop, LoopTrajectories, integers_of, values_of
from dynagate.fixedpoint.models.scans import FormattedScans, evaluate_scans
from dynagate.graph.evaluate import InputRange as AnyPort
from dynagate.graph.graph import Port

Arrays = Mapping[str, npt.NDArray[Any]]
Results = dict[str, npt.NDArray[np.float64]]
Flags = npt.NDArray[np.bool_]
Begin = Callable[[npt.NDArray[Any], npt.NDArray[Any]], Arrays]
"""Function from q and qd to the initial values of a loop."""

WARM = "warm"
"""Input of a solver: whether a problem begins with the solution of the one before it."""
SLACK = 1e-6
"""Share of its limits by which an input of a loop over links may exceed them, as rounding does."""


class EntryRange(NamedTuple):
    """Values that the format of an entry of an input was chosen for."""

    bounds: tuple[float, float]
    """Smallest and largest value."""
    slack: float
    """Amount by which a value may exceed the bounds."""
    format: Format | None = None
    """Format of the entry, if a stream rounds it before."""
    number: str | None = None
    """Type that a stream rounds the entry to. The rounded value must then fit the format."""


Ranges = Mapping[str, Sequence[EntryRange]]
"""Ranges of the entries of each input, by name. An input that is not in it accepts all numbers."""


class IntegerModel(ABC):
    """Computes the integers of the hardware for a batch."""

    robot: str
    name: str
    inputs: Sequence[AnyPort]
    outputs: Sequence[AnyPort]
    ranges: Ranges
    carry: Mapping[str, str] = {}
    """Input of the next step that each output becomes, for a motion whose states stay in the hardware."""

    @abstractmethod
    def run(self, arrays: Arrays) -> tuple[Results, Flags]:
        """Compute a batch.

        Args:
            arrays: Inputs (batch, *shape) by name. For a motion, inputs of steps are (batch, steps, *shape), and
                carried inputs hold the initial states.

        Returns:
            Outputs (batch, *shape) by name, and overflow flags (batch,). For a motion, outputs are (batch, steps,
            *shape) and flags (batch, steps).
        """


class GraphModel(IntegerModel):
    """Computes a function by its graph. Samples that share a packet share an overflow flag."""

    def __init__(
        self, formatted: FormattedGraph, numbers: Mapping[str, str] = EXACT, samples_per_packet: int = 1
    ) -> None:
        """Describe the model.

        Args:
            formatted: Graph with formats.
            numbers: Type that streams round each input and output to, by name.
            samples_per_packet: Number of samples that share a packet.
        """
        graph = formatted.graph
        self.formatted, self._numbers, self._together = formatted, numbers, samples_per_packet
        self.robot, self.name, self.inputs, self.outputs = graph.robot, graph.name, graph.inputs, graph.outputs
        self.ranges = {
            port.name: [
                EntryRange(formatted.bounds[i], formatted.formats[i].step, formatted.formats[i], numbers.get(port.name))
                for i in port.nodes
            ]
            for port in graph.inputs
        }

    def run(self, arrays: Arrays) -> tuple[Results, Flags]:
        result = evaluate(self.formatted, arrays, self._numbers)
        return result.outputs, flagged_together(result.overflow, self._together)


def flagged_together(flags: Flags, count: int) -> Flags:
    """Return flags (batch,) of samples if each `count` of them, in order, share a flag."""
    if count == 1:
        return flags
    padded = np.pad(flags, (0, -len(flags) % count)).reshape(-1, count)
    return np.asarray(np.repeat(padded.any(axis=1), count)[: len(flags)])


class ScanModel(IntegerModel):
    """Computes a function by a loop over links. inputs: ports of the function, in order."""

    def __init__(self, formatted: FormattedScans, inputs: Sequence[AnyPort]) -> None:
        loop = formatted.loop
        self.formatted = formatted
        self.robot, self.name, self.inputs, self.outputs = loop.robot, loop.name, inputs, loop.outputs
        self.ranges = {
            name: [EntryRange(each, SLACK * max(map(abs, each))) for each in bounds]
            for name, bounds in formatted.bounds.items()
            if bounds
        }

    def run(self, arrays: Arrays) -> tuple[Results, Flags]:
        return evaluate_scans(self.formatted, arrays)


class StepModel(IntegerModel):
    """Computes motions by a graph whose results are the states of its next step."""

    def __init__(self, formatted: FormattedGraph, carry: Mapping[str, str], numbers: Mapping[str, str] = EXACT) -> None:
        graph = formatted.graph
        self.formatted, self.carry, self._numbers = formatted, carry, numbers
        self.robot, self.name, self.inputs, self.outputs = graph.robot, graph.name, graph.inputs, graph.outputs
        self.ranges = {
            port.name: [EntryRange(formatted.bounds[i], formatted.formats[i].step) for i in port.nodes]
            for port in graph.inputs
        }

    def run(self, arrays: Arrays) -> tuple[Results, Flags]:
        ports, carried = self.inputs, self.carry.values()
        starts = {i for port in self.formatted.graph.inputs if port.name in carried for i in port.nodes}
        loop: FeedbackModel | None = None
        rows: list[Results] = []
        flags = []
        for k in range(_steps(arrays, ports, carried)):
            row = {port.name: arrays[port.name] for port in ports}
            row = {name: x if name in carried else x[:, k] for name, x in row.items()}
            integers = quantize_inputs(self.formatted, row, self._numbers)
            if loop is None:
                loop = FeedbackModel(self.formatted, self.carry, {i: integers[i] for i in starts})
            iteration = loop.advance({i: x for i, x in integers.items() if i not in starts})
            rows.append(gather_outputs(self.formatted, iteration.values, self._numbers))
            flags.append(iteration.flagged | infinite(rows[-1]))
        return _by_step(rows), np.stack(flags, axis=1)


class MotionModel(IntegerModel):
    """Computes motions by a loop whose iterations are steps. begin: function from q and qd to the loop's initial
    values.
    """

    def __init__(
        self,
        formatted: FormattedLoop,
        begin: Begin,
        inputs: Sequence[AnyPort],
        ranges: Ranges,
        numbers: Mapping[str, str] = EXACT,
    ) -> None:
        self.formatted, self._begin, self._numbers = formatted, begin, numbers
        self.robot, self.name, self.carry = formatted.loop.robot, formatted.loop.name, dict(formatted.loop.carry)
        self.inputs, self.ranges, self.outputs = inputs, ranges, _outputs(formatted)

    def run(self, arrays: Arrays) -> tuple[Results, Flags]:
        formatted, numbers = self.formatted, self._numbers
        begun = self._begin(arrays["q"], arrays["qd"])
        loop = LoopTrajectories(formatted, integers_of(formatted, begun, numbers))
        rows, flags = [], []
        for k in range(_steps(arrays, self.inputs, ("q", "qd"))):
            own = {name: arrays[name][:, k] for name in formatted.loop.per_iteration}
            values, flagged = loop.advance(integers_of(formatted, own, numbers))
            rows.append({port.name: values_of(values[port.name], port.shape) for port in self.outputs})
            flags.append(flagged)
        return _by_step(rows), np.stack(flags, axis=1)


class SolverModel(IntegerModel):
    """Solves a problem for each sample.

    A warm problem begins with the memory of the problem before it, which may be the last one of the run before. A
    solver that keeps nothing between calls solves all samples at once.
    """

    def __init__(self, formatted: FormattedLoop, numbers: Mapping[str, str] = EXACT) -> None:
        self.formatted, self._numbers = formatted, numbers
        self.robot, self.name = formatted.loop.robot, formatted.loop.name
        self.inputs, self.outputs = formatted.inputs, _outputs(formatted)
        self.ranges = loop_ranges(formatted, numbers)
        self._before: LoopTrajectories | None = None

    def run(self, arrays: Arrays) -> tuple[Results, Flags]:
        if not self.formatted.loop.carry:
            values, flagged = LoopTrajectories(self.formatted, {}, len(next(iter(arrays.values())))).advance(
                integers_of(self.formatted, arrays, self._numbers)
            )
            return {port.name: values_of(values[port.name], port.shape) for port in self.outputs}, flagged
        rows, flags = [], []
        for k in range(len(arrays[WARM])):
            integers = LoopTrajectories(self.formatted, {}, 1)
            if arrays[WARM][k] > 0.0 and self._before is not None:
                integers.memory_of(self._before)
            own = integers_of(self.formatted, {name: x[k : k + 1] for name, x in arrays.items()}, self._numbers)
            values, flagged = integers.advance(own)
            rows.append({port.name: values_of(values[port.name], port.shape)[0] for port in self.outputs})
            flags.append(bool(flagged[0]))
            self._before = integers
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}, np.array(flags)


def loop_ranges(formatted: FormattedLoop, numbers: Mapping[str, str] | None = None) -> dict[str, list[EntryRange]]:
    """Return the ranges of a loop's inputs.

    Args:
        formatted: The loop.
        numbers: Type that streams round each input to; None for motions, whose values are only compared with bounds.
    """
    ranges = {}
    for port in formatted.inputs:
        first, graph = formatted.ports[port.name]
        rounded = {} if numbers is None else {"number": numbers.get(port.name)}
        ranges[port.name] = [
            EntryRange(graph.bounds[i], graph.formats[i].step, graph.formats[i], **rounded) for i in first.nodes
        ]
    return ranges


def _outputs(formatted: FormattedLoop) -> tuple[Port, ...]:
    return tuple(port for port, _ in formatted.outputs.values())


def _steps(arrays: Arrays, ports: Sequence[AnyPort], starts: Any) -> int:
    """Return the number of steps in the inputs of a motion."""
    return next(arrays[port.name].shape[1] for port in ports if port.name not in starts)


def _by_step(rows: Sequence[Results]) -> Results:
    """Stack the outputs of steps as (batch, steps, *shape)."""
    return {name: np.stack([row[name] for row in rows], axis=1) for name in rows[0]}
