"""Rings on the chip: the order in which steps enter, and the integers of a step whose results return as states."""

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
"""Commands of a step: its state comes with it (START); its result does not return (STOP)."""


class StepOrder(NamedTuple):
    """Steps of a batch in the order in which they enter."""

    trajectory: Ints
    """Trajectory of each step, counted from 0."""
    step: Ints
    """Number of each step in its trajectory, counted from 0."""

    @classmethod
    def of(cls, steps: Ints, capacity: int) -> StepOrder:
        """Return the order of steps in lanes, as many as the chip holds trajectories.

        A round takes the next step of each lane. A lane whose trajectory has ended takes the next trajectory. A chip
        that continues the trajectory whose last step is the oldest processes the steps in this order.

        Args:
            steps: Number of steps of each trajectory, (batch,).
            capacity: Number of trajectories that the chip holds.
        """
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
        """Return the inputs of each step, (steps, ·).

        Args:
            arrays: Carried inputs (batch, ·) hold the start of each trajectory, which counts in its first step; other
                inputs are (batch, steps, ·).
            carried: Names of the carried inputs.
        """
        return {
            name: x[self.trajectory] if name in carried else x[self.trajectory, self.step] for name, x in arrays.items()
        }

    def commands(self, steps: Ints) -> Ints:
        """Return the commands of each step: START, STOP, both or neither."""
        return START * (self.step == 0) + STOP * (self.step == steps[self.trajectory] - 1)


class FeedbackStep(NamedTuple):
    """Results of one step of all trajectories."""

    values: dict[int, Integers]
    """Integers of the outputs (batch,), by node."""
    by_scope: npt.NDArray[np.bool_]
    """Passes that overflowed in the step, (batch, scopes)."""
    own: npt.NDArray[np.bool_]
    """Trajectories that overflowed in the step, or whose state did not fit, (batch,)."""
    flagged: npt.NDArray[np.bool_]
    """Trajectories that overflowed in this step or an earlier one, (batch,)."""


class FeedbackModel:
    """Trajectories of a formatted step.

    Args:
        formatted: Graph of the step.
        carry: Input that each carried output becomes, by output.
        states: Integers of the carried inputs (batch,), by node.
    """

    def __init__(self, formatted: FormattedGraph, carry: Mapping[str, str], states: Mapping[int, Integers]) -> None:
        self.formatted = formatted
        self._pairs = formatted.graph.carried(carry)
        self.states = dict(states)
        """Integers of the carried inputs of the next step (batch,), by node."""
        self._flagged: npt.NDArray[np.bool_] | None = None
        self._misfit: npt.NDArray[np.bool_] | None = None

    def advance(self, controls: Mapping[int, Integers]) -> FeedbackStep:
        """Compute one step of all trajectories.

        Args:
            controls: Integers of the other inputs (batch,), by node.
        """
        result = evaluate_integers(self.formatted, {**self.states, **controls})
        own = result.overflow if self._misfit is None else result.overflow | self._misfit
        self._flagged = own if self._flagged is None else own | self._flagged
        misfit = np.zeros_like(own)
        formats = self.formatted.formats
        for source, target in self._pairs:
            kept = rescale(result.value[source], formats[source].frac, formats[target], self.formatted.arithmetic)
            self.states[target] = kept.value
            misfit |= kept.overflow
        self._misfit = misfit
        return FeedbackStep(result.value, result.by_scope, own, self._flagged)
