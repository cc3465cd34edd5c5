"""Samples that a shell must report: TLAST cuts them short or is missing, bytes are missing, words follow the tag.

A shell drops such a sample or poisons its result and counts it in register `misaligned`. The others are unchanged.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np
from dynagate.design.codec import Words
from dynagate.design.design import AxiStreams
from dynagate.design.words import PER_SAMPLE, WORD
from dynagate.hw.vectors.wire import Flags, Ints, Sent, StreamModel, kept_bytes, with_keep

BROKEN_EVERY = 16
"""One of this many samples is broken."""
GARBAGE = 0xA5A5A5A5
"""Words of bytes that TKEEP omits."""


class SampleFault(Enum):
    """Fault of a sample on the stream."""

    CUT = "TLAST comes before its last beat"
    UNENDED = "TLAST is missing"
    HOLE = "TKEEP omits a byte of its numbers or its tag"
    FILLED = "a word behind the tag is not 0"


class Broken(NamedTuple):
    """Faults of the samples of a stream, in the order of the stream, (samples,)."""

    beats: Ints
    """Beats of each sample; fewer than usual if TLAST cuts it short."""
    unended: Flags
    """Samples whose TLAST is missing."""
    hole: Ints
    """The byte of each sample that is missing; -1 if the sample is complete."""
    filled: Ints
    """The word behind the tag that is not 0; -1 if they are 0."""
    dropped: Flags
    """Samples that the shell drops without a result."""

    @property
    def unusable(self) -> Flags:
        """Samples whose results are poisoned, with each bit of the tag inverted."""
        cut = self.beats < self.beats.max()
        return np.asarray((cut & ~self.dropped) | (self.hole >= 0) | (self.filled >= 0))

    @property
    def misaligned(self) -> int:
        """Count that register `misaligned` must show."""
        return int((self.unusable | self.dropped | self.unended).sum())


def kinds_of(axi: AxiStreams, functions: int) -> list[SampleFault]:
    """Return the faults that samples of a shell can have. functions: a sample of one of several functions is not cut,
    because the number of its function would be missing."""
    kinds = [SampleFault.HOLE]
    if axi.beats.input > 1 and (functions == 1 or axi.last == PER_SAMPLE):
        kinds.append(SampleFault.CUT)
    if axi.last == PER_SAMPLE:
        kinds.append(SampleFault.UNENDED)
    if axi.beats.input * axi.lanes > axi.words.input + 1:
        kinds.append(SampleFault.FILLED)
    return kinds


def drawn_faults(axi: AxiStreams, functions: int, count: int, sound: int, seed: int) -> Broken:
    """Return faults for the samples of a stream. sound: the number of samples at its beginning that have none."""
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
    """Return the samples as the shell has them, in the order of the stream. A sample that is cut short keeps the words
    of the sample before it in place of the missing ones, and only its own words can be unfit."""
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
    """Return the beats of all samples one after the other, each with TKEEP, (beats, words).

    Args:
        beats: Beats of whole samples, (samples, beats, words of a beat and one whose lowest bit is TLAST).
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
    return with_keep(beats, keep)[there]


def result_tags(axi: AxiStreams, tags: Ints, beats: Words, broken: Broken) -> Ints:
    """Return the tags of the results, (samples,). tags: those of the samples. beats: as of `input_beats`."""
    tags, place = tags.copy(), axi.words.input % axi.lanes
    for sample in np.flatnonzero(broken.unusable):
        tags[sample] = ~beats[sample, broken.beats[sample] - 1, place]
    return tags & 0xFFFFFFFF
