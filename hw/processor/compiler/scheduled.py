"""A schedule: the cycle, unit and place of each instruction of a program."""

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
    """An instruction in a program word. cycle: of the word. bank: the memory its result goes to. place: there; None if
    nothing reads it."""

    cycle: int
    unit: int
    bank: int
    instruction: Instruction
    place: int | None = None


class PlacedBlock(NamedTuple):
    """A block in the program. start: its first word. words: how many it has. period: cycles from its first word to
    that of the next block."""

    start: int
    words: int
    period: int


@dataclass(frozen=True)
class ProgramSchedule:
    """slots: by cycle and unit. arrivals: input node -> the cycle in which it is written to its place.
    fixed: places in the shared memory of constants and inputs. depths: places that each memory needs."""

    core: Core
    instructions: Instructions
    slots: tuple[ScheduledInstruction, ...]
    arrivals: dict[int, int]
    fixed: dict[OperandSource, int]
    depths: tuple[int, ...]
    blocks: tuple[PlacedBlock, ...]

    @property
    def words(self) -> int:
        """Program words."""
        return self.blocks[-1].start + self.blocks[-1].words

    @cached_property
    def period(self) -> int:
        """Cycles from a sample, or an iteration of a loop, to the next: the fewest, where a loop ends by a
        tolerance."""
        return min(map(self.fewest_of, range(len(self.instructions.interfaces))))

    @cached_property
    def longest(self) -> int:
        """Largest number of cycles of any function."""
        return max(self.begins(k, max_iterations)[1] for k in range(len(self.instructions.interfaces)))

    def fewest_of(self, function: int) -> int:
        """Return the shortest period of a function, as `period` is for the first one."""
        return self.begins(function, min_iterations)[1]

    def begins(self, function: int, iterations: Callable[[Repeat], int]) -> tuple[dict[int, int], int]:
        """Cycles from the first word of a function to that of each of its blocks, in the first iteration of the loops
        that the block is in, and to the end. iterations: `min_iterations` or `max_iterations`."""
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
        return needs | ({"turn_bits": ("values of turns", kept)} if (kept := self.instructions.kept) else {})

    @property
    def turns(self) -> int:
        """Return how many steps one sample carries: as many as the core holds, MAX_STEPS_PER_SAMPLE at most."""
        per_turn, out = len(self.instructions.per_turn), max(map(len, self.outputs))
        if self.instructions.start is None:
            return 1
        fixed = len(self.instructions.inputs) - per_turn
        room = [((1 << self.core.input_bits) - fixed) // max(per_turn, 1), (1 << self.core.output_bits) // max(out, 1)]
        if self.core.floats:
            room.append(((1 << self.core.output_points) - FIRST_POINT) // sum(map(len, self.outputs)))
        return max(min(MAX_STEPS_PER_SAMPLE, *room), 1)

    @property
    def inputs(self) -> int:
        """Words of a sample's inputs."""
        return len(self.instructions.inputs) + (self.turns - 1) * len(self.instructions.per_turn)

    @cached_property
    def cycles(self) -> int:
        """From the first program word to the last result: the fewest, where a loop ends by a tolerance."""
        return self.cycles_of(0)

    def cycles_of(self, function: int) -> int:
        """Return the cycles of a function from the first word to the last result."""
        last = self.instructions.of_function(function)[-1]
        start, _, period = self.blocks[last]
        ends = (slot.cycle - start + self.core.latency_of(slot.instruction.kind) for slot in self.slots_of(last))
        return self.fewest_of(function) - period + max(ends, default=0)

    def slots_of(self, block: int) -> tuple[ScheduledInstruction, ...]:
        """Return the slots of a block."""
        return self._slots_by_block[block]

    @cached_property
    def _slots_by_block(self) -> tuple[tuple[ScheduledInstruction, ...], ...]:
        """The slots of each block, in the order of `slots`."""
        starts = [placed.start for placed in self.blocks]
        slots: list[list[ScheduledInstruction]] = [[] for _ in self.blocks]
        for slot in self.slots:
            slots[bisect.bisect_right(starts, slot.cycle) - 1].append(slot)
        return tuple(map(tuple, slots))

    @property
    def cycles_per_sample(self) -> int:
        """Most cycles from a sample to the next where results are taken at once: the sender may be slower than the
        units."""
        return max(
            self.longest * self.turns,
            self.turns * sum(map(len, self.outputs)) + 2 * self.core.units + OUTPUT_OVERHEAD_CYCLES,
        )

    @property
    def use(self) -> float:
        """The share of slots that are used."""
        return len(self.slots) / (self.words * self.core.units)

    @cached_property
    def by_result(self) -> dict[int, ScheduledInstruction]:
        return {slot.instruction.result: slot for slot in self.slots}

    @cached_property
    def outputs(self) -> list[list[int]]:
        """The results that each unit brings out, in order; of several functions the first one's, as many as others'."""
        return self.outputs_of(0)

    def outputs_of(self, function: int) -> list[list[int]]:
        """Return the results of a function in the order in which each unit sends them."""
        out: list[list[int]] = [[] for _ in range(self.core.units)]
        blocks = self.instructions.of_function(function)
        slots = (slot for block in blocks for slot in self.slots_of(block) if slot.instruction.out)
        for slot in sorted(slots, key=lambda slot: slot.cycle):
            out[slot.unit].append(slot.instruction.result)
        return out

    def location(self, source: OperandSource) -> tuple[int, int]:
        """Memory and place of an operand."""
        if source in self.fixed and not source.previous:
            return self.core.shared, self.fixed[source]
        slot = self.by_result[source.node]  # type: ignore[index]
        assert slot.place is not None
        return slot.bank, slot.place
