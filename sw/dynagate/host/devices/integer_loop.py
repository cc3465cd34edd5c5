"""A loop in fixed point whose formats come from problems that it has met."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from dynagate.base.arrays import Array
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.models.observed_loops import LoopEvaluator
from dynagate.graph.loop import ITERATIONS, Loop
from dynagate.host.devices.loops import LoopExecutor


class IntegerLoop(LoopExecutor):
    """A loop in fixed point. If an input of a problem is not finite, its outputs are 0 after one iteration.

    Args:
        inputs: Inputs (batch, ...) of the loop, from which the ranges of its numbers are measured.
        moving: As of `LoopEvaluator.observing`.
        retries: As of `LoopEvaluator.observing`.
    """

    def __init__(
        self,
        loop: Loop,
        inputs: Mapping[str, Array],
        policy: Policy,
        moving: Collection[str] = (),
        retries: Collection[str] = (),
    ) -> None:
        self.dtype = np.dtype(np.float64)
        named = {port.name: inputs[port.name] for port in loop.inputs}
        with np.errstate(all="ignore"):
            self.integers = LoopEvaluator.observing(loop, named, policy, moving, retries)

    def __call__(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> bool:
        batch = len(next(iter(outputs.values())))
        whole = {name: np.repeat(x, batch, axis=0) if len(x) == 1 != batch else x for name, x in inputs.items()}
        finite = np.logical_and.reduce([np.isfinite(x.reshape(batch, -1)).all(axis=1) for x in whole.values()])
        for name, value in outputs.items():
            value[...] = 1.0 if name == ITERATIONS else 0.0
        if finite.any():
            for name, value in self.integers.evaluate({name: x[finite] for name, x in whole.items()}).items():
                outputs[name][finite] = value
        return False
