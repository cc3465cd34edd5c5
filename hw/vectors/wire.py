"""An independent model of AXI streams: samples and results in beats, computed without the hardware and the host
code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.design.codec import Words
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import DesignRecord, result_codec
from dynagate.design.ring import shell_design
from dynagate.design.words import FIXED, PER_SAMPLE, WORD
from dynagate.dynamics import CODE
from dynagate.fixedpoint.format import Integers
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.hw.units.floating import BINARY32, from_floating, to_floating

STRANGE = 40
"""One of this many samples has a NaN or an infinity on float streams."""

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Sent(NamedTuple):
    """Samples on a stream."""

    words: Words
    """Words of the samples without their tags, (samples, words)."""
    integers: dict[int, Integers]
    """Integers (samples,) of each number, by its index in a sample."""
    unfit: Flags
    """Numbers that are NaN or infinite, or that do not fit their format, (samples, numbers)."""

    @property
    def bad(self) -> Flags:
        """Samples with at least one unfit number, (samples,)."""
        return np.asarray(self.unfit.any(axis=1))


class StreamModel:
    """The streams of a design with a shell. `plain` lists the numbers of a sample that are no commands."""

    def __init__(self, design: DesignRecord[DatapathBody], formatted: FormattedGraph) -> None:
        assert design.axi is not None
        self.design, self.axi, self.formatted = design, design.axi, formatted
        self._codec = (shell_design(design) if design.body.ring else design).wire.input
        self.fields = [slot.format for slot in self._codec.slots]
        held = sum(len(port.nodes) for port in formatted.graph.inputs if port.name in design.axi.parameters)
        nodes = formatted.graph.input_nodes
        streamed = [port.name for port in formatted.graph.inputs for _ in port.nodes][: len(nodes) - held]
        self.plain = [k for k, name in enumerate(streamed) if name != CODE.name]  # numbers that are no commands

    def with_invalid_numbers(
        self, numbers: npt.NDArray[np.float64], seed: int
    ) -> tuple[npt.NDArray[np.float64], Flags]:
        """Replace a number of some samples by NaN or infinity, on float streams.

        Args:
            numbers: Samples, (samples, fields).
            seed: Seed of the draw.

        Returns:
            The samples, and which of them were changed.
        """
        if self.axi.word == FIXED:
            return numbers, np.zeros(len(numbers), np.bool_)
        return with_invalid_numbers(numbers, self.plain, seed)

    def sent(self, numbers: npt.NDArray[np.float64]) -> Sent:
        """Return samples with these numbers, (samples, fields)."""
        words = self._codec.zeros(len(numbers))
        with np.errstate(over="ignore"):
            self._codec.put(words, numbers)
        return self.entered(words)

    def entered(self, words: Words) -> Sent:
        """Return the samples whose words, (samples, words), are on the stream."""
        if self.axi.word == FIXED:
            integers = self._codec.integers(words)
            return Sent(words, dict(enumerate(integers.T)), np.zeros(integers.shape, np.bool_))
        bits = np.asarray(self._codec.bits(words, range(len(self.fields))), BINARY32.word)
        lanes, widths = self.axi.width // WORD, [fmt.width for fmt in self.fields]
        converted = [
            from_floating(np.ascontiguousarray(bits[:, k]), fmt, max(widths[k % lanes :: lanes]), BINARY32)
            for k, fmt in enumerate(self.fields)
        ]
        unfit = np.stack([each.overflow for each in converted], axis=1)
        return Sent(words, {k: c.value for k, c in enumerate(converted)}, unfit)

    def received(self, fields: Sequence[int], values: Mapping[int, Integers], unusable: Flags) -> Words:
        """Return the words of results, (results, words).

        Args:
            fields: Index of each number among the output fields.
            values: Integers by index of the output field.
            unusable: Results that are marked as unusable, (results,).
        """
        own = [self.design.output.fields[k] for k in fields]
        codec = result_codec(own, self.axi.word)
        words = codec.zeros(len(unusable))
        if self.axi.word == FIXED:
            codec.put_integers(words, np.stack([values[k] for k in fields], axis=1))
            codec.put_flags(words, -unusable.astype(np.int64))
            return words
        bits = np.stack(
            [to_floating(values[k], field.format, BINARY32) for k, field in zip(fields, own, strict=True)], axis=1
        )
        bits[unusable] = BINARY32.nan
        codec.put_bits(words, bits, range(len(own)))
        return words

    def beats(self, words: Words, tags: Ints, last: Flags, beats: int) -> Words:
        """Return words with their tags in beats: (rows, beats, words of a beat and one whose lowest bit is TLAST).

        Args:
            words: Words of each row, (rows, words).
            tags: Tag of each row.
            last: Rows that end a batch.
            beats: Beats of a row.
        """
        rows = np.zeros((len(words), beats * self.axi.lanes), np.uint32)
        rows[:, : words.shape[1]] = words
        rows[:, words.shape[1]] = tags
        each = np.zeros((len(words), beats, self.axi.lanes + 1), np.uint32)
        each[:, :, :-1] = rows.reshape(len(words), beats, self.axi.lanes)
        each[:, -1, -1] = 1 if self.axi.last == PER_SAMPLE else last
        return each


def insert_tkeep(beats: Words, keep: Flags) -> Words:
    """Insert TKEEP between the data and TLAST of beats.

    Args:
        beats: (..., words of a beat and one whose lowest bit is TLAST).
        keep: TKEEP, (..., bytes of a beat).

    Returns:
        (..., words): the bits of a beat in the order data, TKEEP, TLAST.
    """
    bits = np.concatenate([keep, beats[..., -1:] & 1 > 0], axis=-1)
    padding = [(0, 0)] * (bits.ndim - 1) + [(0, -bits.shape[-1] % WORD)]
    above = np.packbits(np.pad(bits, padding), axis=-1, bitorder="little").view("<u4")
    return np.concatenate([beats[..., :-1], above.astype(np.uint32)], axis=-1)


def kept_bytes(beats: int, width: int, needed: int, omits: Flags) -> Flags:
    """Return TKEEP of complete samples, (samples, beats, bytes of a beat).

    Args:
        beats: Beats of a sample.
        width: Bits of a beat.
        needed: Bytes of the last beat up to the end of the tag.
        omits: Samples, (samples,), that omit the bytes after their tag.
    """
    keep = np.ones((len(omits), beats, width // 8), np.bool_)
    keep[omits, -1, needed:] = False
    return keep


def with_invalid_numbers(
    numbers: npt.NDArray[np.float64], plain: Sequence[int], seed: int
) -> tuple[npt.NDArray[np.float64], Flags]:
    """Replace a number of some samples by NaN, an infinity or a value that is too large.

    Args:
        numbers: Samples, (samples, numbers).
        plain: Numbers of a sample that may be replaced.
        seed: Seed of the draw.

    Returns:
        The samples, and which of them were changed.
    """
    strange, random = np.zeros(len(numbers), np.bool_), np.random.default_rng(seed)
    numbers = numbers.copy()
    for k in range(STRANGE // 2, len(numbers), STRANGE):
        numbers[k, random.choice(plain)] = random.choice([np.nan, np.inf, -np.inf, 1e30])
        strange[k] = True
    return numbers, strange
