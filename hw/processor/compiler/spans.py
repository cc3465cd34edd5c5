"""Latency of a single sample in an idle core, from the first input beat to the first output beat."""

from __future__ import annotations

from collections.abc import Callable

from dynagate.hw.processor.compiler.instructions import Repeat
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule, max_iterations, min_iterations
from dynagate.hw.processor.isa.shape import FLAG_CYCLES, INPUT_CONVERSION

AROUND = 16
"""Cycles around a program: from the last word of a sample to the first program word, plus from a result to the output.
"""


def latency_spans(scheduled: ProgramSchedule, lanes: int) -> tuple[tuple[int, int], ...]:
    """Return the smallest and the largest latency of each function in cycles.

    The smallest has one iteration of each loop that ends by a tolerance; the largest has all iterations.

    Args:
        scheduled: Scheduled program.
        lanes: 32-bit words per beat.
    """
    entry = AROUND + scheduled.inputs + 1  # from a head to the tag, a word a cycle
    entry += INPUT_CONVERSION + scheduled.core.output_conversion if scheduled.core.floats else 0
    return tuple(
        (
            entry + _first_beat(scheduled, k, lanes, min_iterations),
            entry + _first_beat(scheduled, k, lanes, max_iterations),
        )
        for k in range(len(scheduled.instructions.interfaces))
    )


def _first_beat(scheduled: ProgramSchedule, function: int, lanes: int, iterations: Callable[[Repeat], int]) -> int:
    """Return the cycles from the first program word until the first output beat is offered.

    The sender takes the results of one unit after the other, then the flag and the tag. A beat is offered with its last
    word.
    """
    begins, total = scheduled.begins(function, iterations)
    there = {
        slot.instruction.result: begins[block] + slot.cycle - scheduled.blocks[block].start + scheduled.core.latency
        for block in begins
        for slot in scheduled.slots_of(block)
        if slot.instruction.out
    }
    sent, words = 0, 0
    for results in scheduled.outputs_of(function):
        for iteration in range(scheduled.steps):
            for result in results:
                sent = max(sent + 1, there[result] + iteration * total)
                words += 1
                if words == lanes:
                    return sent
        sent += 2  # to the next unit
    return sent + FLAG_CYCLES + (1 if words + 1 == lanes else 2)
