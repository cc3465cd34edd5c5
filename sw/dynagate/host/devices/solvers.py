"""Solvers of optimal control problems as programs: their integers in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.design.design import Design
from dynagate.design.program import ProgramBody
from dynagate.fixedpoint.loops import FormattedLoop, LoopIntegers, integers_of, values_of
from dynagate.host.devices.face import Executor, Overflow
from dynagate.host.inputs import Arrays, brought

WARM = "warm"


class SolverIntegers(Executor):
    """The integers of a solver. A problem that is warm begins with what the one before it has left in memory, which may
    be the last one of the call before. formatted: its loop. design: whose streams round inputs and results."""

    text = "integers"
    saturates = True

    def __init__(self, formatted: FormattedLoop, design: Design[ProgramBody]) -> None:
        self.formatted, self._numbers = formatted, design.numbers
        self.robot, self.function = formatted.loop.robot, formatted.loop.name
        self.inputs = formatted.inputs
        self.outputs = tuple(port for port, _ in formatted.outputs.values())
        self.dtype = np.dtype(design.results)
        self._before: LoopIntegers | None = None

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        overflow: npt.NDArray[np.bool_] = np.zeros(batch, dtype=bool)
        doubles = {name: array.astype(np.float64) for name, array in arrays.items()}
        self._check_ranges(doubles)
        starts = [k for k in range(batch) if k == 0 or not doubles[WARM][k] > 0.0]
        for first, end in zip(starts, [*starts[1:], batch], strict=True):
            if not doubles[WARM][first] > 0.0 or self._before is None:
                self._before = LoopIntegers(self.formatted, {}, 1)
            for k in range(first, end):
                results, overflow[k] = self._solved({name: x[k : k + 1] for name, x in doubles.items()})
                for name, value in results.items():
                    outputs[name][k] = value[0]
        return overflow

    def _solved(self, arrays: Mapping[str, Any]) -> tuple[dict[str, npt.NDArray[np.float64]], bool]:
        """A call of one problem."""
        assert self._before is not None
        integers = LoopIntegers(self.formatted, {}, 1)
        integers.memory_of(self._before)
        values, flagged = integers.turn(integers_of(self.formatted, arrays, self._numbers))
        self._before = integers
        return {port.name: values_of(values[port.name], port.shape) for port in self.outputs}, bool(flagged[0])

    def _check_ranges(self, arrays: Arrays) -> None:
        for port in self.inputs:
            first, graph = self.formatted.ports[port.name]
            flat = arrays[port.name].reshape(-1, len(first.nodes))
            for k, i in enumerate(first.nodes):
                brought(port, k, flat[:, k], graph.bounds[i], graph.formats[i], self._numbers.get(port.name))
