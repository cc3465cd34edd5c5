"""A datapath behind standard interfaces: AXI4-Stream of float32 words in and out, AXI4-Lite registers beside."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, Instance, Module, Mux, ResetInserter, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out
from dynagate.hw import axi_lite
from dynagate.hw.axi import WORD, Axi
from dynagate.hw.axi_lite import AxiLite
from dynagate.hw.axi_stream import InputStream, OutputStream
from dynagate.hw.datapath import Datapath
from dynagate.hw.regmap import BITS, IDENTITY, VERSION
from dynagate.hw.units.rescale import delayed


def _stream_ports(width: int, name: str, *, into: bool) -> dict[str, Any]:
    forth, back = (In, Out) if into else (Out, In)
    return {
        f"{name}_tdata": forth(width),
        f"{name}_tvalid": forth(1),
        f"{name}_tready": back(1),
        f"{name}_tlast": forth(1),
    }


def ports(axi: Axi) -> dict[str, Any]:
    """The members of the shell's signature, by name."""
    return {
        "aclk": In(1),
        "aresetn": In(1),
        **_stream_ports(axi.width, "s_axis", into=True),
        **_stream_ports(axi.width, "m_axis", into=False),
        **{f"s_axil_{name}": port for name, port in axi_lite.PORTS.items()},
    }


class Shell(wiring.Component):
    """The accelerator: the datapath between AXI4-Stream and AXI4-Lite. The module `datapath` is in a file of its own.

    s_axis_*, m_axis_*: the streams, as in `hw.axi_stream`. s_axil_*: the registers of `hw.regmap`, as in `hw.axi_lite`.

    =======  ===  =============================
    aclk     in   the clock of everything
    aresetn  in   synchronous reset, active low
    =======  ===  =============================
    """

    def __init__(self, datapath: Datapath, axi: Axi) -> None:
        self.datapath, self.axi = datapath, axi
        formatted = datapath.plan.formatted
        graph, formats = formatted.graph, formatted.formats
        self.input = InputStream([formats[i] for i in graph.input_nodes], axi.width, datapath.plan.ii, axi.last)
        self.output = OutputStream([formats[i] for i in graph.output_nodes], axi.width, axi.last)
        super().__init__(ports(axi))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = sync = ClockDomain()
        m.d.comb += [sync.clk.eq(self.aclk), sync.rst.eq(~self.aresetn)]
        plan, scopes = self.datapath.plan, len(self.datapath.plan.formatted.graph.scopes)
        control = Signal(8)
        reset = Signal()
        clear = Signal()
        m.d.sync += [reset.eq(control[0]), clear.eq(control[1])]
        m.submodules.input = source = ResetInserter(reset)(self.input)
        m.submodules.output = sink = ResetInserter(reset)(self.output)

        # what is known of a sample beside its values waits for its result
        beside = SyncFIFOBuffered(width=2 + WORD, depth=plan.latency // plan.ii + 8)
        m.submodules.beside = ResetInserter(reset)(beside)
        result = Signal(sink.bits + scopes)
        taken = Signal()
        result_valid = Signal()
        m.submodules.datapath = Instance(
            "datapath",
            i_clk=ClockSignal(),
            i_rst=ResetSignal() | reset,
            i_i__payload=source.o_payload,
            i_i__valid=source.o_valid & beside.w_rdy,
            o_i__ready=taken,
            o_o__payload=result,
            o_o__valid=result_valid,
            i_o__ready=sink.i_ready,
        )
        enter = Signal()
        leave = Signal()
        overflow = result[sink.bits :]
        m.d.comb += [
            enter.eq(source.o_valid & beside.w_rdy & taken),
            leave.eq(result_valid & sink.i_ready),
            source.o_ready.eq(beside.w_rdy & taken),
            beside.w_data.eq(Cat(source.o_bad, source.o_last, source.o_tag)),
            beside.w_en.eq(enter),
            beside.r_en.eq(leave),
            sink.i_payload.eq(result[: sink.bits]),
            sink.i_bad.eq(beside.r_data[0] | overflow.any()),
            sink.i_last.eq(beside.r_data[1]),
            sink.i_tag.eq(beside.r_data[2:]),
            sink.i_valid.eq(result_valid),
            source.tdata.eq(self.s_axis_tdata),
            source.tvalid.eq(self.s_axis_tvalid),
            source.tlast.eq(self.s_axis_tlast),
            self.s_axis_tready.eq(source.tready & ~reset),
            self.m_axis_tdata.eq(sink.tdata),
            self.m_axis_tvalid.eq(sink.tvalid),
            self.m_axis_tlast.eq(sink.tlast),
            sink.tready.eq(self.m_axis_tready),
        ]
        counts = _Counts(m, reset | clear)
        samples_in, samples_out = counts.of("samples_in", enter), counts.of("samples_out", leave)
        flagged = delayed(m, leave & overflow.any(), 1, "flagged", reset=True)
        at = delayed(m, samples_out, 1, "result_index")
        bad, first_bad = counts.first("bad_inputs", enter & source.o_bad, samples_in)
        overflows, first_overflow = counts.first("overflows", flagged, at)
        misaligned = counts.of("misaligned", source.misaligned)
        values = {
            "identity": Const(IDENTITY, BITS),
            "version": Const(VERSION, BITS),
            "hash_low": Const(self.datapath.hash & 0xFFFFFFFF, BITS),
            "hash_high": Const(self.datapath.hash >> 32, BITS),
            "ii": Const(plan.ii, BITS),
            "latency": Const(plan.latency, BITS),
            "input_words": Const(len(self.input.formats), BITS),
            "output_words": Const(len(self.output.formats), BITS),
            "status": Cat(bad != 0, overflows != 0, misaligned != 0),
            "samples_in": samples_in,
            "samples_out": samples_out,
            "input_stalls": counts.of("input_stalls", self.s_axis_tvalid & ~self.s_axis_tready),
            "output_stalls": counts.of("output_stalls", self.m_axis_tvalid & ~self.m_axis_tready),
            "bad_inputs": bad,
            "first_bad_input": first_bad,
            "overflows": overflows,
            "first_overflow": first_overflow,
            "overflow_scopes": counts.sticky("overflow_scopes", Mux(leave, overflow, 0)),
            "misaligned": misaligned,
        }
        m.submodules.registers = registers = AxiLite(values)
        m.d.comb += control.eq(registers.written)
        for name, port in axi_lite.PORTS.items():
            here, there = getattr(self, f"s_axil_{name}"), getattr(registers, name)
            m.d.comb += there.eq(here) if port.flow is In else here.eq(there)
        return m


class _Counts:
    """Counters that begin anew together."""

    def __init__(self, m: Module, clear: Any) -> None:
        self.m, self.clear = m, clear

    def of(self, name: str, event: Any) -> Signal:
        """How often it happened."""
        count = Signal(BITS, name=name)
        self.m.d.sync += count.eq(count + event)
        with self.m.If(self.clear):
            self.m.d.sync += count.eq(0)
        return count

    def first(self, name: str, event: Any, index: Any) -> tuple[Signal, Signal]:
        """How often it happened, and the index at which it first did."""
        count = self.of(name, event)
        first = Signal(BITS, name=f"first_of_{name}", reset_less=True)
        with self.m.If(event & (count == 0)):
            self.m.d.sync += first.eq(index)
        return count, first

    def sticky(self, name: str, bits: Any) -> Signal:
        """Which bits were ever 1."""
        seen = Signal(len(bits), name=name)
        self.m.d.sync += seen.eq(seen | bits)
        with self.m.If(self.clear):
            self.m.d.sync += seen.eq(0)
        return seen
