"""Devices that keep the states of trajectories, so that their outputs are per turn: a chip, or its integers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_unit_vectors
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import Design
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.evaluate import gather_outputs, infinite, quantize_inputs
from dynagate.fixedpoint.recirculate import Recirculation, Turns
from dynagate.host.devices.face import Executor, Overflow
from dynagate.host.inputs import Arrays, check_range
from dynagate.host.ring_drivers import RingDriver
from dynagate.integrators.step import CARRY

STEPS, EVERY = "steps", "every"
"""Arrays beside the inputs of a turn: how many steps each trajectory takes, (batch,); of which every so many results
come out, (), besides those of each last one."""

Bounds = tuple[tuple[float, float], float]
"""The range of values that the format of an entry was chosen for, and a step of this format."""


class TurnDevice(Executor):
    """A step whose outputs are the inputs of its next turn. `run` takes the starts of those, (batch, ·), the other
    inputs of all turns, (batch, turns, *shape), STEPS and EVERY. It fills the outputs (batch, turns, *shape) and
    returns which turns overflowed, (batch, turns); both count where `shown` is true.

    carry: output -> input of the next turn. bounds: of each entry of the inputs.
    """

    exclusive = True
    keeps_states = True
    carry: Mapping[str, str]
    bounds: Mapping[str, Sequence[Bounds]]

    @abstractmethod
    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow: ...

    def new_turns(self, batch: int, turns: int) -> Arrays:
        """Zeros for the outputs."""
        return {port.name: np.zeros((batch, turns, *port.shape), self.dtype) for port in self.outputs}

    def check(self, arrays: Arrays) -> None:
        """Raises ValueError: an input is outside of the values that its format was chosen for, or no unit vector."""
        for port in self.inputs:
            flat = arrays[port.name].reshape(-1, len(self.bounds[port.name]))
            for k, (bounds, slack) in enumerate(self.bounds[port.name]):
                check_range(port, k, flat[:, k], bounds, slack)
            if port.name in self.carry.values():
                check_unit_vectors(f"{port.name}0", port.unit_vectors, flat)


def shown(steps: npt.NDArray[np.int64], every: int, turns: int) -> npt.NDArray[np.bool_]:
    """The turns whose results come out, (batch, turns)."""
    turn, last = np.arange(1, turns + 1), steps[:, None]
    return (turn == last) | ((turn % every == 0) & (turn < last))


class IntegerTurns(TurnDevice):
    """The integers that the chip computes, in numpy. carry: output -> input of the turn's graph. design: whose AXI
    shell rounds inputs and results."""

    text = "integers"
    exclusive = False

    def __init__(
        self,
        formatted: FormattedGraph,
        carry: Mapping[str, str] = CARRY,
        design: Design | None = None,
    ) -> None:
        self.formatted, self.carry = formatted, carry
        self.computes(formatted.graph)
        self._numbers = {} if design is None else design.numbers
        self.dtype = self.dtype if design is None else np.dtype(design.results)
        self.bounds = {
            port.name: [(formatted.bounds[i], formatted.formats[i].step) for i in port.nodes]
            for port in formatted.graph.inputs
        }

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        formatted, graph = self.formatted, self.formatted.graph
        carried = self.carry.values()
        starts = {i for port in graph.inputs if port.name in carried for i in port.nodes}
        turns = next(iter(outputs.values())).shape[1]
        flagged = np.zeros((batch, turns), bool)
        loop: Recirculation | None = None
        for k in range(turns):
            row = {port.name: arrays[port.name] for port in graph.inputs}
            row = {name: x if name in carried else x[:, k] for name, x in row.items()}
            integers = quantize_inputs(formatted, row, self._numbers)
            if loop is None:
                loop = Recirculation(formatted, self.carry, {i: integers[i] for i in starts})
            turn = loop.turn({i: x for i, x in integers.items() if i not in starts})
            results = gather_outputs(formatted, turn.values, self._numbers)
            flagged[:, k] = turn.flagged | infinite(results)
            for name, x in results.items():
                outputs[name][:, k] = x
        return flagged


class StreamTurns(TurnDevice):
    """A rollout design whose turns a driver streams. design: with its ring."""

    def __init__(self, design: Design[DatapathBody], driver: RingDriver) -> None:
        assert design.body.ring is not None
        self.driver, self.capacity, self.carry = driver, design.body.ring.capacity, dict(design.body.ring.carry)
        self.robot, self.function, self.text, self.dtype = (
            design.robot_name,
            design.function,
            driver.link.text,
            driver.dtype,
        )
        self.inputs, self.outputs = design.input.ports, design.output.ports
        fields = [(field.range, field.format.step) for field in design.input.fields]
        self.bounds = {port.name: [fields[k] for k in port.fields] for port in design.input.ports}

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        steps, every = arrays[STEPS], int(arrays[EVERY])
        count = next(iter(outputs.values())).shape[1]
        turns = Turns.of(steps, self.capacity)
        own = turns.inputs({port.name: arrays[port.name] for port in self.inputs}, self.carry.values())
        comes = np.flatnonzero(shown(steps, every, count)[turns])
        results, overflow = self.driver.turns(own, turns.commands(steps), comes, every)
        back = Turns(turns.trajectory[comes], turns.turn[comes])
        for name, x in results.items():
            outputs[name][back] = x
        flagged = np.zeros((batch, count), bool)
        flagged[back] = overflow
        self.transfer = self.driver.transfer
        return flagged

    def close(self) -> None:
        self.driver.close()
