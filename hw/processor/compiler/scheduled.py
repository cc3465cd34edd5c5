"""A scheduled program: the cycle, the unit and the address of each instruction."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dynagate.hw.processor.compiler.instructions import Instruction, Instructions, OperandSource, Repeat
from dynagate.hw.processor.isa.shape import FIRST_POINT, Core

MAX_STEPS_PER_SAMPLE = 8
"""Largest number of steps of a rollout whose inputs and results one sample may carry."""
OUTPUT_OVERHEAD_CYCLES = 9
"""Fixed cost of sending one sample's results, in cycles, besides one cycle for each result and two for each unit."""


def min_iterations(loop: Repeat) -> int:
    """Return the smallest number of iterations of a loop: 1 if it ends by a tolerance, else its fixed number."""
    return 1 if loop.until else loop.most


def max_iterations(loop: Repeat) -> int:
    """Return the largest number of iterations of a loop."""
    return loop.most


@dataclass(frozen=True)
class ScheduledInstruction:
    """An instruction in a program word."""

    cycle: int
    """Index of the program word."""
    unit: int
    bank: int
    """Memory that the result is written to."""
    instruction: Instruction
    place: int | None = None
    """Address in this memory; None if no instruction reads the result."""


class PlacedBlock(NamedTuple):
    """Program words of a block."""

    start: int
    """Index of the first word."""
    words: int
    """Number of words."""
    period: int
    """Cycles from its first word to the first word of the next block."""


