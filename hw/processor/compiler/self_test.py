"""Write a program that tests a core: every operand memory, shift, sign, function, flag, loop and table entry.

The program has four functions, and each sample of it has `STEPS` steps:

* `_mixed`: random instructions on random operands, and instructions that overflow for one value of one input;
* `_nested`: loops as deep as a core allows, a loop that ends by a test, and the memory of iterations;
* `_swept`: a loop that reads every entry of the tables of elementary functions, and adds up the results;
* `_inverted`: reciprocals of the inputs of each step.

The schedule is that of every program. Only addresses are spread over the memories, so that all their bits change.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from dynagate.fixedpoint.elementary import reciprocal_plan
from dynagate.fixedpoint.format import Format
from dynagate.hw.processor.compiler.instructions import (
    ONE,
    SUM,
    ZERO,
    Block,
    Instruction,
    Instructions,
    OperandSource,
    ProgramInterface,
    Repeat,
)
from dynagate.hw.processor.compiler.schedule import BlockTimings, unverified
from dynagate.hw.processor.compiler.scheduled import PlacedBlock, ProgramSchedule, ScheduledInstruction
from dynagate.hw.processor.compiler.words import messages
from dynagate.hw.processor.isa.packets import BLOCK_LANES, CONTROL, REGION_SHIFT, MemoryRegion, Words, checksum
from dynagate.hw.processor.isa.shape import BLOCK_BITS, FIRST_POINT, LOAD, NOISE, STORE, Core
from dynagate.hw.units.latencies import SHIFT_BITS

STEPS = 4
"""Number of steps of a sample."""
RESULTS = 8
"""Number of results of each unit in a step."""
SHARED, PROBES, LATE = 6, 6, 4
"""Number of inputs that all steps share besides the start, of inputs of each step whose extremes overflow, and of those
whose extremes overflow at the end of the step.
"""
COUNTER, RARE = "counter", "rare"
"""Names of the inputs of each step that count iterations of a loop, and that are small where a function overflows. A
negative counter makes another function overflow.
"""
PROBED = (*(f"probe{k}" for k in range(PROBES)), *(f"late{k}" for k in range(LATE)))
"""Names of the inputs of each step whose extremes overflow."""
NAMES = ("start", *(f"shared{k}" for k in range(SHARED)), *PROBED, COUNTER, RARE)
"""Names of the inputs, in the order of their numbers."""
PER_STEP = tuple(range(1 + SHARED, len(NAMES)))
"""Numbers of the inputs of each step."""
INPUTS = len(NAMES) + (STEPS - 1) * len(PER_STEP)
"""Number of the words of a sample's inputs."""
MIXED, NESTED, SWEPT, INVERTED = range(4)
"""Functions of the program. Cores with too few rows of binary points for it lack the last one."""
_TITLES = ("mixed", "nested", "swept", "inverted")
PER_UNIT = 24
"""Random instructions of a step for each unit. Cores of many units, which have many memories, have more."""
CONSTANTS = 96
"""Number of random constants."""
TRIES = 400
"""Number of operands and shifts that are tried until a random result fits its word."""
SWEEP = 1 << 12
"""Number of operands of each table's sweep."""
UNROLLED = 64
"""Number of them in an iteration."""
MOST_ITERATIONS = 3
"""Largest number of iterations of the loop that ends by a test."""
MIXED_BLOCKS, NESTED_BLOCKS, SWEPT_BLOCKS, INVERTED_BLOCKS = 1, 9, 3, 1
"""Number of blocks of each function."""
BLOCKS = MIXED_BLOCKS + NESTED_BLOCKS + SWEPT_BLOCKS + INVERTED_BLOCKS
"""Largest number of blocks of the program."""
FIRST_BLOCK = (1 << BLOCK_BITS) - BLOCKS
"""Number of its first block: the last rows of the table of blocks hold it."""
RECIPROCAL = "normalized_reciprocal"
"""Kind of the instructions that compute reciprocals."""


