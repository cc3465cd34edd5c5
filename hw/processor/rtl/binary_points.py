"""float32 on the streams of cores: converters that all cores share, and the binary points that a program brings.

A table has the binary points of a function's words one after the other. Its first rows say by block where those of the
function that begins with it begin. Cores of one shell have one program, so they share the tables too.
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
    """Rows of a table of binary points, as a program brings them.

    =======  ===  =================
    part     out  a row is here
    address  out  its address
    value    out  the binary point
    =======  ===  =================
    """
    return wiring.Signature({"part": Out(1), "address": Out(REGION_SHIFT), "value": Out(LANE)})


class BinaryPoints(wiring.Component):
    """The binary point of each number of a packet, a cycle later. bits: of the table's addresses.

    ======  ===  ==================================================
    begins  in   no number of a packet has come; it is of `block`
    block   in   that its function begins with
    step    in   a number is here
    rows    in   rows of the table, as `table_rows`
    o       out  the binary point of the number a cycle ago
    ======  ===  ==================================================
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
        fresh, place, here = Signal(), Signal(self.bits), Signal(self.bits)
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
    """Convert words of samples to integers, INPUT_CONVERSION cycles later.

    =======  ===  ==============================================
    word     in   of a packet
    taken    in   it is taken
    is_head  in   it is the packet's first
    rows     in   rows of the table of binary points
    o        out  the integer
    bad      out  the word was NaN, infinite or too large for it
    =======  ===  ==============================================
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
    """Words of answers, of which results become float32, `Core.output_conversion` cycles later.

    =========  ===  =======================================================
    begins     in   the next word is a packet's first
    block      in   that the function of that packet begins with
    valid      in   there is a word
    word       in   the word
    is_number  in   it is a result
    ends       in   it is the last of its packet
    last       in   TLAST goes with the packet
    rows       in   rows of the table of binary points
    o_valid    out  there is a word
    o_word     out  the word
    o_ends     out  it is the last of its packet
    o_last     out  TLAST goes with the packet
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
            self.o_valid.eq(delayed(m, self.valid, latency, "valid", reset=True)),
            self.o_word.eq(Mux(beside[0], unit.o, beside[3:])),
            Cat(self.o_ends, self.o_last).eq(beside[1:3]),
        ]
        return m
