"""Replay a program in Python from its bits, cycle by cycle, as the core executes it."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.elementary import cosine, exponential, reciprocal, reciprocal_plan, sine, square_root
from dynagate.fixedpoint.format import Format, Integers, Rescaled, rescale, wide
from dynagate.fixedpoint.operations.counters import noise
from dynagate.hw.processor.compiler.instructions import OperandSource
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule
from dynagate.hw.processor.compiler.words import program_words
from dynagate.hw.processor.isa.packets import unpack_fields
from dynagate.hw.processor.isa.shape import KINDS, LEVELS, LOAD, NOISE, OPERANDS, STORE, Core


class Replayed(NamedTuple):
    """Results of a replayed program."""

    results: list[list[Integers]]
    """Integers (batch,) by unit, in the order in which the unit sends them."""
    overflow: npt.NDArray[np.bool_]
    """Samples that overflowed, (batch,)."""


Memory = dict[tuple[int, int], Integers]
"""Content of memories: integers (batch,) by memory and address."""


def replay(
    scheduled: ProgramSchedule, inputs: dict[int, Integers], memory: Memory | None = None, function: int = 0
) -> Replayed:
    """Run a program on integers.

    Args:
        scheduled: Schedule of the program.
        inputs: Integers (batch,) by input node.
        memory: Content of the memories after the iteration before; None for the first iteration.
        function: Index of the function to run, if the program has several.
    """
    batch = len(next(iter(inputs.values())))
    if scheduled.instructions.start is not None:
        inputs = {**inputs, scheduled.instructions.start: np.full(batch, not memory, dtype=np.int64)}
    return _Replay(scheduled, inputs, {} if memory is None else memory, batch).turn(function)


class _Replay:
    """State of one run."""

    def __init__(self, scheduled: ProgramSchedule, inputs: dict[int, Integers], memory: Memory, batch: int) -> None:
        self.scheduled, self.inputs, self.memory, self.batch = scheduled, inputs, memory, batch
        self.words = program_words(scheduled)
        self.results: list[list[Integers]] = [[] for _ in range(scheduled.core.units)]
        self.overflow = np.zeros(batch, dtype=bool)
        self.active = np.ones(batch, dtype=bool)
        self.level, self.turns = 0, [0] * LEVELS  # of the block; that each level has had
        for source, place in scheduled.fixed.items():
            if source.node is None:
                memory[scheduled.core.shared, place] = np.full(batch, source.integer, dtype=np.int64)

    def turn(self, function: int) -> Replayed:
        """Run one iteration of a function. Samples whose loop has ended wait until all samples leave it."""
        waiting: dict[int, tuple[npt.NDArray[np.bool_], int]] = {}  # block: who entered its loop, iterations
        blocks = self.scheduled.instructions.of_function(function)
        block = blocks[0]
        while block in blocks:
            self.level = self.scheduled.instructions.blocks[block].level
            goes_on = self.block(block)
            repeat = self.scheduled.instructions.blocks[block].repeat
            block += 1
            if repeat is None:
                continue
            entered, iterations = waiting.pop(block, (self.active, 0))
            self.active = self.active & (goes_on if repeat.until else True) & (iterations + 1 < repeat.most)
            if self.active.any():
                waiting[block] = entered, iterations + 1
                block = repeat.target
                self.turns[repeat.level] = iterations + 1
            else:
                self.active = entered
                self.turns[repeat.level] = 0
        return Replayed(self.results, self.overflow)

    def block(self, number: int) -> npt.NDArray[np.bool_]:
        """Run a block. Return the samples whose test was positive, (batch,)."""
        core, (start, words, _) = self.scheduled.core, self.scheduled.blocks[number]
        writes: dict[int, list[tuple[int, int, Integers]]] = defaultdict(list)
        for node in self.scheduled.instructions.blocks[number].inputs:
            place, value = (
                self.scheduled.fixed[OperandSource(node)],
                self.inputs.get(node, np.zeros(self.batch, np.int64)),
            )
            writes[self.scheduled.arrivals[node]].append((core.shared, place, value))
        positive = np.zeros(self.batch, dtype=bool)
        cycle = 0
        while cycle < words or writes:
            word = self.words[start + cycle] if cycle < words else 0
            kind = unpack_fields(word >> (core.units * core.unit_bits), core.function_fields)
            for unit in range(core.units):
                function = kind if unit == 0 else dict.fromkeys(kind, 0)
                positive |= self.unit(cycle, unit, word, function, writes)
            for bank, place, value in writes.pop(cycle, ()):
                old = self.memory.get((bank, place), value)
                self.memory[bank, place] = np.where(self.active, value, old)
            cycle += 1
        return positive

    def unit(
        self,
        cycle: int,
        unit: int,
        word: int,
        function: dict[str, int],
        writes: dict[int, list[tuple[int, int, Integers]]],
    ) -> npt.NDArray[np.bool_]:
        """Run an instruction of one unit. Return the samples for which it is a test with a positive result."""
        core = self.scheduled.core
        fields = unpack_fields(word >> (unit * core.unit_bits), core.unit_fields)
        nothing = np.zeros(self.batch, dtype=bool)
        if not (function["kind"] or fields["write"] or fields["out"] or function["test"]):
            return nothing
        places = (divmod(fields[name], 1 << core.place_bits) for name in OPERANDS)
        a, b, c = (self.memory.get(place, np.zeros(self.batch, np.int64)) for place in places)
        if function["kind"]:
            name = KINDS[function["kind"] - 1]
            if name in (LOAD, STORE):
                self.in_memory(cycle, name, function, a, writes)
                return nothing
            whole = Format(core.word, 0)
            done = (
                noise(a, b, c, whole, whole, whole, core.random)
                if name == NOISE
                else _function(core, name, a, function["shift"])
            )
            writes[cycle + core.latency_of(name) - 1].append((core.shared, function["place"], done.value))
            self.overflow |= done.overflow & self.active
            return nothing
        done = _sum(core, fields, a, b, c)
        if fields["out"]:
            self.results[unit].append(done.value)
        if fields["write"]:
            writes[cycle + core.latency - 1].append((unit, fields["place"], done.value))
        if fields["write"] or fields["out"]:
            self.overflow |= done.overflow & self.active
        return (done.value > 0) & bool(function["test"])

    def in_memory(
        self,
        cycle: int,
        name: str,
        function: dict[str, int],
        a: Integers,
        writes: dict[int, list[tuple[int, int, Integers]]],
    ) -> None:
        """Load or store a value of this iteration. A load in a later cycle reads what a store has written."""
        core = self.scheduled.core
        iteration = self.turns[self.level]
        place = core.units + 1, function["address"] + (-iteration if function["down"] else iteration)
        held = self.memory.get(place, np.zeros(self.batch, np.int64))
        if name == STORE:
            self.memory[place] = np.where(self.active, a, held)
        else:
            writes[cycle + core.latency_of(name) - 1].append((core.shared, function["place"], held))


def _sum(core: Core, fields: dict[str, int], a: Integers, b: Integers, c: Integers) -> Rescaled:
    if fields["select"]:
        takes_b = (a > 0) ^ bool(fields["product_negative"])
        product, addend = np.where(takes_b, b, 0), np.where(takes_b, 0, c)
    else:
        product, addend = wide(a, core.sum_bits + 8) * wide(b, core.sum_bits + 8), c
        product = -product if fields["product_negative"] else product
        addend = -addend if fields["addend_negative"] else addend
    exact = wide(product, core.sum_bits + 8) + (wide(addend, core.sum_bits + 8) << fields["up"])
    return rescale(exact, fields["down"], Format(core.word, 0), core.arithmetic)


def _function(core: Core, name: str, x: Integers, shift: int) -> Rescaled:
    if name == "exp":
        return exponential(x, *core.exponential)
    if name == "sqrt":
        return square_root(x, core.root_source, core.root)
    if name != "normalized_reciprocal":
        return (sine if name == "sin" else cosine)(x, core.angle, core.sine)
    bits = core.function_fields["shift"]
    signed = shift - (1 << bits) if shift >> (bits - 1) else shift
    source = Format(core.word, 0)
    return reciprocal(x, source, Format(core.word, reciprocal_plan(source, source).shift - signed))
