"""Convert float32 stream words to integers and back: converters that all cores share, and tables of binary points.

A program brings a table with the binary points of each function's words, one function after the other. The first rows
of a table hold, by block, the row at which the function that begins with this block starts. Cores of one shell run one
program, so they share the tables.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.isa.packets import REGION_SHIFT
from dynagate.hw.processor.isa.shape import BLOCK_BITS, INPUT_CONVERSION, LANE, Core
from dynagate.hw.units.float32 import POINT, FromFloatAt, ToFloatAt
from dynagate.hw.units.rescale import delayed


def table_rows() -> wiring.Signature:
    """Return the interface that writes rows of a table of binary points.

    =======  ===  ===============================================
    part     out  1: a row is written
    address  out  address of the row
    value    out  32 bits: the binary point, or the first row of a function
    =======  ===  ===============================================
    """
    return wiring.Signature({"part": Out(1), "address": Out(REGION_SHIFT), "value": Out(LANE)})


class BinaryPoints(wiring.Component):
    """Looks up the binary point of each number of a packet, one cycle after the number.

    ======  ===  ==================================================================
    begins  in   1: no number of the packet has come; its function begins with `block`
    block   in   first block of the packet's function
    step    in   1: a number comes in this cycle
    rows    in   writes to the table, see `table_rows`
    o       out  binary point of the number of the cycle before
    ======  ===  ==================================================================

    Args:
        bits: Address bits of the table.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        super().__init__(
            {"begins": In(1), "block": In(BLOCK_BITS), "step": In(1), "rows": In(table_rows()), "o": Out(POINT)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        memory = Memory(shape=unsigned(max(self.bits, POINT.width)), depth=1 << self.bits, init=[])
        m.submodules.table = memory
        into, out = memory.write_port(), memory.read_port()
        fresh, here = Signal(reset_less=True), Signal(self.bits)
        place = Signal(self.bits, reset_less=True)
        m.d.comb += [
            into.addr.eq(self.rows.address),
            into.data.eq(self.rows.value),
            into.en.eq(self.rows.part),
            here.eq(Mux(fresh, out.data, place)),
            out.addr.eq(Mux(self.begins, self.block, here)),
            out.en.eq(1),
            self.o.eq(out.data[: POINT.width].as_signed()),
        ]
        m.d.sync += [fresh.eq(self.begins), place.eq(here + self.step)]
        return m


class InputConverter(wiring.Component):
    """Converts float32 words of samples to integers, INPUT_CONVERSION cycles later.

    =======  ===  ==============================================================
    word     in   32 bits: a word of a packet
    taken    in   1: the word is accepted in this cycle
    is_head  in   1: the word is the first of the packet
    rows     in   writes to the table of binary points, see `table_rows`
    o        out  signed: the integer
    bad      out  1: the word was NaN, infinite or too large for its format
    =======  ===  ==============================================================
    """

    def __init__(self, core: Core) -> None:
        self.unit, self.points = FromFloatAt(core.word), BinaryPoints(core.input_points)
        assert self.unit.latency + 2 == INPUT_CONVERSION
        super().__init__(
            {
                "word": In(LANE),
                "taken": In(1),
                "is_head": In(1),
                "rows": In(table_rows()),
                "o": Out(signed(core.word)),
                "bad": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.unit, m.submodules.points = unit, points = self.unit, self.points
        wiring.connect(m, wiring.flipped(self.rows), points.rows)
        word = delayed(m, self.word, 1, "word")
        m.d.comb += [
            points.begins.eq(delayed(m, self.is_head, 1, "is_head")),
            points.block.eq(word),
            points.step.eq(delayed(m, self.taken, 1, "taken")),
            unit.x.eq(delayed(m, word, 1, "number")),
            unit.point.eq(points.o),
            self.o.eq(unit.o),
            self.bad.eq(unit.bad),
        ]
        return m


class OutputConverter(wiring.Component):
    """Converts results to float32 words, `Core.output_conversion` cycles later. Other words pass unchanged.

    =========  ===  =======================================================
    begins     in   1: the next word is the first of a packet
    block      in   first block of that packet's function
    valid      in   1: a word is offered
    word       in   32 bits: the word
    is_number  in   1: the word is a result
    ends       in   1: the word is the last of its packet
    last       in   1: TLAST goes with the packet
    rows       in   writes to the table of binary points, see `table_rows`
    o_valid    out  `valid` of the converted word
    o_word     out  32 bits: the converted word
    o_ends     out  `ends` of the converted word
    o_last     out  `last` of the converted word
    =========  ===  =======================================================
    """

    def __init__(self, core: Core) -> None:
        self.core, self.unit, self.points = core, ToFloatAt(core.word), BinaryPoints(core.output_points)
        assert self.unit.latency + 1 == core.output_conversion
        super().__init__(
            {
                "begins": In(1),
                "block": In(BLOCK_BITS),
                **{name: In(1) for name in ("valid", "is_number", "ends", "last")},
                "word": In(LANE),
                "rows": In(table_rows()),
                **{name: Out(1) for name in ("o_valid", "o_ends", "o_last")},
                "o_word": Out(LANE),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.unit, m.submodules.points = unit, points = self.unit, self.points
        wiring.connect(m, wiring.flipped(self.rows), points.rows)
        latency = self.core.output_conversion
        beside = delayed(m, Cat(self.is_number, self.ends, self.last, self.word), latency, "beside")
        m.d.comb += [
            points.begins.eq(self.begins),
            points.block.eq(self.block),
            points.step.eq(self.valid & self.is_number),
            unit.x.eq(delayed(m, self.word[: self.core.word].as_signed(), 1, "number")),
            unit.point.eq(points.o),
            self.o_valid.eq(delayed(m, self.valid, latency, "valid")),
            self.o_word.eq(Mux(beside[0], unit.o, beside[3:])),
            Cat(self.o_ends, self.o_last).eq(beside[1:3]),
        ]
        return m
