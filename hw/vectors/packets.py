"""Packets of a program's bench in order: the program in parts, samples, and interruptions.

The program is loaded before the first sample. While samples are under way, a damaged program follows, which the core
refuses, and a program for another core. Then come the self-test of the core with its samples, and the correct program
again. Now and then TLAST cuts a sample short, and some of these samples also lack a byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.design.codec import Codec, Words
from dynagate.design.design import DesignRecord, Stream
from dynagate.design.program import ProgramBody
from dynagate.design.words import FIXED, PER_SAMPLE, WORD
from dynagate.fixedpoint.format import Format, Integers, quantize
from dynagate.graph.packing import ZERO
from dynagate.hw.processor.compiler.self_test import results_of
from dynagate.hw.processor.isa.packets import checksum, packed_messages
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.streams import with_bench_streams
from dynagate.hw.units.floating import BINARY32, from_floating, to_floating
from dynagate.hw.vectors import operations
from dynagate.hw.vectors.drawn import SEED, Arrays, Flags, Ints, Vectors
from dynagate.hw.vectors.operations import Answered
from dynagate.hw.vectors.rounds import ALONE, NONE, ROUNDS
from dynagate.hw.vectors.self_tests import self_test_packets
from dynagate.hw.vectors.subject import SELF_TEST, Subject, subjects
from dynagate.hw.vectors.wire import insert_tkeep, kept_bytes

FEW = 5_000
"""Largest number of cycles for which samples keep a core busy in the rounds that every simulator runs."""
FEWEST = ROUNDS + 3
"""Smallest number of groups of samples in these rounds, even if they take longer."""
CUT_EVERY = 16
"""Number of groups of samples after which a sample is cut short."""
FOREIGN = 6
"""Number of times that a program for another core follows itself, while its answers wait."""
RELOADED, LOADS = 3, 4
"""Round in which the program is loaded again, and cycles that this takes per word of the program."""


class Packet(NamedTuple):
    """A packet on the stream with its expected answer."""

    end: int
    """End that the answer belongs to; NONE if no answer comes."""
    words: Words
    """All words except the tag."""
    answer: Words
    """All words of the answer except the tag."""
    flagged: bool = False
    """Whether a value overflows."""
    bad: bool = False
    """Whether a number is NaN or does not fit."""
    reference: npt.NDArray[np.float64] | None = None
    """Float64 outputs."""
    has_hole: bool = False
    """Whether TKEEP omits a byte of the last beat's first word."""


Group = list[Packet]
"""Samples that follow each other without an interruption other than a cut sample."""


# numbers in words


class Entered(NamedTuple):
    """Samples as a core receives them."""

    words: dict[str, Words]
    """Words on the stream, (samples, numbers) by port."""
    integers: dict[str, list[Integers]]
    """Integers (samples,) of each number, by port."""
    bad: Flags
    """Samples with a number that is NaN or does not fit, (samples,)."""


def entered(design: DesignRecord[ProgramBody], arrays: Arrays, formats: Mapping[str, Sequence[Format]]) -> Entered:
    """Return samples as a core receives them.

    Args:
        design: Record of the program.
        arrays: Values (samples, ...) by port.
        formats: Formats of a port's numbers, by port.
    """
    words, integers = {}, {}
    bad = np.zeros(len(next(iter(arrays.values()))), np.bool_)
    for name, array in arrays.items():
        rows = np.asarray(array, np.float64).reshape(len(bad), -1).T
        if design.body.stream_words == FIXED:
            integers[name] = [quantize(row, fmt).value for row, fmt in zip(rows, formats[name], strict=True)]
            words[name] = results(design, integers[name], formats[name])
            continue
        with np.errstate(over="ignore"):
            own = np.ascontiguousarray(rows.astype(BINARY32.number)).view(BINARY32.word)
        each = [from_floating(row, fmt, fmt.width, BINARY32) for row, fmt in zip(own, formats[name], strict=True)]
        bad |= np.any([one.overflow for one in each], axis=0)
        words[name], integers[name] = own.T, [one.value for one in each]
    return Entered(words, integers, bad)


def results(design: DesignRecord[ProgramBody], integers: Sequence[Integers], formats: Sequence[Format]) -> Words:
    """Return the bits of results, (samples, numbers), as integers or as float32."""
    if design.body.stream_words == FIXED:
        return np.stack(integers, axis=1).astype(np.int64).astype(np.uint32)
    return np.stack([to_floating(each, fmt, BINARY32) for each, fmt in zip(integers, formats, strict=True)], axis=1)


