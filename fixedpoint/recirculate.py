"""The integers of a loop on the chip: turns of a step, whose results return as states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.evaluate import evaluate_integers
from dynagate.fixedpoint.format import Integers, rescale


class Turn(NamedTuple):
    """values: integers of the outputs by node, (batch,). by_scope: (batch, scopes), where the turn overflowed. flagged:
    (batch,), where this turn or one before it overflowed."""

    values: dict[int, Integers]
    by_scope: npt.NDArray[np.bool_]
    flagged: npt.NDArray[np.bool_]


class Recirculation:
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

    def turn(self, controls: Mapping[int, Integers]) -> Turn:
        """One turn of all trajectories. controls: integers of the other inputs by node, (batch,)."""
        result = evaluate_integers(self.formatted, {**self._states, **controls})
        flagged = result.overflow if self._flagged is None else result.overflow | self._flagged
        misfit = np.zeros_like(flagged)
        formats = self.formatted.formats
        for source, target in self._pairs:
            kept = rescale(result.value[source], formats[source].frac, formats[target], self.formatted.arithmetic)
            self._states[target] = kept.value
            misfit |= kept.overflow
        self._flagged = flagged | misfit
        return Turn(result.value, result.by_scope, flagged)
