"""AXI4-Stream of float32 words on one side, payloads of the datapath on the other.

A sample begins with a beat of its own: word k is in beat k // lanes, lane k % lanes. The word after the last float32 is
the sample's tag, which is not converted and comes back with the result; what is left of the last beat is 0. Each lane
has one converter, and both pipelines run free: credit says whether what comes out will find room.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.format import Format
from dynagate.hw.axi import FIXED, FLOAT32, PER_SAMPLE, WORD, beats, words_of
from dynagate.hw.units.float32 import FromFloat, ToFloat
from dynagate.hw.units.raw import WHOLE, FromWord, ToWord
from dynagate.hw.units.rescale import by_beat, delayed

NAN = 0x7FC00000


def _lanes(formats: Sequence[Format], width: int) -> list[list[Format]]:
    """Per lane that carries something, the formats of its fields, beat by beat."""
    count = width // WORD
    return [list(formats[lane::count]) for lane in range(min(count, len(formats)))]


class _Credit:
    """Room behind a pipeline: taken where something enters it, given back where it leaves the FIFO at the end."""

    def __init__(self, m: Module, depth: int, taken: Value, returned: Value, name: str) -> None:
        self.left = Signal(range(depth + 1), init=depth, name=name)
        m.d.sync += self.left.eq(self.left - taken + returned)


class State(NamedTuple):
    """What a proof needs to see of a stream's registers. under_way: a bit for each stage of the pipeline."""

    credit: Signal
    under_way: Signal
    fifo: SyncFIFOBuffered