def has_self_test(core: Core) -> bool:
    """Return whether the memories of a core hold its self-test."""
    large = core.program_bits >= 11 and core.place_bits >= 9 and core.input_bits >= 6 and core.output_bits >= 7
    return large and _has_points(core, INVERTED)


def has_reciprocals(core: Core) -> bool:
    """Return whether a core has binary points for reciprocals of inputs in its self-test."""
    return _has_points(core, INVERTED + 1)


def _has_points(core: Core, functions: int) -> bool:
    """Return whether a core has the binary points of this many functions, of which only float32 needs any."""
    points = FIRST_POINT + functions * STEPS * RESULTS * core.units
    return not core.floats or points <= 1 << core.output_points


def results_of(core: Core) -> int:
    """Return the number of results of a sample, with the word of the flag."""
    return core.units * RESULTS * STEPS + 1


def reciprocal_formats(core: Core) -> tuple[Format, Format]:
    """Return the formats of the operand and of the result of all reciprocals in the self-test.

    Operands from a quarter of their range on have results that fit.
    """
    return Format(core.word, 0), Format(core.word, 2 * core.word - 4)


@dataclass(frozen=True)
class SelfTest:
    """A program that tests a core."""

    schedule: ProgramSchedule
    """Schedule of the program, with blocks from 0 on."""
    loading: Words
    """Messages that load the program, (messages, 2), with blocks from `FIRST_BLOCK` on."""

    def entry(self, function: int) -> int:
        """Return the number of the first block of a function."""
        return FIRST_BLOCK + self.schedule.instructions.entries[function]


class _Program(Instructions):
    """Program whose inputs arrive in the order of their numbers, the same for each function."""

    def rank(self, node: int) -> int:
        """Return the place of an input."""
        return node


@lru_cache(maxsize=2)
def self_test(core: Core) -> SelfTest:
    """Return the self-test of a core. Equal cores have equal self-tests."""
    writer = _Writer(core)
    functions = [list(writer.mixed()), list(writer.nested()), list(writer.swept())]
    if has_reciprocals(core):
        functions.append(list(writer.inverted()))
    blocks = [block for function in functions for block in function]
    assert len(blocks) == BLOCKS - INVERTED_BLOCKS * (not has_reciprocals(core))
    program = _Program(
        tuple(writer.interface(name, function) for name, function in zip(_TITLES, functions, strict=False)),
        tuple(blocks),
        {each.result: each.result for block in blocks for each in block.listed if each.out},
        (),
        start=0,
        per_iteration=frozenset(PER_STEP),
        kept=1 << core.iteration_bits if core.iteration_bits else 0,
    )
    scheduled = _spread(unverified(program, core, BlockTimings()), writer.random)
    return SelfTest(scheduled, _relocated(scheduled))


class _Value(NamedTuple):
    """A value with its largest magnitude."""

    source: OperandSource
    bound: int


_NOTHING = _Value(ZERO, 0)
"""The constant 0."""


