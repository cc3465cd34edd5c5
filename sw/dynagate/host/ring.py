"""Trajectories on a chip that keeps their states: which turn enters when, and what comes back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.design.design import Design
from dynagate.design.ring import FLAGS_PORT, TAG_PORT, ring_design, shell_design
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.evaluate import gather_outputs, infinite, quantise_inputs
from dynagate.fixedpoint.recirculate import START, STOP, Recirculation, Turns
from dynagate.host.drivers import DatapathDriver, ShellDriver
from dynagate.host.inputs import Arrays
from dynagate.host.links import DeviceError, Link, Transfer
from dynagate.host.words import stream_words
from dynagate.integrators.step import CARRY

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


class Results(NamedTuple):
    """values: (batch, turns, *shape) by name. flagged: (batch, turns). Both count where the chip shows the turn."""

    values: dict[str, Array]
    flagged: npt.NDArray[np.bool_]


class Input(NamedTuple):
    """A named array of a turn. unit_vectors, switches: as in `graph.Port`. ranges: what the format of each entry was
    chosen for. steps: of these formats."""

    name: str
    shape: tuple[int, ...]
    unit_vectors: tuple[tuple[int, int], ...]
    ranges: tuple[tuple[float, float], ...]
    steps: tuple[float, ...]
    switches: bool = False


class RingDevice(ABC):
    """A chip that keeps the states of trajectories, or its integers. outputs: shapes of a turn's results by name. text:
    what it is."""

    robot_name: str
    inputs: tuple[Input, ...]
    outputs: dict[str, tuple[int, ...]]
    text: str
    dtype: np.dtype[Any] = np.dtype(np.float64)

    @abstractmethod
    def run(self, arrays: Arrays, steps: Ints, shown: npt.NDArray[np.bool_], every: int) -> Results:
        """arrays: q, qd (batch, ·) of the starts, the other inputs (batch, turns, *shape). steps: of each trajectory.
        shown: (batch, turns), the turns whose results come out. every: what the register of this name is to hold.

        Raises DeviceError, and ValueError where the chip says that an input does not fit."""

    @property
    def transfer(self) -> Transfer:
        return Transfer(0, 0.0)

    def close(self) -> None:  # noqa: B027
        """Gives back what it holds."""


class IntegerRing(RingDevice):
    """The integers that the chip computes, in numpy. carry: output -> input of the turn's graph. design: whose AXI
    shell rounds inputs and results."""

    text = "integers"

    def __init__(
        self, formatted: FormattedGraph, carry: Mapping[str, str] = CARRY, design: Design | None = None
    ) -> None:
        self.formatted, self.carry = formatted, carry
        self._numbers = {} if design is None else design.numbers
        self.dtype = self.dtype if design is None else np.dtype(design.results)
        graph, bounds, formats = formatted.graph, formatted.bounds, formatted.formats
        self.robot_name = graph.robot
        self.outputs = {port.name: port.shape for port in graph.outputs}
        self.inputs = tuple(
            Input(
                port.name,
                port.shape,
                port.unit_vectors,
                tuple(bounds[i] for i in port.nodes),
                tuple(formats[i].step for i in port.nodes),
            )
            for port in graph.inputs
        )

    def run(self, arrays: Arrays, steps: Ints, shown: npt.NDArray[np.bool_], every: int) -> Results:
        formatted, graph = self.formatted, self.formatted.graph
        starts = {i for port in graph.inputs if port.name in self.carry.values() for i in port.nodes}
        batch, turns = shown.shape
        values = {port.name: np.zeros((batch, turns, *port.shape), self.dtype) for port in graph.outputs}
        flagged = np.zeros((batch, turns), bool)
        loop: Recirculation | None = None
        for k in range(turns):
            row = {name: x if name in self.carry.values() else x[:, k] for name, x in arrays.items()}
            integers = quantise_inputs(formatted, row, self._numbers)
            if loop is None:
                loop = Recirculation(formatted, self.carry, {i: integers[i] for i in starts})
            turn = loop.turn({i: x for i, x in integers.items() if i not in starts})
            outputs = gather_outputs(formatted, turn.values, self._numbers)
            flagged[:, k] = turn.flagged | infinite(outputs)
            for name, x in outputs.items():
                values[name][:, k] = x
        return Results(values, flagged)


class DesignRing(RingDevice):
    """A rollout design whose turns a driver streams."""

    driver: DatapathDriver | RingDriver

    def __init__(self, design: Design) -> None:
        assert design.ring is not None
        self.design, self.ring = design, design.ring
        source = design.input
        self.robot_name = design.robot_name
        self.outputs = {port.name: port.shape for port in design.output.ports}
        self.inputs = tuple(
            Input(
                port.name,
                port.shape,
                port.unit_vectors,
                tuple(source.fields[k].range for k in port.fields),
                tuple(source.fields[k].format.step for k in port.fields),
            )
            for port in source.ports
        )

    @property
    def transfer(self) -> Transfer:
        return self.driver.transfer

    def close(self) -> None:
        self.driver.close()


class DatapathRing(DesignRing):
    """A bare ring behind a link: integers in payloads. All results come out, and the host leaves some away."""

    def __init__(self, design: Design, link: Link, *, progress: bool = False) -> None:
        super().__init__(design)
        self.driver: DatapathDriver = DatapathDriver(
            ring_design(design), link, numbers=design.numbers, progress=progress
        )
        self.text, self.dtype = link.text, self.driver.dtype

    def run(self, arrays: Arrays, steps: Ints, shown: npt.NDArray[np.bool_], every: int) -> Results:
        turns = Turns.of(steps, self.ring.capacity)
        own = turns.inputs(arrays, dict(self.ring.carry).values())
        own[FLAGS_PORT] = turns.commands(steps)  # start is the lower one of the flags
        own[TAG_PORT] = np.arange(len(turns.turn))
        outputs, flagged = self.driver.run(own, len(turns.turn))
        return _placed(shown.shape, turns, outputs, flagged)


class ShellRing(DesignRing):
    """A ring in its AXI shell."""

    def __init__(self, design: Design, link: Link, *, progress: bool = False) -> None:
        super().__init__(design)
        self.driver: RingDriver = RingDriver(shell_design(design), link, progress=progress)
        self.text, self.dtype = link.text, self.driver.dtype

    def run(self, arrays: Arrays, steps: Ints, shown: npt.NDArray[np.bool_], every: int) -> Results:
        turns = Turns.of(steps, self.ring.capacity)
        own = turns.inputs(arrays, dict(self.ring.carry).values())
        own["command"] = (START | STOP) - turns.commands(steps)
        comes = np.flatnonzero(shown[turns])
        outputs, empty = self.driver.turns(own, comes, every)
        back = Turns(turns.trajectory[comes], turns.turn[comes])
        return _placed(shown.shape, back, outputs, self.driver.flagged(outputs, empty))


class RingDriver(ShellDriver):
    """A ring in its AXI shell: turns in, and the results of those that come out."""

    def __init__(self, design: Design, link: Link, *, progress: bool = False) -> None:
        self._shown: Ints = np.zeros(0, np.int64)
        super().__init__(design, link, progress=progress)
        self.words = stream_words(self.design, self.axi, native=False)

    def turns(self, arrays: Arrays, shown: Ints, every: int) -> tuple[dict[str, Array], npt.NDArray[np.bool_]]:
        """arrays: the inputs of the turns in the order in which they enter, (turns, *shape). shown: those whose results
        come out. Returns these by name, and which of them cannot be used: NaN. Raises as `ShellDriver.run` does."""
        count = len(arrays["command"])
        samples = np.zeros((count, *self.sample), np.uint32)
        self.words.fill(arrays, samples)
        self._shown = shown
        self.wait()
        self.registers.write("steps", 0)
        self.registers.write("every", every)
        self.clear()
        results = self.stream(samples, len(shown))
        counted = self.counters = self.read_counters()
        if (counted.samples_in, counted.samples_out, counted.misaligned) != (count, len(shown), 0):
            raise DeviceError(f"{self.link.text} counted {counted} for {count} turns, of which {len(shown)} come out")
        if counted.first_bad_input is not None:
            self._refuse(samples, np.array([counted.first_bad_input]))
            raise DeviceError(
                f"{self.link.text} says that an input of turn {counted.first_bad_input} does not fit; all inputs do"
            )
        return self.words.untagged(self.link.text, results)

    def verify(self, samples: Array, results: Array) -> None:
        super().verify(samples[self._shown], results)


def _placed(shape: Sequence[int], turns: Turns, outputs: Mapping[str, Array], flagged: Array) -> Results:
    """Results by turn -> by trajectory and turn."""
    values = {name: np.zeros((*shape, *x.shape[1:]), x.dtype) for name, x in outputs.items()}
    flags = np.zeros(shape, bool)
    for name, x in outputs.items():
        values[name][turns] = x
    flags[turns] = flagged
    return Results(values, flags)
