"""Latency of a single sample in an idle core, from the first beat in to the first beat out."""

from __future__ import annotations

from collections.abc import Callable

from dynagate.hw.processor.compiler.instructions import Repeat
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule, max_iterations, min_iterations
from dynagate.hw.processor.isa.shape import FLAG_CYCLES, INPUT_CONVERSION

AROUND = 16
"""Cycles from the last word of a sample to the program's first word, and from a result until the output stream offers
it, together."""


def spans(scheduled: ProgramSchedule, lanes: int) -> tuple[tuple[int, int], ...]:
    """The least and the most cycles of each function: those where its loops take one iteration, and where all take as
    many as they may. lanes: words of a beat."""
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
    """From the program's first word until the first beat is offered: the sender takes results of one unit after the
    other, then the flag and the tag, and the beat is whole with its last word."""
    begins, total = scheduled.begins(function, iterations)
    there = {
        slot.instruction.result: begins[block] + slot.cycle - scheduled.blocks[block].start + scheduled.core.latency
        for block in begins
        for slot in scheduled.slots_of(block)
        if slot.instruction.out
    }
    sent, words = 0, 0
    for results in scheduled.outputs_of(function):
        for iteration in range(scheduled.turns):
            for result in results:
                sent = max(sent + 1, there[result] + iteration * total)
                words += 1
                if words == lanes:
                    return sent
        sent += 2  # to the next unit
    return sent + FLAG_CYCLES + (1 if words + 1 == lanes else 2)