@dataclass(frozen=True)
class ProgramSchedule:
    """A program with the cycles, units and addresses of its instructions."""

    core: Core
    instructions: Instructions
    slots: tuple[ScheduledInstruction, ...]
    """Scheduled instructions, sorted by cycle, then unit."""
    arrivals: dict[int, int]
    """Cycle in which each input is written to memory, by input number."""
    fixed: dict[OperandSource, int]
    """Addresses of constants and inputs in the shared memory."""
    depths: tuple[int, ...]
    """Number of addresses that each memory needs; the shared memory is last."""
    blocks: tuple[PlacedBlock, ...]
    """Program words of each block."""

    @property
    def words(self) -> int:
        """Return the number of program words."""
        return self.blocks[-1].start + self.blocks[-1].words

    @cached_property
    def period(self) -> int:
        """Return the cycles from a sample, or a step, to the next; the smallest number if a loop ends by a
        tolerance.
        """
        return min(map(self.fewest_of, range(len(self.instructions.interfaces))))

    @cached_property
    def longest(self) -> int:
        """Return the largest number of cycles of any function."""
        return max(self.begins(k, max_iterations)[1] for k in range(len(self.instructions.interfaces)))

    def fewest_of(self, function: int) -> int:
        """Return the shortest period of a function, in cycles."""
        return self.begins(function, min_iterations)[1]

    def begins(self, function: int, iterations: Callable[[Repeat], int]) -> tuple[dict[int, int], int]:
        """Return the cycle in which each block of a function first begins, and the cycles of the whole function.

        Args:
            function: Index of the function.
            iterations: `min_iterations` or `max_iterations`.
        """
        total, totals = 0, dict[int, int]()
        for k in self.instructions.of_function(function):
            block, placed = self.instructions.blocks[k], self.blocks[k]
            totals[k] = total
            total += placed.period
            if block.repeat is not None:
                begin = totals[block.repeat.target]
                total = begin + (total - begin) * iterations(block.repeat)
        return totals, total

    @property
    def required_capacity(self) -> dict[str, tuple[str, int]]:
        """Return, for each size field of the core, what it counts and how many of these the program needs."""
        needs = {
            "program_bits": ("words", self.words),
            "place_bits": ("places", max(self.depths)),
            "input_bits": ("inputs", len(self.instructions.inputs)),
            "output_bits": ("results of a unit", max(map(len, self.outputs))),
        }
        if self.core.floats:  # tables of binary points have twice as many rows
            functions = range(len(self.instructions.interfaces))
            inputs = sum(len(self.instructions.blocks[entry].inputs) for entry in self.instructions.entries)
            results = sum(len(unit) for k in functions for unit in self.outputs_of(k))
            for name, more in (("input_bits", inputs), ("output_bits", results)):
                if (pairs := (FIRST_POINT + more + 1) // 2) > max(needs[name][1], FIRST_POINT):
                    needs[name] = ("pairs of binary points", pairs)
        return needs | ({"iteration_bits": ("values of iterations", kept)} if (kept := self.instructions.kept) else {})

    @property
    def steps(self) -> int:
        """Return how many steps one sample carries: as many as the core holds, at most MAX_STEPS_PER_SAMPLE."""
        per_iteration, out = len(self.instructions.per_iteration), max(map(len, self.outputs))
        if self.instructions.start is None:
            return 1
        fixed = len(self.instructions.inputs) - per_iteration
        room = [
            ((1 << self.core.input_bits) - fixed) // max(per_iteration, 1),
            (1 << self.core.output_bits) // max(out, 1),
        ]
        if self.core.floats:
            room.append(((1 << self.core.output_points) - FIRST_POINT) // sum(map(len, self.outputs)))
        return max(min(MAX_STEPS_PER_SAMPLE, *room), 1)

    @property
    def inputs(self) -> int:
        """Return the words of a sample's inputs."""
        return len(self.instructions.inputs) + (self.steps - 1) * len(self.instructions.per_iteration)

    @cached_property
    def cycles(self) -> int:
        """Return the cycles from the first program word to the last result; the fewest if a loop ends by a
        tolerance.
        """
        return self.cycles_of(0)

    def cycles_of(self, function: int) -> int:
        """Return the cycles of a function from its first word to its last result."""
        last = self.instructions.of_function(function)[-1]
        start, _, period = self.blocks[last]
        ends = (slot.cycle - start + self.core.latency_of(slot.instruction.kind) for slot in self.slots_of(last))
        return self.fewest_of(function) - period + max(ends, default=0)

    def slots_of(self, block: int) -> tuple[ScheduledInstruction, ...]:
        """Return the scheduled instructions of a block."""
        return self._slots_by_block[block]

    @cached_property
    def _slots_by_block(self) -> tuple[tuple[ScheduledInstruction, ...], ...]:
        """Return the scheduled instructions of each block, in the order of `slots`."""
        starts = [placed.start for placed in self.blocks]
        slots: list[list[ScheduledInstruction]] = [[] for _ in self.blocks]
        for slot in self.slots:
            slots[bisect.bisect_right(starts, slot.cycle) - 1].append(slot)
        return tuple(map(tuple, slots))

    @property
    def cycles_per_sample(self) -> int:
        """Return the largest number of cycles from a sample to the next if results are accepted at once.

        Sending results may take longer than computing them.
        """
        return max(
            self.longest * self.steps,
            self.steps * sum(map(len, self.outputs)) + 2 * self.core.units + OUTPUT_OVERHEAD_CYCLES,
        )

    @property
    def use(self) -> float:
        """Return the share of slots that hold an instruction."""
        return len(self.slots) / (self.words * self.core.units)

    @cached_property
    def by_result(self) -> dict[int, ScheduledInstruction]:
        """Return the scheduled instruction of each result."""
        return {slot.instruction.result: slot for slot in self.slots}

    @cached_property
    def outputs(self) -> list[list[int]]:
        """Return the results that each unit sends, in order, for the first function."""
        return self.outputs_of(0)

    def outputs_of(self, function: int) -> list[list[int]]:
        """Return the results that each unit sends, in order, for a function."""
        out: list[list[int]] = [[] for _ in range(self.core.units)]
        blocks = self.instructions.of_function(function)
        slots = (slot for block in blocks for slot in self.slots_of(block) if slot.instruction.out)
        for slot in sorted(slots, key=lambda slot: slot.cycle):
            out[slot.unit].append(slot.instruction.result)
        return out

    def location(self, source: OperandSource) -> tuple[int, int]:
        """Return the memory and the address of an operand."""
        if source in self.fixed and not source.previous:
            return self.core.shared, self.fixed[source]
        slot = self.by_result[source.node]  # type: ignore[index]
        assert slot.place is not None
        return slot.bank, slot.place
