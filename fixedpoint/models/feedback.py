"""Loops on the chip: the order in which steps enter, and the integers of a step whose results return as states."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.base.arrays import Array
from dynagate.fixedpoint.format import Integers, rescale
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate_integers

Ints = npt.NDArray[np.int64]
START, STOP = 1, 2
"""Commands of a step: the state comes with it; its result does not return."""


class StepOrder(NamedTuple):
    """The steps of a batch in the order in which they enter. trajectory, step: of each, counted from 0."""

    trajectory: Ints
    step: Ints

    @classmethod
    def of(cls, steps: Ints, capacity: int) -> StepOrder:
        """steps: of each trajectory, (batch,). As many lanes as the chip holds trajectories; a round takes the next
        step of each lane, and a lane whose trajectory has ended takes the next one. A chip that continues the
        trajectory whose last step is the oldest takes the steps in this order."""
        lanes = [(0, lane) for lane in range(min(capacity, len(steps)))]  # when each is free
        place = np.empty((len(steps), 2), np.int64)
        for k, count in enumerate(steps.tolist()):
            begin, lane = heapq.heappop(lanes)
            place[k] = begin, lane
            heapq.heappush(lanes, (begin + count, lane))
        trajectory = np.repeat(np.arange(len(steps)), steps)
        step = np.arange(len(trajectory)) - np.repeat(np.cumsum(steps) - steps, steps)
        order = np.lexsort((place[trajectory, 1], place[trajectory, 0] + step))
        return cls(trajectory[order], step[order])

    def inputs(self, arrays: Mapping[str, Array], carried: Collection[str]) -> dict[str, Array]:
        """The inputs of each step: of those that are carried, (batch, ·), the start of its trajectory, which counts in
        the first; of the others, (batch, steps, ·), its own."""
        return {
            name: x[self.trajectory] if name in carried else x[self.trajectory, self.step] for name, x in arrays.items()
        }

    def commands(self, steps: Ints) -> Ints:
        """START, STOP, both or neither."""
        return START * (self.step == 0) + STOP * (self.step == steps[self.trajectory] - 1)


class FeedbackStep(NamedTuple):
    """values: integers of the outputs by node, (batch,). by_scope: (batch, scopes), where the step overflowed. own:
    (batch,), where it did, or the state that it begins with. flagged: (batch,), where this step or one before it
    overflowed."""

    values: dict[int, Integers]
    by_scope: npt.NDArray[np.bool_]
    own: npt.NDArray[np.bool_]
    flagged: npt.NDArray[np.bool_]


class FeedbackModel:
    """Trajectories of a formatted step. carry: output -> input of its graph.

    states: integers of the carried inputs by node, (batch,)."""

    def __init__(self, formatted: FormattedGraph, carry: Mapping[str, str], states: Mapping[int, Integers]) -> None:
        graph = formatted.graph
        sources = {port.name: port.nodes for port in graph.outputs}
        targets = {port.name: port.nodes for port in graph.inputs}
        self.formatted = formatted
        self._pairs = [p for a, b in carry.items() for p in zip(sources[a], targets[b], strict=True)]
        self._states = dict(states)
        self._flagged: npt.NDArray[np.bool_] | None = None
        self._misfit: npt.NDArray[np.bool_] | None = None

    def advance(self, controls: Mapping[int, Integers]) -> FeedbackStep:
        """One step of all trajectories. controls: integers of the other inputs by node, (batch,)."""
        result = evaluate_integers(self.formatted, {**self._states, **controls})
        own = result.overflow if self._misfit is None else result.overflow | self._misfit
        self._flagged = own if self._flagged is None else own | self._flagged
        misfit = np.zeros_like(own)
        formats = self.formatted.formats
        for source, target in self._pairs:
            kept = rescale(result.value[source], formats[source].frac, formats[target], self.formatted.arithmetic)
            self._states[target] = kept.value
            misfit |= kept.overflow
        self._misfit = misfit
        return FeedbackStep(result.value, result.by_scope, own, self._flagged)
