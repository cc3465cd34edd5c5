"""Broken samples for the bench of a shell: TLAST too early or missing, missing bytes, words after the tag.

A shell drops such a sample or marks its result as unusable, and counts it in the register `misaligned`. Other samples
are unchanged.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np
from dynagate.design.codec import Words
from dynagate.design.design import AxiStreams
from dynagate.design.words import PER_SAMPLE, WORD
from dynagate.hw.vectors.wire import Flags, Ints, Sent, StreamModel, insert_tkeep, kept_bytes

BROKEN_EVERY = 16
"""One of this many samples is broken."""
GARBAGE = 0xA5A5A5A5
"""Content of bytes that TKEEP omits."""


class SampleFault(Enum):
    """How a sample on the stream is broken."""

    CUT = "TLAST comes before its last beat"
    UNENDED = "TLAST is missing"
    HOLE = "TKEEP omits a byte of its numbers or its tag"
    FILLED = "a word behind the tag is not 0"


class Broken(NamedTuple):
    """Which samples of a stream are broken, and how: arrays (samples,) in the order of the stream."""

    beats: Ints
    """Beats of each sample; fewer than usual if TLAST cuts it short."""
    unended: Flags
    """Samples whose TLAST is missing."""
    hole: Ints
    """The byte of each sample that is missing; -1 if the sample is complete."""
    filled: Ints
    """Word after the tag that is not 0; -1 if all are 0."""
    dropped: Flags
    """Samples that the shell drops without a result."""

    @property
    def unusable(self) -> Flags:
        """Return the samples whose results are marked as unusable, with each bit of the tag inverted."""
        cut = self.beats < self.beats.max()
        return np.asarray((cut & ~self.dropped) | (self.hole >= 0) | (self.filled >= 0))

    @property
    def misaligned(self) -> int:
        """Return the count that the register `misaligned` must show."""
        return int((self.unusable | self.dropped | self.unended).sum())


def kinds_of(axi: AxiStreams, functions: int) -> list[SampleFault]:
    """Return the ways in which samples of a shell can be broken.

    Args:
        axi: Streams of the shell.
        functions: Number of functions. A sample of one of several functions is not cut: its function would be unknown.
    """
    kinds = [SampleFault.HOLE]
    if axi.beats.input > 1 and (functions == 1 or axi.last == PER_SAMPLE):
        kinds.append(SampleFault.CUT)
    if axi.last == PER_SAMPLE:
        kinds.append(SampleFault.UNENDED)
    if axi.beats.input * axi.lanes > axi.words.input + 1:
        kinds.append(SampleFault.FILLED)
    return kinds


def drawn_faults(axi: AxiStreams, functions: int, count: int, sound: int, seed: int) -> Broken:
    """Draw broken samples.

    Args:
        axi: Streams of the shell.
        functions: Number of functions.
        count: Number of samples.
        sound: Number of unbroken samples at the beginning.
        seed: Seed of the draw.
    """
    random, kinds = np.random.default_rng(seed), kinds_of(axi, functions)
    broken = Broken(
        np.full(count, axi.beats.input),
        np.zeros(count, np.bool_),
        np.full(count, -1),
        np.full(count, -1),
        np.zeros(count, np.bool_),
    )
    for k, sample in enumerate(range(sound + BROKEN_EVERY // 2, count, BROKEN_EVERY)):
        match kinds[k % len(kinds)]:
            case SampleFault.CUT:
                broken.beats[sample] = random.integers(1, axi.beats.input)
                broken.dropped[sample] = axi.last == PER_SAMPLE
            case SampleFault.UNENDED:
                broken.unended[sample] = True
            case SampleFault.HOLE:
                broken.hole[sample] = random.integers(WORD // 8 * (axi.words.input + 1))
            case SampleFault.FILLED:
                broken.filled[sample] = random.integers(axi.words.input + 1, axi.beats.input * axi.lanes)
    return broken


def as_entered(wire: StreamModel, sent: Sent, broken: Broken) -> Sent:
    """Return the samples as the shell receives them, in the order of the stream.

    A sample that is cut short keeps words of the sample before it in place of the missing ones. Only its own words can
    be unfit.
    """
    words, lanes = sent.words.copy(), wire.axi.lanes
    cut = np.flatnonzero(broken.beats < wire.axi.beats.input)
    for sample in cut:
        own = int(broken.beats[sample]) * lanes
        words[sample, own:] = words[sample - 1, own:]
    entered = wire.entered(words)
    for sample in cut:
        entered.unfit[sample, broken.beats[sample] * lanes :] = False
    return entered


def input_beats(axi: AxiStreams, beats: Words, broken: Broken) -> Words:
    """Return the beats of all samples in sequence, each with TKEEP: (beats, words).

    Args:
        axi: Streams of the shell.
        beats: Beats of complete samples, (samples, beats, words of a beat and one whose lowest bit is TLAST).
        broken: Broken samples.
    """
    count, size, lanes = len(beats), axi.beats.input, axi.lanes
    beats, rows = beats.copy(), np.arange(count)
    odd = (rows % 2 == 1) & (broken.filled < 0)
    keep = kept_bytes(size, axi.width, WORD // 8 * (axi.words.input % lanes + 1), odd)
    beats[odd, -1, axi.words.input % lanes + 1 : -1] = GARBAGE
    filled, holes = broken.filled >= 0, broken.hole >= 0
    beats[rows[filled], broken.filled[filled] // lanes, broken.filled[filled] % lanes] = GARBAGE
    keep[rows[holes], broken.hole[holes] * 8 // axi.width, broken.hole[holes] % (axi.width // 8)] = False
    beats[broken.unended, -1, -1] = 0
    cut = np.flatnonzero(broken.beats < size)
    beats[cut, broken.beats[cut] - 1, -1] = 1
    there = np.arange(size) < broken.beats[:, None]
    return insert_tkeep(beats, keep)[there]


def result_tags(axi: AxiStreams, tags: Ints, beats: Words, broken: Broken) -> Ints:
    """Return the tags of the results, (samples,).

    Args:
        axi: Streams of the shell.
        tags: Tags of the samples.
        beats: Beats of complete samples, as in `input_beats`.
        broken: Broken samples.
    """
    tags, place = tags.copy(), axi.words.input % axi.lanes
    for sample in np.flatnonzero(broken.unusable):
        tags[sample] = ~beats[sample, broken.beats[sample] - 1, place]
    return tags & 0xFFFFFFFF
