"""Samples and results as they lie in the beats of AXI streams, worked out without the hardware and without the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.design.codec import Words
from dynagate.design.datapath import DatapathBody
from dynagate.design.design import Design, result_codec
from dynagate.design.ring import shell_design
from dynagate.design.words import FIXED, PER_SAMPLE, WORD
from dynagate.dynamics import CODE
from dynagate.fixedpoint.format import Integers, quantize
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.hw.units.floating import BINARY32, from_floating, to_floating

STRANGE = 40
"""One sample out of this many has a NaN or an infinity on AXI streams of floats."""

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Sent(NamedTuple):
    """words: (samples, words) on the stream. integers: by the place of the number among those of a sample. bad: which
    samples, (samples,), have a number that is none, or that does not fit."""

    words: Words
    integers: dict[int, Integers]
    bad: Flags


class StreamModel:
    """The streams of a design with a shell. fields: formats of a sample's numbers, a turn's command among them."""

    def __init__(self, design: Design[DatapathBody], formatted: FormattedGraph) -> None:
        assert design.axi is not None
        self.design, self.axi, self.formatted = design, design.axi, formatted
        self._codec = (shell_design(design) if design.body.ring else design).wire.input
        self.fields = [slot.format for slot in self._codec.slots]
        held = sum(len(port.nodes) for port in formatted.graph.inputs if port.name in design.axi.parameters)
        nodes = formatted.graph.input_nodes
        streamed = [port.name for port in formatted.graph.inputs for _ in port.nodes][: len(nodes) - held]
        self.plain = [k for k, name in enumerate(streamed) if name != CODE.name]  # numbers that are no commands

    def with_strange(self, numbers: npt.NDArray[np.float64], seed: int) -> tuple[npt.NDArray[np.float64], Flags]:
        """Samples, (samples, fields), one in STRANGE of which has a number that is none where streams carry floats, and
        which ones they are."""
        if self.axi.word == FIXED:
            return numbers, np.zeros(len(numbers), np.bool_)
        return with_strange(numbers, self.plain, seed)

    def sent(self, numbers: npt.NDArray[np.float64]) -> Sent:
        """Samples of these numbers, (samples, fields)."""
        words = self._codec.zeros(len(numbers))
        if self.axi.word == FIXED:
            integers = {k: quantize(numbers[:, k], fmt).value for k, fmt in enumerate(self.fields)}
            self._codec.put_integers(words, np.stack([*integers.values()], axis=1))
            return Sent(words, integers, np.zeros(len(numbers), np.bool_))
        with np.errstate(over="ignore"):
            bits = numbers.astype(BINARY32.number).view(BINARY32.word)
        lanes, widths = self.axi.width // WORD, [fmt.width for fmt in self.fields]
        converted = [
            from_floating(np.ascontiguousarray(bits[:, k]), fmt, max(widths[k % lanes :: lanes]), BINARY32)
            for k, fmt in enumerate(self.fields)
        ]
        bad = np.any([each.overflow for each in converted], axis=0)
        self._codec.put_bits(words, bits, range(len(self.fields)))
        return Sent(words, {k: c.value for k, c in enumerate(converted)}, bad)

    def received(self, fields: Sequence[int], values: Mapping[int, Integers], unusable: Flags) -> Words:
        """The words of results, (results, words). fields: places of their numbers among the output fields. values: by
        place. unusable: which results, (results,), are flagged."""
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
        """Rows of words with their tags in beats, (rows, beats, words of a beat and one whose lowest bit is TLAST).
        last: which rows a batch ends with. beats: that a row takes."""
        rows = np.zeros((len(words), beats * self.axi.lanes), np.uint32)
        rows[:, : words.shape[1]] = words
        rows[:, words.shape[1]] = tags
        each = np.zeros((len(words), beats, self.axi.lanes + 1), np.uint32)
        each[:, :, :-1] = rows.reshape(len(words), beats, self.axi.lanes)
        each[:, -1, -1] = 1 if self.axi.last == PER_SAMPLE else last
        return each


def with_strange(
    numbers: npt.NDArray[np.float64], plain: Sequence[int], seed: int
) -> tuple[npt.NDArray[np.float64], Flags]:
    """Samples, (samples, numbers), one in STRANGE of which has a number that is none, and which ones they are. plain:
    the numbers that may become one."""
    strange, random = np.zeros(len(numbers), np.bool_), np.random.default_rng(seed)
    numbers = numbers.copy()
    for k in range(STRANGE // 2, len(numbers), STRANGE):
        numbers[k, random.choice(plain)] = random.choice([np.nan, np.inf, -np.inf, 1e30])
        strange[k] = True
    return numbers, strange
