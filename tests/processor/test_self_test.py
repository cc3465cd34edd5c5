"""The self-test of a core reaches every part of it."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from dynagate.fixedpoint.table_use import table_of
from dynagate.hw.processor.compiler import self_test as tests
from dynagate.hw.processor.compiler.check import check
from dynagate.hw.processor.compiler.self_test import has_self_test, self_test
from dynagate.hw.processor.compiler.words import program_words
from dynagate.hw.processor.isa.packets import KIND_SHIFT, REGION_SHIFT, MemoryRegion, checksum, unpack_fields
from dynagate.hw.processor.isa.shape import OPERANDS, Core
from dynagate.hw.vectors import self_tests

CORES = {
    "two units": Core(units=2),
    "eight units": Core(units=8, word=26),
    "all functions": Core(units=3, word=18, saturates=1, exp_bits=4, exp_whole=3, noise=1, iteration_bits=8),
    "float32": Core(word=32, floats=1),
}


@pytest.mark.parametrize("name", CORES)
def test_instructions_use_every_memory_shift_and_sign(name: str) -> None:
    core = CORES[name]
    assert has_self_test(core)
    test = self_test(core)
    check(test.schedule)
    reads, fields = Counter[tuple[int, str, int]](), Counter[tuple[str, int, int]]()
    kinds = {slot.instruction.kind for slot in test.schedule.slots}
    for word, unit in itertools.product(program_words(test.schedule), range(core.units)):
        own = unpack_fields(word >> (unit * core.unit_bits), core.unit_fields)
        if not own["write"] and not own["out"]:
            continue
        reads.update((unit, operand, own[operand] >> core.place_bits) for operand in OPERANDS)
        shifts = [(name, bit, own[name] >> bit & 1) for name in ("up", "down") for bit in range(5)]
        signs = [(name, unit, own[name]) for name in ("product_negative", "addend_negative", "select")]
        fields.update([*shifts, *signs])
    assert set(reads) == set(itertools.product(range(core.units), OPERANDS, range(core.units + 1)))
    assert len(fields) == 2 * 5 * 2 + 3 * core.units * 2
    expected = {"multiply_add", "sin", "cos", "sqrt", "normalized_reciprocal"}
    assert kinds == expected | ({"exp", "noise", "load", "store"} if name == "all functions" else set())


@pytest.mark.parametrize("name", CORES)
def test_addresses_change_in_every_bit(name: str) -> None:
    core = CORES[name]
    test = self_test(core)
    for bank in range(core.units + 1):
        places = [slot.place for slot in test.schedule.slots if slot.bank == bank and slot.place is not None]
        for bit in range(core.place_bits):
            assert {place >> bit & 1 for place in places} == {0, 1}
    heads = [head for head, _ in test.loading[1:-1].tolist() if head >> REGION_SHIFT & 15 == MemoryRegion.PROGRAM]
    words = {(head & ((1 << REGION_SHIFT) - 1)) >> core.lane_bits for head in heads}
    assert all({word >> bit & 1 for word in words} == {0, 1} for bit in range(core.program_bits))
    assert test.loading[-1, 1] == checksum(test.loading[1:-1])
    assert test.loading[0, 0] >> KIND_SHIFT == 1


def test_a_sample_overflows_in_one_step_and_its_flag_names_it() -> None:
    core, draw = CORES["all functions"], np.random.default_rng(1)
    steps = self_tests.mixed_inputs(core, draw)
    samples = list(self_tests.samples_of_function(self_test(core), tests.MIXED, steps))
    extremes = 2 * len(tests.PROBED) + 3
    assert [sample.flagged for sample in samples] == [True] * extremes + [False] * self_tests.PLAIN
    assert [int(each.answer[-1]) for each in samples[:extremes]] == [1 | k % 4 << 1 for k in range(extremes)]


def test_the_sweep_reads_every_entry_of_a_table() -> None:
    core = CORES["two units"]
    test = self_test(core)
    slots = [slot.instruction for slot in test.schedule.slots_of(tests.MIXED_BLOCKS + tests.NESTED_BLOCKS + 1)]
    stride = (1 << core.word - 2) // tests.SWEEP
    steps = tests.UNROLLED * stride
    (x,) = (each.result for each in slots if steps in [s.integer for s in each.sources if s.node is None])
    offsets = [each.c.integer for each in slots if any(s.node == x and not s.previous for s in each.sources)]
    assert len(offsets) == tests.UNROLLED
    iterations = np.arange(tests.SWEEP // tests.UNROLLED)[:, None]
    operands = ((1 << core.word - 2) + iterations * tests.UNROLLED * stride + np.array(offsets)).ravel()
    whole = self_test(core).schedule.core
    for kind, source, to in (("sin", whole.angle, whole.sine),):
        table = table_of(kind, source, to)
        assert table is not None
        assert len(np.unique(table.address(operands))) == table.size
    assert len(np.unique((operands - (1 << core.word - 2)) // stride)) == tests.SWEEP


def test_operands_of_reciprocals_show_the_bits_of_their_table() -> None:
    core, draw = CORES["two units"], np.random.default_rng(1)
    operands = self_tests.reciprocal_operands(core, draw)
    table = table_of(tests.RECIPROCAL, *tests.reciprocal_formats(core))
    assert table is not None

    def shown(x: Any) -> float:
        bits = np.zeros((table.size, table.widths[0]), bool)
        np.logical_or.at(bits, table.address(x), table.visible(x))
        return float(bits.mean())

    drawn = draw.integers(operands.min(), operands.max(), 2 * len(operands))
    assert len(operands) < 1.5 * table.size
    assert shown(operands) > 0.99 > 0.9 > shown(drawn)


@pytest.mark.parametrize("name", CORES)
def test_values_overflow_at_the_end_of_a_step(name: str) -> None:
    test = self_test(CORES[name])
    (block,) = test.schedule.blocks[: tests.MIXED_BLOCKS]
    late = [tests.NAMES.index(f"late{k}") for k in range(tests.LATE)]
    slots = list(test.schedule.slots_of(0))
    halves = {each.instruction.result for each in slots if any(s.node in late for s in each.instruction.sources)}
    ends = [each for each in slots if any(s.node in halves for s in each.instruction.sources)]
    assert len(ends) == 2 * tests.LATE
    assert {each.unit for each in ends} == set(range(CORES[name].units))
    assert all(block.words - 16 <= each.cycle < block.words for each in ends)


def test_small_cores_have_no_self_test() -> None:
    assert not has_self_test(Core(program_bits=9))
    assert not has_self_test(Core(place_bits=8))