def put(words: Words, codec: Codec, stream: Stream, name: str, bits: Words) -> None:
    """Write the bits of a port's numbers into samples, (samples, words)."""
    (port,) = (port for port in stream.ports if port.name == name)
    there = [k for k, index in enumerate(port.fields) if index != ZERO]
    codec.put_bits(words, bits[:, there], [port.fields[k] for k in there])


def streamed_vectors(
    design: DesignRecord[ProgramBody], loading: Words, groups: list[Group], few: int, seed: int = SEED
) -> Vectors:
    """Return the vectors of groups of samples, with the packets that load the program before and between them.

    Args:
        design: Record with its shell.
        loading: Messages that load the program, (messages, 2).
        groups: Groups of samples.
        few: Approximate number of samples in the rounds that every simulator runs.
        seed: Seed of the draw.
    """
    (subject,) = subjects(with_bench_streams(design), [])
    streamed, bounds = _streamed(subject, loading, groups, few)
    return _vectors(design, subject, streamed, bounds, int(loading[-1, 1]), seed)


# packets in their order


def _parts(end: int, loading: Words, answer: int) -> Group:
    """Return the packets that load a program. answer: answer to the last packet; earlier ones are answered 0."""
    rows = packed_messages(loading)
    return [Packet(end, row, np.array([answer * (k == len(rows) - 1)], np.uint32)) for k, row in enumerate(rows)]