class InputStream(wiring.Component):
    """AXI4-Stream to samples: float32 words are converted, a converter per lane.

    words: FIXED where the words hold the samples' bits as they are.

    ==========  ===  ============================================================================
    tdata       in   words of a beat; a sample begins with a beat of its own
    tvalid      in   the beat is offered
    tready      out  the beat is taken
    tlast       in   the beat ends a sample or a batch, as `last` says
    o_payload   out  fields of a sample, from bit 0 up
    o_bad       out  one of them is NaN, infinite or does not fit its format
    o_last      out  the batch ends with this sample
    o_tag       out  the sample's tag
    o_valid     out  there is a sample
    o_ready     in   it is taken
    misaligned  out  for a cycle: TLAST cut a sample short, which is dropped, or TLAST is missing
    ==========  ===  ============================================================================
    """

    def __init__(
        self, formats: Sequence[Format], width: int, ii: int, last: str = PER_SAMPLE, words: str = FLOAT32
    ) -> None:
        self.width, self.last = width, last
        self.words = words_of([fmt.width for fmt in formats], words)
        self.formats = tuple(formats) if words == FLOAT32 else (WHOLE,) * self.words
        self.converter = FromFloat if words == FLOAT32 else FromWord
        self.beats = beats(self.words, width)
        self.depth = math.ceil((self.converter.latency + 6 + ii + self.beats) / max(ii, self.beats)) + 1
        self.bits = sum(fmt.width for fmt in formats)
        super().__init__(
            {
                "tdata": In(width),
                "tvalid": In(1),
                "tready": Out(1),
                "tlast": In(1),
                "o_payload": Out(self.bits),
                "o_bad": Out(1),
                "o_last": Out(1),
                "o_tag": Out(WORD),
                "o_valid": Out(1),
                "o_ready": In(1),
                "misaligned": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        beat = Signal(range(max(self.beats, 2)))
        first, final = beat == 0, beat == self.beats - 1
        accept = Signal()
        whole = Signal()
        cut = Signal()
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=self.bits + 2 + WORD, depth=self.depth)
        taken = fifo.r_rdy & fifo.r_en
        credit = _Credit(m, self.depth, accept & first, taken + cut, "credit")
        m.d.comb += [
            self.tready.eq(~first | (credit.left != 0)),
            accept.eq(self.tvalid & self.tready),
            whole.eq(accept & final),
            cut.eq(accept & self.tlast & ~final),
        ]
        with m.If(accept):
            m.d.sync += beat.eq(Mux(final | self.tlast, 0, beat + 1))
        missing = whole & ~self.tlast if self.last == PER_SAMPLE else Const(0)
        m.d.sync += self.misaligned.eq(cut | missing)

        # conversion, a register, and the fields come to rest beat by beat
        later = self.converter.latency + 1
        under_way = Signal(later + 1)
        m.d.sync += under_way.eq(Cat(whole, under_way)[: later + 1])
        self.state = State(credit.left, under_way, fifo)
        self.beat = beat
        arrived = delayed(m, accept, later, "arrived")
        arrived_beat = delayed(m, beat, later, "arrived_beat")
        fields = [Signal(fmt.width, name=f"field_{k}", reset_less=True) for k, fmt in enumerate(self.formats)]
        bad_here = []
        count = self.width // WORD
        for lane, formats in enumerate(_lanes(self.formats, self.width)):
            m.submodules[f"lane_{lane}"] = unit = self.converter(formats)
            m.d.comb += [unit.x.eq(self.tdata[WORD * lane : WORD * (lane + 1)]), unit.beat.eq(beat)]
            value = delayed(m, unit.o, 1, f"value_{lane}")
            here = Signal(name=f"bad_{lane}", reset_less=True)
            m.d.sync += here.eq(unit.bad & (delayed(m, beat, unit.latency, f"beat_{lane}") < len(formats)))
            bad_here.append(here)
            for k, fmt in enumerate(formats):
                with m.If(arrived & (arrived_beat == k)):
                    m.d.sync += fields[lane + k * count].eq(value[: fmt.width])
        bad = Signal(reset_less=True)
        with m.If(arrived):
            m.d.sync += bad.eq(((arrived_beat != 0) & bad) | Cat(*bad_here).any())
        tag = self.tdata.word_select(len(self.formats) % count, WORD)  # in the last beat
        m.d.comb += [
            fifo.w_data.eq(
                Cat(
                    Cat(*fields)[: self.bits],
                    bad,
                    delayed(m, self.tlast, later + 1, "last"),
                    delayed(m, tag, later + 1, "tag"),
                )
            ),
            fifo.w_en.eq(under_way[-1]),
            fifo.r_en.eq(self.o_ready),
            self.o_valid.eq(fifo.r_rdy),
            Cat(self.o_payload, self.o_bad, self.o_last, self.o_tag).eq(fifo.r_data),
        ]
        return m


def _packed(fields: Sequence[Value], bad: Value) -> list[Value]:
    """The words of a result's bits, the last of which says that it cannot be used."""
    bits = Cat(*fields, bad)
    return [bits[low : low + WORD].as_signed() for low in range(0, len(bits), WORD)]


def _filled(column: Sequence[int | None]) -> list[int]:
    """The column with any of its fields where it has none, and without such ends."""
    fields = [k for k in column if k is not None]
    end = max(k for k, field in enumerate(column) if field is not None) + 1
    return [fields[0] if field is None else field for field in column[:end]]


def _is_one_of(beat: Signal, beats: Collection[int]) -> Value:
    """Whether a beat is one of these: those of a single layout are neighbours."""
    if len(beats) == max(beats) + 1:
        return beat < len(beats)
    return Cat(beat == k for k in sorted(beats)).any()


def _word_table(layouts: Sequence[Sequence[int]], lanes: int) -> list[list[int | None]]:
    """Per beat of each layout in turn, the field of each lane. layouts: fields in the order of their words."""
    table: list[list[int | None]] = []
    for fields in layouts:
        words = [*fields, *[None] * (beats(len(fields), lanes * WORD) * lanes - len(fields))]
        table += [words[k : k + lanes] for k in range(0, len(words), lanes)]
    return table


class OutputStream(wiring.Component):
    """Results to AXI4-Stream: fields are converted to float32 words, a converter per lane.

    layouts: the fields of each function's results in the order of their words; all in one result unless given.
    words: FIXED where the words hold the bits of these fields as they are, and a bit more says that the result cannot
    be used.

    =========  ===  =================================================
    i_payload  in   fields of a result, from bit 0 up
    i_bad      in   the result cannot be used: all its words are NaN
    i_last     in   the batch ends with this result
    i_tag      in   the tag of the result's sample
    i_layout   in   which of the layouts it has
    i_valid    in   there is a result
    i_ready    out  it is taken
    tdata      out  words of a beat
    tvalid     out  the beat is offered
    tready     in   the beat is taken
    tlast      out  the beat ends a sample or a batch, as `last` says
    =========  ===  =================================================
    """

    def __init__(
        self,
        formats: Sequence[Format],
        width: int,
        last: str = PER_SAMPLE,
        layouts: Sequence[Sequence[int]] | None = None,
        words: str = FLOAT32,
    ) -> None:
        self.width, self.last = width, last
        self.fields, self.of_layout = tuple(formats), [range(len(formats))] if layouts is None else list(layouts)
        self.converter: type[ToFloat] | type[ToWord] = ToFloat
        self.formats, self.layouts = self.fields, list(map(list, self.of_layout))
        if words == FIXED:
            counts = [words_of([formats[k].width for k in each], words, flag=True) for each in self.of_layout]
            starts = [sum(counts[:k]) for k in range(len(counts))]
            self.converter, self.formats = ToWord, (WHOLE,) * sum(counts)
            self.layouts = [list(range(at, at + count)) for at, count in zip(starts, counts, strict=True)]
        self.beats = sum(beats(len(each), width) for each in self.layouts)
        self.bits = sum(fmt.width for fmt in formats)
        super().__init__(
            {
                "i_payload": In(self.bits),
                "i_bad": In(1),
                "i_last": In(1),
                "i_tag": In(WORD),
                "i_layout": In(range(len(self.layouts))),
                "i_valid": In(1),
                "i_ready": Out(1),
                "tdata": Out(width),
                "tvalid": Out(1),
                "tready": In(1),
                "tlast": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held = Signal(self.bits, reset_less=True)
        bad = Signal(reset_less=True)
        ends = Signal(reset_less=True)
        tag = Signal(WORD, reset_less=True)
        busy = Signal()
        beat = Signal(range(max(self.beats, 2)))
        issue = Signal()
        final = Signal()
        count = self.width // WORD
        table = _word_table(self.layouts, count)
        by_lane = [[row[lane] for row in table] for lane in range(count)]
        units = {
            lane: self.converter([self.formats[k] for k in _filled(column)])
            for lane, column in enumerate(by_lane)
            if any(k is not None for k in column)
        }
        lengths = [beats(len(fields), self.width) for fields in self.layouts]
        first_beat = [sum(lengths[:k]) for k in range(len(lengths))]
        last_beats = {first + length - 1 for first, length in zip(first_beat, lengths, strict=True)}
        slowest = max(unit.latency for unit in units.values())
        later = slowest + 2  # a multiplexer before, another after
        depth = later + 4
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=self.width + 1, depth=depth)
        taken = Signal()
        credit = _Credit(m, depth, issue, taken, "credit")
        m.d.comb += [
            final.eq(_is_one_of(beat, last_beats)),
            issue.eq(busy & (credit.left != 0)),
            self.i_ready.eq(~busy | (issue & final)),
            taken.eq(self.tvalid & self.tready),
        ]
        with m.If(issue):
            m.d.sync += [beat.eq(beat + 1), busy.eq(~final)]
        with m.If(self.i_valid & self.i_ready):
            m.d.sync += [
                beat.eq(by_beat([Const(first, beat.shape()) for first in first_beat], self.i_layout)),
                held.eq(self.i_payload),
                bad.eq(self.i_bad),
                ends.eq(self.i_last),
                tag.eq(self.i_tag),
                busy.eq(1),
            ]

        under_way = Signal(later)
        m.d.sync += under_way.eq(Cat(issue, under_way)[:later])
        self.state = State(credit.left, under_way, fifo)

        fields: list[Value] = []
        low = 0
        for fmt in self.fields:
            fields.append(held[low : low + fmt.width].as_signed())
            low += fmt.width
        if self.converter is ToWord:
            fields = [word for each in self.of_layout for word in _packed([fields[k] for k in each], bad)]
        poison = delayed(m, bad, later - 1, "poison")
        words = [Signal(WORD, name=f"word_{lane}", reset_less=True) for lane in range(count)]
        m.d.sync += [word.eq(0) for word in words]
        held_tag = delayed(m, tag, later - 1, "tag_held")
        for lane in sorted({len(layout) % count for layout in self.layouts}):
            ending = {
                first + length - 1
                for first, length, layout in zip(first_beat, lengths, self.layouts, strict=True)
                if len(layout) % count == lane
            }
            tagged = delayed(m, _is_one_of(beat, ending), later - 1, f"tagged_{lane}")
            m.d.sync += words[lane].eq(Mux(tagged, held_tag, 0))
        for lane, unit in units.items():
            m.submodules[f"lane_{lane}"] = unit
            x = Signal(unit.x.shape(), name=f"x_{lane}", reset_less=True)
            m.d.sync += x.eq(by_beat([fields[k] for k in _filled(by_lane[lane])], beat))
            m.d.comb += [unit.x.eq(x), unit.beat.eq(delayed(m, beat, 1, f"beat_{lane}"))]
            converted = delayed(m, unit.o, slowest - unit.latency, f"converted_{lane}")
            full = {k for k, field in enumerate(by_lane[lane]) if field is not None}
            there = delayed(m, _is_one_of(beat, full), later - 1, f"there_{lane}")
            with m.If(there):
                m.d.sync += words[lane].eq(converted if self.converter is ToWord else Mux(poison, NAN, converted))
        data = Signal(self.width)
        at_end = final & (1 if self.last == PER_SAMPLE else ends)
        m.d.comb += [
            data.eq(Cat(*words)),
            fifo.w_data.eq(Cat(data, delayed(m, at_end, later, "last"))),
            fifo.w_en.eq(under_way[-1]),
            Cat(self.tdata, self.tlast).eq(fifo.r_data),
            self.tvalid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.tready),
        ]
        return m
