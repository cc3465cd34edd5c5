"""Packets that load the self-test of a core, and its samples with the answers of the replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.design.codec import Words
from dynagate.design.source import source_digest
from dynagate.fixedpoint.format import Format, Integers
from dynagate.fixedpoint.table_use import table_of
from dynagate.hw.processor.checker.replay import replay
from dynagate.hw.processor.compiler.self_test import (
    COUNTER,
    INVERTED,
    MIXED,
    NAMES,
    NESTED,
    PER_STEP,
    PROBED,
    RARE,
    RECIPROCAL,
    STEPS,
    SWEPT,
    SelfTest,
    has_reciprocals,
    reciprocal_formats,
    self_test,
)
from dynagate.hw.processor.compiler.words import input_formats, output_formats
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.streams import CoreError
from dynagate.hw.units.floating import BINARY32, from_floating, to_floating
from dynagate.native.cache import cache_folder, kept

PLAIN = 4
"""Samples of random instructions in which no value overflows by design."""
COUNTERS = ((0, 1, 2, 3), (3, 0, 1, 9))
"""Iterations, by step, of the loop that ends by a test. A loop has at least one, and at most three."""
SEED = 1
"""Seed of the operands."""
CANDIDATES = 1 << 20
"""Number of operands of reciprocals that are tried."""
_FILE = "samples.npz"

Inputs = dict[int, Integers]
"""Integers (samples,) of the inputs of a step, by number."""


class TestSample(NamedTuple):
    """A sample of a self-test."""

    words: Words
    """Head and inputs."""
    answer: Words
    """Results and the flag."""
    flagged: bool
    """Whether a value overflows."""
    bad: bool
    """Whether a number is NaN or does not fit."""


class SelfTestPackets(NamedTuple):
    """Messages that load a self-test, and its samples."""

    loading: Words
    samples: Sequence[TestSample]


@lru_cache(maxsize=2)
def self_test_packets(core: Core) -> SelfTestPackets:
    """Return the packets of a core's self-test, from the cache if they are there.

    Raises:
        CoreError: The cache cannot be written.
    """

    def make(work: Path, result: Path) -> None:
        test = self_test(core)
        samples = list(_samples(test))
        columns = {name: np.array([getattr(each, name) for each in samples]) for name in TestSample._fields}
        np.savez(result / _FILE, allow_pickle=False, loading=test.loading, **columns)

    folder = kept(cache_folder() / f"self-test-{core.hash[:16]}-{source_digest()}", make, CoreError)
    with np.load(folder / _FILE, allow_pickle=False) as content:
        rows = zip(*(content[name] for name in TestSample._fields), strict=True)
        samples = [TestSample(words, answer, bool(flagged), bool(bad)) for words, answer, flagged, bad in rows]
        return SelfTestPackets(content["loading"], samples)


def _samples(test: SelfTest) -> Iterator[TestSample]:
    """Yield the samples of all functions, in random order."""
    draw = np.random.default_rng(SEED)
    core = test.schedule.core
    drawn = [(MIXED, mixed_inputs), (NESTED, _nested), (SWEPT, _plain)]
    drawn += [(INVERTED, _inverted)] if has_reciprocals(core) else []
    of_functions = [samples_of_function(test, function, inputs(core, draw)) for function, inputs in drawn]
    samples = [sample for own in of_functions for sample in own]
    return (samples[k] for k in draw.permutation(len(samples)))


def _plain(core: Core, draw: np.random.Generator, count: int = 1) -> list[Inputs]:
    """Return random inputs of each step for which no value overflows."""
    most = 1 << (core.word - 1)
    shared = {k: draw.integers(-most, most, count) for k in range(1, len(NAMES)) if k not in PER_STEP}
    steps = []
    for _ in range(STEPS):
        own = {k: draw.integers(1 - most // 2, most // 2, count) for k in PER_STEP}
        own[NAMES.index(RARE)] = draw.integers(most // 2, most, count)
        own[NAMES.index(COUNTER)] = np.zeros(count, np.int64)
        steps.append({k: _rounded(core, x) for k, x in {**shared, **own}.items()})
    return steps


def _rounded(core: Core, values: Integers) -> Integers:
    """Return integers that the streams of a core carry exactly: a float32 has 24 bits."""
    return values & -(1 << max(core.word - 24, 0)) if core.floats else values


def mixed_inputs(core: Core, draw: np.random.Generator) -> list[Inputs]:
    """Return inputs of which each sample overflows in one instruction and one step, besides `PLAIN` ones."""
    most = (1 << (core.word - 1)) - (1 << max(core.word - 24, 0))
    extremes = [(NAMES.index(name), sign * most) for name in PROBED for sign in (1, -1)]
    extremes += [(NAMES.index(RARE), 1), (NAMES.index(RARE), -most // 2), (NAMES.index(COUNTER), -1)]
    steps = _plain(core, draw, len(extremes) + PLAIN)
    for k, (node, value) in enumerate(extremes):
        steps[k % STEPS][node][k] = value
    return steps


def _nested(core: Core, draw: np.random.Generator) -> list[Inputs]:
    """Return inputs for which the loop that ends by a test has different numbers of iterations."""
    steps = _plain(core, draw, len(COUNTERS))
    for k, step in enumerate(steps):
        step[NAMES.index(COUNTER)] = np.array([row[k] for row in COUNTERS])
    return steps


def _inverted(core: Core, draw: np.random.Generator) -> list[Inputs]:
    """Return inputs for which each bit of the table of reciprocals changes a result, if an operand among many does."""
    operands = reciprocal_operands(core, draw)
    per_sample = STEPS * len(PER_STEP)
    count = -(-len(operands) // per_sample)
    rows = np.resize(operands, (STEPS, len(PER_STEP), count))
    return [
        {**plain, **dict(zip(PER_STEP, own, strict=True))}
        for plain, own in zip(_plain(core, draw, count), rows, strict=True)
    ]


def reciprocal_operands(core: Core, draw: np.random.Generator) -> Integers:
    """Return operands for which the bits of the table of reciprocals change the result, most bits of an entry first."""
    table = table_of(RECIPROCAL, *reciprocal_formats(core))
    assert table is not None
    operands = _rounded(core, draw.integers(1 << core.word - 2, 1 << core.word - 1, CANDIDATES))
    visible, entries = table.visible(operands), table.address(operands)
    missing = np.ones((table.size, visible.shape[1]), np.bool_)
    chosen = list[Integers]()
    while True:
        gains = np.sum(visible & missing[entries], axis=1)
        order = np.lexsort((gains, entries))
        best = order[np.append(np.diff(entries[order]) > 0, True)]
        best = best[gains[best] > 0]
        if not best.size:
            return np.concatenate(chosen)
        missing[entries[best]] &= ~visible[best]
        chosen.append(operands[best])


def samples_of_function(test: SelfTest, function: int, steps: Sequence[Inputs]) -> Iterator[TestSample]:
    """Yield the samples of a function with their answers."""
    scheduled = test.schedule
    count = len(steps[0][1])
    entry = scheduled.instructions.entries[function]
    columns = [np.ones(count, np.int64), *(steps[0][k] for k in range(1, len(NAMES)) if k not in PER_STEP)]
    columns += [step[k] for step in steps for k in PER_STEP]
    words, columns, bad = _entered(scheduled.core, columns, input_formats(scheduled)[entry])
    shared = len(NAMES) - len(PER_STEP)
    memory: dict[tuple[int, int], Integers] = {}
    done = []
    for k in range(STEPS):
        own = columns[shared + k * len(PER_STEP) :]
        inputs = dict(enumerate([*columns[:shared], *own[: len(PER_STEP)]]))
        done.append(replay(scheduled, inputs, memory, function))
    overflow = np.stack([each.overflow for each in done], axis=1)
    results = [value for unit in range(scheduled.core.units) for each in done for value in each.results[unit]]
    answer = _answered(scheduled.core, results, output_formats(scheduled)[entry])
    flagged: npt.NDArray[np.bool_] = np.any(overflow, axis=1, keepdims=False)
    first = np.where(flagged & ~bad, np.argmax(overflow, axis=1), 0)
    flag = ((flagged | bad) | first << 1).astype(np.uint32)
    head = np.full((count, 1), test.entry(function), np.uint32)
    words, answer = np.concatenate([head, words], axis=1), np.concatenate([answer, flag[:, None]], axis=1)
    return (TestSample(words[k], answer[k], bool(flagged[k]), bool(bad[k])) for k in range(count))


def _entered(
    core: Core, columns: Sequence[Integers], formats: Sequence[Format]
) -> tuple[Words, list[Integers], npt.NDArray[np.bool_]]:
    """Return words (samples, inputs), the integers that the core makes of them, and which samples are bad."""
    bad = np.zeros(len(columns[0]), np.bool_)
    if not core.floats:
        return _bits(columns), list(columns), bad
    words = np.stack([to_floating(x, fmt, BINARY32) for x, fmt in zip(columns, formats, strict=True)], axis=1)
    each = [from_floating(row, fmt, fmt.width, BINARY32) for row, fmt in zip(words.T, formats, strict=True)]
    return words, [one.value for one in each], np.any([one.overflow for one in each], axis=0)


def _answered(core: Core, results: Sequence[Integers], formats: Sequence[Format]) -> Words:
    """Return the words of results, (samples, results)."""
    if not core.floats:
        return _bits(results)
    return np.stack([to_floating(x, fmt, BINARY32) for x, fmt in zip(results, formats, strict=True)], axis=1)


def _bits(columns: Sequence[Integers]) -> Words:
    """Return integers (samples,) as words (samples, columns)."""
    return np.stack([np.asarray(x).astype(np.int64) for x in columns], axis=1).astype(np.uint32)