def _reloaded(subject: Subject, loading: Words) -> Group:
    """Return a damaged program, one for another core with a correct checksum, which is also cut short at each beat, the
    self-test of the core with its samples, and the program again.
    """
    end = len(subject.names) - 1
    damaged, foreign = loading.copy(), loading[[0, -1]]
    damaged[len(loading) // 2, 1] ^= 1
    foreign[0, 1] ^= 1
    foreign[1, 1] = checksum(loading[:0])
    tests = list[Packet]()
    if SELF_TEST in subject.names:
        packets = self_test_packets(Core(**subject.design.body.core))
        own = subject.names.index(SELF_TEST)
        tests = _parts(end, packets.loading, 1) + [Packet(own, *sample) for sample in packets.samples]
    (other,) = _parts(end, foreign, 0)
    lanes = subject.in_bits // WORD
    cuts = [
        Packet(NONE, other.words[: beats * lanes], other.answer[:0], has_hole=has_hole)
        for beats in range(1, min(subject.silent_beats, (len(other.words) - 1) // lanes) + 1)
        for has_hole in (False, True)
    ]
    return [*_parts(end, damaged, 0), *cuts, *[other] * FOREIGN, *tests, *_parts(end, loading, 1)]


def _streamed(subject: Subject, loading: Words, groups: list[Group], few: int) -> tuple[list[Packet], Ints]:
    """Return all packets in order, and their number until the end of each round.

    few: approximate number of samples in the first ROUNDS rounds.
    """
    parts, cut = len(subject.names) - 1, subject.silent_beats
    axi = subject.design.axi
    assert axi is not None
    streamed = _parts(parts, loading, 1)
    sizes = np.cumsum([len(group) for group in groups])
    first = min(max(int(np.searchsorted(sizes, few)) + 1, FEWEST), len(groups))
    first = len(groups) if len(groups) - first < ROUNDS else first
    alone = min(ALONE, first // 8)
    ends = np.linspace(alone, first, ROUNDS).round().astype(int)[1:]
    if first < len(groups):
        ends = np.append(ends, np.linspace(first, len(groups), ROUNDS).round().astype(int)[1:])
    is_short = loading.size * LOADS < FEW and SELF_TEST not in subject.names
    round_of_it = RELOADED if is_short or first == len(groups) else ROUNDS - 1 + RELOADED
    reload = (ends[round_of_it - 1] + ends[round_of_it]) // 2
    bounds = []
    for k, group in enumerate(groups):
        if k == reload:
            streamed += _reloaded(subject, loading)
        for place, packet in enumerate(group):
            if cut and k > alone and k % CUT_EVERY == 0 and place == len(group) - 1:
                has_hole = k // CUT_EVERY % 2 == 1
                streamed.append(Packet(NONE, packet.words[: cut * axi.lanes], packet.answer[:0], has_hole=has_hole))
            streamed.append(packet)
        if k + 1 == alone or k + 1 in ends:
            bounds.append(len(streamed))
    return streamed, np.array(bounds, np.int64)


def _vectors(
    design: DesignRecord[ProgramBody], subject: Subject, streamed: list[Packet], bounds: Ints, crc: int, seed: int
) -> Vectors:
    """Return the vectors of packets."""
    axi, shell = subject.design.axi, design.body.shell
    assert axi is not None
    assert shell is not None
    tags = np.random.default_rng(seed).integers(1 << 32, size=len(streamed)).astype(np.uint32)
    last = np.isin(np.arange(len(streamed)), bounds - 1) | (axi.last == PER_SAMPLE)
    expected, inputs = [], []
    for k, packet in enumerate(streamed):
        is_cut = packet.end == NONE
        words = packet.words if is_cut else np.append(packet.words, tags[k])
        omits = np.array([k % 2 == 1 and not is_cut])
        beats = _beats(words, axi.lanes, is_cut or bool(last[k]))
        needed = WORD // 8 * ((len(words) - 1) % axi.lanes + 1)
        keep = kept_bytes(len(beats), axi.width, needed, omits)[0]
        keep[-1, 0] &= not packet.has_hole
        inputs.append(insert_tkeep(beats, keep))
        kept = np.zeros((subject.stored_beats[packet.end if not is_cut else -1], axi.lanes + 1), np.uint32)
        if not is_cut:
            answer = _beats(np.append(packet.answer, tags[k]), axi.lanes, bool(last[k]))
            kept[: len(answer)] = answer
        expected.append(kept)
    counted = []
    for stop in sorted({ROUNDS, len(bounds)}):
        after = streamed[bounds[0] : bounds[stop - 1]]
        samples = [each for each in after if each.end < len(subject.names) - 1]
        flagged, bad = (np.array([getattr(each, of) for each in samples], np.bool_) for of in ("flagged", "bad"))
        holes = any(each.has_hole for each in after)
        counted.append(Answered(stop, flagged, bad, sum(each.end == NONE for each in after), holes))
    return Vectors(
        np.concatenate(inputs),
        np.concatenate(expected),
        np.array([each.end for each in streamed], np.int64),
        _masks(design, subject),
        [each.reference for each in streamed],
        bounds,
        operations.processor_accesses(subject.design, shell.cores, crc, counted),
    )


def _beats(words: Words, lanes: int, last: bool) -> Words:
    """Return a packet in beats, (beats, words of a beat and one whose lowest bit is TLAST)."""
    padded = np.concatenate([words, np.zeros(-len(words) % lanes, np.uint32)]).reshape(-1, lanes)
    ends = np.zeros((len(padded), 1), np.uint32)
    ends[-1] = last
    return np.concatenate([padded, ends], axis=1)


def _masks(design: DesignRecord[ProgramBody], subject: Subject) -> Words:
    """Return masks with ones at the result bits of each function; shorter results end with undefined words."""
    axi = subject.design.axi
    assert axi is not None
    masks = np.zeros((len(subject.names), subject.longest_result, axi.lanes + 1), np.uint32)
    own = [design.of_function(function) for function in design.functions] or [design]
    if SELF_TEST in subject.names:  # only words of the last beat behind the tag are undefined
        k = subject.names.index(SELF_TEST)
        words = np.zeros((1, subject.out_beats[k] * axi.lanes), np.uint32)
        words[:, : results_of(Core(**design.body.core)) + 1] = 0xFFFFFFFF
        masks[k, : subject.out_beats[k], :-1] = words.reshape(-1, axi.lanes)
    for k, each in enumerate(own):
        codec, loop = each.wire.output, design.body.loop
        words = np.zeros((1, axi.beats.output * axi.lanes), np.uint32)
        ones = np.full((1, len(each.output.fields)), -1)
        for iteration in range(1 if loop is None else loop.steps):
            moved = codec if loop is None else codec.moved([iteration * stride for stride in loop.outputs])
            moved.put_bits(words, ones, range(ones.size))
        words[:, codec.words - 1 :] = 0xFFFFFFFF  # the flag and the tag
        masks[k, : axi.beats.output, :-1] = words.reshape(-1, axi.lanes)
    masks[-1, : subject.out_beats[-1], :-1] = 0xFFFFFFFF
    masks[:, :, -1] = 1
    return masks
