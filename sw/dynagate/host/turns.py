"""Turns of trajectories in integers: in numpy, and on a simulated chip that keeps their states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.design.payload import pack_integers, unpack_integers
from dynagate.design.ring import ring_design
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.evaluate import quantise_inputs
from dynagate.fixedpoint.format import Integers, to_float
from dynagate.fixedpoint.recirculate import Recirculation
from dynagate.host.drivers import DatapathDriver
from dynagate.host.sim_links import SimLink
from dynagate.hw.build import Build
from dynagate.hw.recirculate import capacity
from dynagate.hw.rollout import write_rollout
from dynagate.integrators.step import CARRY

Array = npt.NDArray[Any]


class Turns(ABC):
    """A formatted step, turn after turn."""

    def __init__(self, formatted: FormattedGraph) -> None:
        self.formatted = formatted
        self._carried = {i for port in formatted.graph.inputs if port.name in CARRY.values() for i in port.nodes}

    @abstractmethod
    def integers(
        self, states: Mapping[int, Integers], controls: Sequence[Mapping[int, Integers]]
    ) -> tuple[list, Array]:
        """Integers of the outputs by node, turn by turn, and which are flagged (turns, batch).

        states: integers of the carried inputs by node, (batch,). controls: of the other inputs, turn by turn."""

    def close(self) -> None:  # noqa: B027
        """Gives back what it holds."""

    def run(self, state: Mapping[str, Array], outputs: Mapping[str, Array]) -> Array:
        """Fills outputs (batch, turns, *shape) by name; the first turn, counted from 1, in which each trajectory
        overflowed, -1 for none. state: q, qd (batch, ·) and tau (batch, turns, ·).

        Raises ValueError: an input does not fit its format."""
        batch, turns = state["tau"].shape[:2]
        rows = [{**state, "tau": state["tau"][:, k]} for k in range(turns)]
        self._check(state)
        quantised = [quantise_inputs(self.formatted, row) for row in rows]
        states = {i: value for i, value in quantised[0].items() if i in self._carried}
        controls = [{i: value for i, value in each.items() if i not in self._carried} for each in quantised]
        results, flagged = self.integers(states, controls)
        for port in self.formatted.graph.outputs:
            for k, values in enumerate(results):
                columns = [to_float(values[i], self.formatted.formats[i]) for i in port.nodes]
                outputs[port.name][:, k] = np.stack(columns, axis=1).reshape(batch, *port.shape)
        return np.where(flagged.any(axis=0), np.argmax(flagged, axis=0) + 1, -1)

    def _check(self, state: Mapping[str, Array]) -> None:
        for port in self.formatted.graph.inputs:
            values = state[port.name].reshape(-1, len(port.nodes))
            for k, i in enumerate(port.nodes):
                low, high = self.formatted.formats[i].limits
                worst = values[np.argmax(np.abs(values[:, k])), k]
                if not low <= worst <= high:
                    raise ArgumentError(f"input '{port.name}' is {worst:g}; its format holds {low:g} to {high:g}")


class IntegerTurns(Turns):
    """The integers that the chip computes, in numpy."""

    def integers(
        self, states: Mapping[int, Integers], controls: Sequence[Mapping[int, Integers]]
    ) -> tuple[list, Array]:
        loop = Recirculation(self.formatted, CARRY, states)
        turns = [loop.turn(each) for each in controls]
        return [turn.values for turn in turns], np.stack([turn.flagged for turn in turns])


class ChipTurns(Turns):
    """A simulated chip, of a built step. pauses, seed: as of `SimLink`.

    driver: what streams turns; its `transfer` has the cycles of the last call."""

    def __init__(self, built: Build, *, pauses: tuple[float, float] = (0.0, 0.0), seed: int = 1) -> None:
        from dynagate.sim.verilate import rollout_library

        super().__init__(built.formatted)
        design = ring_design(built.design)
        path: Path = write_rollout(built, CARRY)
        link = SimLink(rollout_library(path, built.verilog), design, pauses=pauses, seed=seed)
        self.driver = DatapathDriver(design, link)
        self.capacity = capacity(built.plan.latency, built.plan.ii)

    def integers(
        self, states: Mapping[int, Integers], controls: Sequence[Mapping[int, Integers]]
    ) -> tuple[list, Array]:
        """Groups of as many trajectories as the chip holds, each turn of a group before its next one."""
        batch, turns = len(next(iter(states.values()))), len(controls)
        order = np.concatenate(
            [
                np.add.outer(np.arange(turns) * batch, np.arange(first, min(first + self.capacity, batch))).ravel()
                for first in range(0, batch, self.capacity)
            ]
        )
        turn, trajectory = np.divmod(order, batch)
        nodes = self.formatted.graph.input_nodes
        columns = {
            k: states[i][trajectory] if i in states else np.stack([each[i] for each in controls])[turn, trajectory]
            for k, i in enumerate(nodes)
        }
        start, stop = turn == 0, turn == turns - 1
        columns[len(nodes)] = start + 2 * stop.astype(np.int64)
        sink = self.driver.design.output
        words = self.driver.payloads(pack_integers(self.driver.design.input, columns, len(order)))
        back = np.argsort(order)
        values = [column[back].reshape(turns, batch) for column in unpack_integers(sink, words)]
        word, bit = divmod(sink.overflow_bits[-1], 32)
        flagged = (words[:, word] >> np.uint32(bit) & np.uint32(1)).astype(bool)[back].reshape(turns, batch)
        graph = self.formatted.graph
        field = {i: f for f, i in enumerate(graph.result_nodes)}
        zeros = np.zeros(batch, np.int64)
        results = [{i: values[field[i]][k] if i in field else zeros for i in graph.output_nodes} for k in range(turns)]
        return results, flagged

    def close(self) -> None:
        self.driver.close()