class _Writer:
    """Writes the instructions of a self-test."""

    def __init__(self, core: Core) -> None:
        self.core, self.random = core, random.Random(core.word * 100 + core.units)
        self.fresh = itertools.count(len(NAMES))
        self.constants: list[_Value] = []
        self.most = 1 << (core.word - 1)
        self.formats: dict[int, Format] = {
            k: Format(core.word, self.random.randrange(core.word)) for k in range(len(NAMES))
        }

    def interface(self, name: str, blocks: Sequence[Block]) -> ProgramInterface:
        """Return the interface of a function: what the streams need of it."""
        results = tuple(each.result for block in blocks for each in block.listed if each.out)
        self.formats |= {each: Format(self.core.word, self.random.randrange(self.core.word)) for each in results}
        return ProgramInterface("core", name, (), (), self.formats, {}, {}, results)

    def input(self, name: str) -> _Value:
        """Return an input."""
        return _Value(OperandSource(NAMES.index(name)), self.most)

    def constant(self, value: int) -> _Value:
        """Return a constant."""
        return _Value(OperandSource(None, value), abs(value))

    def sum(self, a: _Value, b: _Value, c: _Value, result: int | None = None, **fields: object) -> Instruction:
        """Return a multiply-add."""
        number = next(self.fresh) if result is None else result
        return Instruction(number, SUM, a.source, b.source, c.source, **fields)  # type: ignore[arg-type]

    # random instructions

    def mixed(self) -> Iterator[Block]:
        """Yield the block of random instructions."""
        listed = [*self._probes(), *self._functions_that_overflow()]
        values = [self.input(f"shared{k}") for k in range(SHARED)]
        values += [_Value(OperandSource(each.result), self.most) for each in listed]
        for k in range(max(PER_UNIT, 6 * self.core.units) * self.core.units):
            each, bound = self._function(values, listed, k) if k % 6 == 0 else self._random(values)
            listed.append(each)
            values.append(_Value(OperandSource(each.result), bound))
        listed += self._gathered(listed)
        yield Block(tuple(listed), inputs=tuple(range(len(NAMES))))

    def _gathered(self, listed: Sequence[Instruction]) -> list[Instruction]:
        """Return instructions that read what no other one reads. The results of the last ones leave the core."""
        read = {node for each in listed for node in each.reads}
        unread = [_Value(OperandSource(each.result), self.most) for each in listed if each.result not in read]
        most, more = RESULTS * self.core.units * 3 // 4 - 2 * LATE, list[Instruction]()
        while len(unread) > most:
            a, b, *unread = unread
            factor = self.constant(self.random.randrange(self.most // 8, self.most // 4) | 1)
            each = self.sum(a, factor, b, up=self.core.word - 3, down=self.core.word - 1)
            more.append(each)
            unread.append(_Value(OperandSource(each.result), self.most))
        out = (self.sum(value, _Value(ONE, 1), self.constant(k)) for k, value in enumerate(unread))
        late = self._late(self._deepest([*listed, *more]))
        return [*more, *(replace(each, out=True, down=1) for each in out), *late]

    def _deepest(self, listed: Sequence[Instruction]) -> _Value:
        """Return the value that depends on the longest chain of instructions."""
        cycles: dict[int, int] = {}
        for each in listed:
            cycles[each.result] = self.core.latency_of(each.kind) + max(
                (cycles.get(n, 0) for n in each.reads), default=0
            )
        return _Value(OperandSource(max(cycles, key=lambda result: cycles[result])), self.most)

    def _late(self, last: _Value) -> Iterator[Instruction]:
        """Yield instructions that wait for a value, and of which each overflows for one extreme of one input."""
        limit = self.constant(self.most // 2)
        for k in range(LATE):
            for negative in (False, True):
                half = self.sum(self.input(f"late{k}"), _Value(ONE, 1), limit, addend_negative=negative, down=1)
                yield half
                yield replace(self.sum(last, _NOTHING, _value(half), up=1), out=True)

    def _probes(self) -> Iterator[Instruction]:
        """Yield instructions of which each overflows for one extreme of one input."""
        limit = self.constant(self.most // 2)
        for k in range(PROBES):
            for negative in (False, True):
                yield self.sum(self.input(f"probe{k}"), _Value(ONE, 1), limit, addend_negative=negative)

    def _functions_that_overflow(self) -> Iterator[Instruction]:
        """Yield functions of which one overflows for a small value of an input, the other for a negative counter."""
        yield self._reciprocal(self.input(RARE).source)
        yield Instruction(next(self.fresh), "sqrt", self.input(COUNTER).source)
        for bit in range(SHIFT_BITS - 1):  # smaller results, down to 0
            yield self._reciprocal(self.input(RARE).source, 1 << bit)

    def _reciprocal(self, x: OperandSource, down: int = 0) -> Instruction:
        """Return an instruction that computes a reciprocal with the formats of `reciprocal_formats`.

        Args:
            x: The operand.
            down: Bits by which the result is shifted to the right.
        """
        source, to = reciprocal_formats(self.core)
        shift = min(reciprocal_plan(source, source).shift - to.frac + down, (1 << SHIFT_BITS - 1) - 1)
        assert abs(shift) < 1 << (SHIFT_BITS - 1)
        return Instruction(next(self.fresh), RECIPROCAL, x, shift=shift)

    def _constant(self) -> _Value:
        """Return a constant of random magnitude."""
        if len(self.constants) < CONSTANTS:
            bits = self.random.randrange(self.core.word - 1)
            number = self.random.choice((-1, 1)) * self.random.randrange(1 << bits, 2 << bits)
            self.constants.append(self.constant(number))
            return self.constants[-1]
        return self.random.choice(self.constants)

    def _random(self, values: Sequence[_Value]) -> tuple[Instruction, int]:
        """Return a random multiply-add or select, and the largest magnitude of its result, which fits the word."""
        draw, word = self.random, self.core.word
        for _ in range(TRIES):
            a, b, c = (draw.choice(values) if draw.random() < 0.6 else self._constant() for _ in range(3))
            select, up = draw.random() < 0.2, draw.randrange(32)
            signs = {"product_negative": draw.random() < 0.5, "addend_negative": draw.random() < 0.5}
            product, addend = b.bound if select else a.bound * b.bound, c.bound << up
            exact = max(product, addend) if select else product + addend
            down = max(exact.bit_length() - word + 1, 0) + draw.randrange(2)
            bound = (exact >> down) + 1
            if down < 32 and 1 << (word // 2) <= bound < self.most:
                return self.sum(a, b, c, up=up, down=down, select=select, **signs), bound
        return self.sum(draw.choice(values), _Value(ONE, 1), self.constant(3), down=2), self.most // 2

    def _function(self, values: Sequence[_Value], listed: list[Instruction], k: int) -> tuple[Instruction, int]:
        """Return a function of random values, and the largest magnitude of its result.

        Args:
            values: Values that may be operands.
            listed: Instructions so far; one is added that makes the operand of a square root positive.
            k: Place of the instruction.
        """
        draw = self.random
        kind, number = draw.choice(("sin", "cos", "sqrt")), next(self.fresh)
        kind = NOISE if self.core.noise and k % 24 == 0 else kind
        if kind == "sqrt":
            listed.append(self.sum(draw.choice(values), _Value(ONE, 1), self.constant(self.most - 1), down=1))
            return Instruction(number, kind, OperandSource(listed[-1].result)), self.most
        a, b, c = (draw.choice(values).source for _ in range(3))
        more = {"b": b, "c": c} if kind == NOISE else {}
        return Instruction(number, kind, a, **more), self.most  # type: ignore[arg-type]

    # loops

    def nested(self) -> Iterator[Block]:
        """Yield blocks of nested loops, which write four states and a counter anew.

        Loops of levels 0 to 3 begin with the second to the fifth block, and end with the eighth to the fifth.
        """
        first = MIXED_BLOCKS
        states = [next(self.fresh) for _ in range(4)]
        counter = next(self.fresh)
        begin = [
            self.sum(self.input(f"shared{k}"), _Value(ONE, 1), self.input(f"probe{k}"), state, down=8)
            for k, state in enumerate(states)
        ]
        begin.append(self.sum(self.input(COUNTER), _Value(ONE, 1), _NOTHING, counter))
        yield Block(tuple(begin), last=False, inputs=tuple(range(len(NAMES))))
        for level in range(3):
            yield Block((self._update(states, level),), last=False, level=level)
        stores, loads = self._kept(states)
        yield Block((*stores, self._update(states, 3)), Repeat(first + 4, 2, level=3), last=False, level=3)
        yield Block((*loads, self._update(states, 0)), Repeat(first + 3, 2, level=2), last=False, level=2)
        yield Block((self._update(states, 1),), Repeat(first + 2, 2, level=1), last=False, level=1)
        down = self.sum(_Value(OperandSource(counter, previous=True), 4), _Value(ONE, 1), self.constant(-1), counter)
        test = self.sum(_Value(OperandSource(counter), 4), _Value(ONE, 1), _NOTHING, test=True)
        yield Block((down, test), Repeat(first + 1, MOST_ITERATIONS, until=True, level=0), last=False)
        ends = [
            self.sum(_Value(OperandSource(state), self.most // 2), _Value(ONE, 1), _NOTHING, up=k)
            for k, state in enumerate((*states, counter))
        ]
        yield Block(tuple(replace(each, out=True) for each in ends))

    def _update(self, states: Sequence[int], k: int) -> Instruction:
        """Return an instruction that rotates two states by an angle, in which no bit is lost."""
        old, other = (OperandSource(states[n % 4], previous=True) for n in (k, k + 1))
        factor = self.constant((1 << 10) - self.random.randrange(300) * 2 - 1)
        negative = k % 2 == 1
        return self.sum(
            _Value(other, 1), factor, _Value(old, 1), states[k % 4], up=11, down=11, product_negative=negative
        )

    def _kept(self, states: Sequence[int]) -> tuple[list[Instruction], list[Instruction]]:
        """Return stores of two states, and loads that the other two states depend on.

        The addresses of the first state rise from iteration to iteration, those of the second one fall.
        """
        if not self.core.iteration_bits:
            return [], []
        stores, loads = list[Instruction](), list[Instruction]()
        for k, address in enumerate((0, (1 << self.core.iteration_bits) - 1)):
            loaded, falls = next(self.fresh), k == 1
            old, other = (OperandSource(states[n], previous=True) for n in (k, k + 2))
            stores.append(Instruction(next(self.fresh), STORE, old, address=address, backwards=falls))
            loads.append(Instruction(loaded, LOAD, ZERO, address=address, backwards=falls))
            operands = (_Value(OperandSource(loaded), 1), _Value(ONE, 1), _Value(other, 1))
            loads.append(self.sum(*operands, states[k + 2], up=1, down=1, product_negative=True))
        return stores, loads

    # tables

    def swept(self) -> Iterator[Block]:
        """Yield blocks that compute functions of operands that sweep the tables, and add up their results.

        The steps of a sample continue the sweep.
        """
        x, low, high = (next(self.fresh) for _ in range(3))
        before = self.most // 2 - UNROLLED * self._stride
        begin = [
            self.sum(
                self.input("start"),
                self.constant(value),
                _Value(OperandSource(state, previous=True), 1),
                state,
                select=True,
            )
            for state, value in ((x, before), (low, 0), (high, 0))
        ]
        yield Block(tuple(begin), last=False, inputs=tuple(range(len(NAMES))))
        repeat = Repeat(MIXED_BLOCKS + NESTED_BLOCKS + 1, SWEEP // UNROLLED // STEPS)
        yield Block(tuple(self._iteration(x, low, high)), repeat, last=False)
        ends = (self.sum(_Value(OperandSource(each), 1), _Value(ONE, 1), _NOTHING) for each in (low, high))
        yield Block(tuple(replace(each, out=True) for each in ends))

    @property
    def _stride(self) -> int:
        """Return the difference of consecutive operands of a sweep."""
        return self.most // 2 // SWEEP

    def _iteration(self, x: int, low: int, high: int) -> Iterator[Instruction]:
        """Yield the instructions of an iteration of the sweep.

        The lower and the upper half of each result are added to a sum of their own, which never overflows.
        """
        core, half, draw = self.core, self.core.word // 2, self.random
        others = itertools.cycle(("sin", "cos", "sqrt", *(("exp",) if core.exp_bits else ())))
        yield self.sum(
            _Value(OperandSource(x, previous=True), 1), _Value(ONE, 1), self.constant(UNROLLED * self._stride), x
        )
        lows, highs = list[_Value](), list[_Value]()
        for k in range(UNROLLED):
            there = self.constant(k * self._stride + draw.randrange(self._stride))
            yield (operand := self.sum(_Value(OperandSource(x), 1), _Value(ONE, 1), there))
            for kind in (RECIPROCAL, next(others)):
                of = operand
                if kind == "exp":
                    middle = self.constant(-3 * self.most // 4)
                    shifted = max(core.exp_bits - 1, 0)
                    yield (of := self.sum(_value(operand), _Value(ONE, 1), middle, down=shifted))
                source = OperandSource(of.result)
                is_reciprocal = kind == RECIPROCAL
                function = self._reciprocal(source) if is_reciprocal else Instruction(next(self.fresh), kind, source)
                upper = self.sum(_value(function), _Value(ONE, 1), _NOTHING, down=half)
                lower = self.sum(_value(function), _Value(ONE, 1), _value(upper), up=half, addend_negative=True)
                yield from (function, upper, lower)
                lows.append(_value(lower))
                highs.append(_value(upper))
        for total, values in ((low, lows), (high, highs)):
            yield from self._added(total, values)

    def inverted(self) -> Iterator[Block]:
        """Yield the block that computes the reciprocal of each input of a step."""
        functions = [self._reciprocal(OperandSource(k)) for k in PER_STEP]
        out = (self.sum(_value(each), _Value(ONE, 1), _NOTHING) for each in functions)
        yield Block((*functions, *(replace(each, out=True) for each in out)), inputs=tuple(range(len(NAMES))))

    def _added(self, total: int, values: list[_Value]) -> Iterator[Instruction]:
        """Yield the instructions that add values to three times a sum, modulo a power of two."""
        while len(values) > 1:
            a, b, *values = values
            yield (both := self.sum(a, _Value(ONE, 1), b))
            values.append(_value(both))
        up = self.core.word - 3
        yield (sum_ := self.sum(_Value(OperandSource(total, previous=True), 1), self.constant(3), values[0]))
        yield (upper := self.sum(_value(sum_), _Value(ONE, 1), _NOTHING, down=up))
        yield self.sum(_value(sum_), _Value(ONE, 1), _value(upper), total, up=up, addend_negative=True)


def _value(of: Instruction) -> _Value:
    """Return the result of an instruction whose magnitude does not matter."""
    return _Value(OperandSource(of.result), 1)


# addresses


class _Schedule(ProgramSchedule):
    """Schedule of a self-test."""

    @property
    def steps(self) -> int:
        """Return the number of steps of a sample."""
        return STEPS


def _spread(scheduled: ProgramSchedule, draw: random.Random) -> ProgramSchedule:
    """Return the schedule with its addresses spread over the memories, and with `RESULTS` results of each unit."""
    core, program = scheduled.core, scheduled.instructions
    slots = [list(scheduled.slots_of(k)) for k in range(len(program.blocks))]
    words = [placed.words for placed in scheduled.blocks]
    fresh = itertools.count(program.next_number)
    for k in range(len(program.interfaces)):
        own_blocks = program.of_function(k)
        last, missing = own_blocks[-1], list[int]()
        for unit in range(core.units):
            room = RESULTS
            for block in own_blocks:
                for i, slot in enumerate(slots[block]):
                    if slot.unit == unit and slot.instruction.out:
                        if room == 0:
                            slots[block][i] = replace(slot, instruction=replace(slot.instruction, out=False))
                        room -= room > 0
            missing.append(room)
        words[last] += max(missing)
        end = scheduled.blocks[last].start + words[last]
        for unit, count in enumerate(missing):  # all units compute in the last word
            more = (Instruction(next(fresh), SUM, ZERO, ONE, out=True) for _ in range(count))
            slots[last] += [ScheduledInstruction(end - count + n, unit, unit, each) for n, each in enumerate(more)]
    _balanced(slots, core.shared)
    starts = [sum(words[:k]) for k in range(len(words))]
    far = (1 << core.program_bits) - sum(words)
    starts = [start + (far if k >= program.entries[SWEPT] else 0) for k, start in enumerate(starts)]
    places = _places(scheduled, draw)
    moved = [
        replace(
            slot,
            cycle=slot.cycle - scheduled.blocks[k].start + starts[k],
            place=None if slot.place is None else places[slot.bank][slot.place],
        )
        for k, own in enumerate(slots)
        for slot in own
    ]
    listed = (tuple(slot.instruction for slot in own) for own in slots)
    blocks = tuple(replace(block, listed=own) for block, own in zip(program.blocks, listed, strict=True))
    return _Schedule(
        core,
        replace(program, blocks=blocks),
        tuple(sorted(moved, key=lambda slot: (slot.cycle, slot.unit))),
        scheduled.arrivals,
        {source: places[core.shared][place] for source, place in scheduled.fixed.items()},
        tuple(1 + max(own.values(), default=0) for own in places),
        tuple(
            PlacedBlock(start, count, max(placed.period, count))
            for start, count, placed in zip(starts, words, scheduled.blocks, strict=True)
        ),
    )


def _balanced(slots: list[list[ScheduledInstruction]], shared: int) -> None:
    """Exchange the factors of products, so that both operands of a unit read each memory."""
    bank = {slot.instruction.result: slot.bank for own in slots for slot in own}
    reads = Counter[tuple[int, str, int]]()
    for own in slots:
        for k, slot in enumerate(own):
            each = slot.instruction
            if each.kind != SUM or each.select:
                continue
            a, b = (shared if source.node is None else bank.get(source.node, shared) for source in (each.a, each.b))
            if (
                reads[slot.unit, "b", a] + reads[slot.unit, "a", b]
                < reads[slot.unit, "a", a] + reads[slot.unit, "b", b]
            ):
                own[k] = replace(slot, instruction=replace(each, a=each.b, b=each.a))
                a, b = b, a
            reads.update([(slot.unit, "a", a), (slot.unit, "b", b)])


def _places(scheduled: ProgramSchedule, draw: random.Random) -> list[dict[int, int]]:
    """Return a random address for each address, by memory. Inputs stay together, behind the last constant."""
    core, room = scheduled.core, 1 << scheduled.core.place_bits
    places = [dict(zip(range(depth), draw.sample(range(room), depth), strict=True)) for depth in scheduled.depths]
    inputs = [place for source, place in scheduled.fixed.items() if source.node is not None]
    first, count = min(inputs) - 1, max(inputs) - min(inputs) + 2  # with the last constant
    base = room // 2 - count // 2  # all bits of the address change
    kept = {first + k: base + k for k in range(count)}
    others = [place for place in range(room) if not base <= place < base + count]
    rest = [place for place in range(scheduled.depths[core.shared]) if place not in kept]
    places[core.shared] = kept | dict(zip(rest, draw.sample(others, len(rest)), strict=True))
    return places


def _relocated(scheduled: ProgramSchedule) -> Words:
    """Return the messages that load a self-test to the last rows of the table of blocks, without unused words."""
    core = scheduled.core
    loading = messages(scheduled)
    used = {cycle for block in scheduled.blocks for cycle in range(block.start, block.start + block.words)}
    rows = []
    for head, value in loading[1:-1].tolist():
        region, place = head >> REGION_SHIFT & 15, head & ((1 << REGION_SHIFT) - 1)
        if region == MemoryRegion.PROGRAM and place >> core.lane_bits not in used:
            continue
        if region == MemoryRegion.BLOCKS:
            head += FIRST_BLOCK * len(BLOCK_LANES)
            is_control = place % len(BLOCK_LANES) == BLOCK_LANES.index("control")
            repeats = value >> sum(CONTROL[name] for name in ("target", "level", "until")) & 1
            value += FIRST_BLOCK if is_control and repeats else 0
        elif region in (MemoryRegion.INPUT_POINTS, MemoryRegion.OUTPUT_POINTS) and place < FIRST_POINT:
            head += FIRST_BLOCK
        rows.append((head, value))
    body = np.array(rows, np.uint32)
    end = np.array([[loading[-1, 0], checksum(body)]], np.uint32)
    return np.concatenate([loading[:1], body, end])
