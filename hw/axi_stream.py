"""AXI4-Stream of float32 words on one side, payloads of the datapath on the other.

A sample begins with a beat of its own: word k is in beat k // lanes, lane k % lanes. The word after the last float32 is
the sample's tag, which is not converted and comes back with the result; what is left of the last beat is 0. Each lane
has one converter, and both pipelines run free: credit says whether what comes out will find room.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.format import Format
from dynagate.hw.axi import PER_SAMPLE, WORD, beats
from dynagate.hw.units.float32 import FromFloat, ToFloat
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

    def __init__(self, formats: Sequence[Format], width: int, ii: int, last: str = PER_SAMPLE) -> None:
        self.formats, self.width, self.last = tuple(formats), width, last
        self.beats = beats(len(formats), width)
        self.depth = math.ceil((FromFloat.latency + 6 + ii + self.beats) / max(ii, self.beats)) + 1
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
        later = FromFloat.latency + 1
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
            m.submodules[f"lane_{lane}"] = unit = FromFloat(formats)
            m.d.comb += [unit.x.eq(self.tdata[WORD * lane : WORD * (lane + 1)]), unit.beat.eq(beat)]
            value = delayed(m, unit.o, 1, f"value_{lane}")
            here = Signal(name=f"bad_{lane}", reset_less=True)
            m.d.sync += here.eq(unit.bad & (delayed(m, beat, FromFloat.latency, f"beat_{lane}") < len(formats)))
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
                Cat(*fields, bad, delayed(m, self.tlast, later + 1, "last"), delayed(m, tag, later + 1, "tag"))
            ),
            fifo.w_en.eq(under_way[-1]),
            fifo.r_en.eq(self.o_ready),
            self.o_valid.eq(fifo.r_rdy),
            Cat(self.o_payload, self.o_bad, self.o_last, self.o_tag).eq(fifo.r_data),
        ]
        return m


class OutputStream(wiring.Component):
    """Results to AXI4-Stream: fields are converted to float32 words, a converter per lane.

    =========  ===  =================================================
    i_payload  in   fields of a result, from bit 0 up
    i_bad      in   the result cannot be used: all its words are NaN
    i_last     in   the batch ends with this result
    i_tag      in   the tag of the result's sample
    i_valid    in   there is a result
    i_ready    out  it is taken
    tdata      out  words of a beat
    tvalid     out  the beat is offered
    tready     in   the beat is taken
    tlast      out  the beat ends a sample or a batch, as `last` says
    =========  ===  =================================================
    """

    def __init__(self, formats: Sequence[Format], width: int, last: str = PER_SAMPLE) -> None:
        self.formats, self.width, self.last = tuple(formats), width, last
        self.beats = beats(len(formats), width)
        self.bits = sum(fmt.width for fmt in formats)
        super().__init__(
            {
                "i_payload": In(self.bits),
                "i_bad": In(1),
                "i_last": In(1),
                "i_tag": In(WORD),
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
        units = [ToFloat(formats) for formats in _lanes(self.formats, self.width)]
        slowest = max(unit.latency for unit in units)
        later = slowest + 2  # a multiplexer before, another after
        depth = later + 4
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=self.width + 1, depth=depth)
        taken = Signal()
        credit = _Credit(m, depth, issue, taken, "credit")
        m.d.comb += [
            final.eq(beat == self.beats - 1),
            issue.eq(busy & (credit.left != 0)),
            self.i_ready.eq(~busy | (issue & final)),
            taken.eq(self.tvalid & self.tready),
        ]
        with m.If(issue):
            m.d.sync += [beat.eq(Mux(final, 0, beat + 1)), busy.eq(~final)]
        with m.If(self.i_valid & self.i_ready):
            m.d.sync += [
                held.eq(self.i_payload),
                bad.eq(self.i_bad),
                ends.eq(self.i_last),
                tag.eq(self.i_tag),
                busy.eq(1),
            ]

        under_way = Signal(later)
        m.d.sync += under_way.eq(Cat(issue, under_way)[:later])
        self.state = State(credit.left, under_way, fifo)

        fields, low = [], 0
        for fmt in self.formats:
            fields.append(held[low : low + fmt.width].as_signed())
            low += fmt.width
        count = self.width // WORD
        poison = delayed(m, bad, later - 1, "poison")
        words = [Signal(WORD, name=f"word_{lane}", reset_less=True) for lane in range(count)]
        after = words[len(self.formats) % count]
        last = delayed(m, final, later - 1, "in_last_beat")
        m.d.sync += [word.eq(0) for word in words]
        m.d.sync += after.eq(Mux(last, delayed(m, tag, later - 1, "tag_held"), 0))
        for lane, unit in enumerate(units):
            m.submodules[f"lane_{lane}"] = unit
            mine = fields[lane::count]
            x = Signal(unit.x.shape(), name=f"x_{lane}", reset_less=True)
            m.d.sync += x.eq(by_beat(mine, beat))
            m.d.comb += [unit.x.eq(x), unit.beat.eq(delayed(m, beat, 1, f"beat_{lane}"))]
            converted = delayed(m, unit.o, slowest - unit.latency, f"converted_{lane}")
            there = delayed(m, beat < len(mine), later - 1, f"there_{lane}")
            with m.If(there):
                m.d.sync += words[lane].eq(Mux(poison, NAN, converted))
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
