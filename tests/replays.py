"""Programs of processors, replayed in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from dynagate.fixedpoint.format import Integers
from dynagate.hw.processor.checker.replay import Memory, Replayed, replay
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule


def by_result(scheduled: ProgramSchedule, got: Replayed) -> dict[int, Integers]:
    """What units bring out (batch,), by result of the instructions."""
    return {
        result: got.results[unit][k]
        for unit, results in enumerate(scheduled.outputs)
        for k, result in enumerate(results)
    }


def replayed_iteration(
    scheduled: ProgramSchedule, inputs: Mapping[str, Sequence[Integers]], memory: Memory
) -> tuple[dict[str, list[Integers]], np.ndarray]:
    """A call of a program of loops: results by name from integers of inputs by name, and where it overflowed."""
    program = scheduled.instructions
    by_node = {i: x for port in program.interface.inputs for i, x in zip(port.nodes, inputs[port.name], strict=True)}
    got = replay(scheduled, by_node, memory)
    results = by_result(scheduled, got)
    return {
        port.name: [results[program.outputs[i]] for i in port.nodes] for port in program.interface.outputs
    }, got.overflow
