"""The interfaces of an accelerator: AXI4-Stream in and out, and AXI4-Lite registers with identity and counters."""

from __future__ import annotations

from typing import Any, NamedTuple

from amaranth.hdl import (
    Cat,
    ClockDomain,
    Const,
    Module,
    Mux,
    Signal,
    Value,
)
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from dynagate.hw.rtl import axi_lite
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.axi_lite import AxiLite
from dynagate.hw.rtl.regmap import BITS, COUNTED, IDENTITY, VERSION
from dynagate.hw.rtl.stream_ports import stream_ports


def ports(axi: Axi) -> dict[str, Any]:
    """The members of the shell's signature, by name."""
    return {
        "aclk": In(1),
        "aresetn": In(1),
        **stream_ports(axi.width, into=True, prefix="s_axis_"),
        **stream_ports(axi.width, into=False, prefix="m_axis_"),
        **{f"s_axil_{name}": port for name, port in axi_lite.PORTS.items()},
    }


class ShellStatus(NamedTuple):
    """Signals that the counters observe between the two streams.

    enter, leave: a sample enters or leaves in this cycle. bad_sample: the entering sample is broken. overflow,
    overflowed: overflow of the leaving sample, by pass and in all. misaligned: high for one cycle when a sample was
    misaligned. hole: high for one cycle when a beat had a hole. empty: no sample is inside.
    """

    enter: Value
    leave: Value
    bad_sample: Value
    overflow: Value
    overflowed: Value
    misaligned: Value
    hole: Value
    empty: Value = Const(0)


class Accelerator(wiring.Component):
    """Streams and registers, around whatever computes.

    s_axis_*, m_axis_*: the streams. s_axil_*: the registers of `hw.rtl.regmap`, as in `hw.rtl.axi_lite`.

    =======  ===  =============================
    aclk     in   the clock of everything
    aresetn  in   synchronous reset, active low
    =======  ===  =============================
    """

    def __init__(self, axi: Axi) -> None:
        self.axi = axi
        super().__init__(ports(axi))

    def _clocked(self, m: Module) -> tuple[Signal, Signal]:
        """The domain of everything. Returns a soft reset and a clear of the counters."""
        m.domains.sync = sync = ClockDomain()
        m.d.comb += [sync.clk.eq(self.aclk), sync.rst.eq(~self.aresetn)]
        return Signal(name="reset"), Signal(name="clear")

    def _controlled(self, m: Module, reset: Signal, clear: Signal, registers: AxiLite) -> None:
        """The registers at the bus, and what is written to `control`."""
        control = Signal(8)
        m.d.sync += [reset.eq(control[0]), clear.eq(control[1])]
        m.submodules.registers = registers
        m.d.comb += [control.eq(registers.written), *self._at_the_bus(registers)]

    def _offer(self, m: Module, sink: Any, reset: Value) -> None:
        """A beat that is offered waits in registers until it is taken, whatever is reset behind it. sink: has the
        signals of a stream."""
        offered = Signal(self.axi.width + 1, reset_less=True)
        m.d.comb += [
            sink.tready.eq(~self.m_axis_tvalid | self.m_axis_tready),
            Cat(self.m_axis_tdata, self.m_axis_tlast).eq(offered),
        ]
        with m.If(sink.tready):
            m.d.sync += [self.m_axis_tvalid.eq(sink.tvalid & ~reset), offered.eq(Cat(sink.tdata, sink.tlast))]

    def _at_the_ports(self, source: Any, reset: Value) -> list[Any]:
        """The input stream at the shell's ports. source: has its signals."""
        return [
            source.tdata.eq(self.s_axis_tdata),
            source.tvalid.eq(self.s_axis_tvalid),
            source.tlast.eq(self.s_axis_tlast),
            source.tkeep.eq(self.s_axis_tkeep),
            self.s_axis_tready.eq(source.tready & ~reset),
        ]

    def _at_the_bus(self, registers: AxiLite) -> list[Any]:
        """AXI4-Lite at the shell's ports."""
        wires = []
        for name, port in axi_lite.PORTS.items():
            here, there = getattr(self, f"s_axil_{name}"), getattr(registers, name)
            wires.append(there.eq(here) if port.flow is In else here.eq(there))
        return wires

    def _identity(self, digest: int) -> dict[str, Value]:
        """Registers that say what the accelerator is, by name. digest: 64 bits of a hash."""
        return {
            "identity": Const(IDENTITY, BITS),
            "version": Const(VERSION, BITS),
            "hash_low": Const(digest & 0xFFFFFFFF, BITS),
            "hash_high": Const(digest >> 32, BITS),
        }

    def _counters(self, m: Module, clear: Value, core: ShellStatus) -> dict[str, Value]:
        """Registers that say what happened since a clear, by name."""
        counts = _Counts(m, clear)
        entered, left = counts.later("entered", core.enter), counts.later("left", core.leave)
        samples_in, samples_out = counts.of("samples_in", entered), counts.of("samples_out", left)
        bad, first_bad = counts.first("bad_inputs", counts.later("bad", core.enter & core.bad_sample), samples_in)
        flagged = counts.later("flagged", core.leave & core.overflowed)
        scopes = counts.later("scopes", Mux(core.leave, core.overflow, 0))
        overflows, first_overflow = counts.first("overflows", flagged, samples_out)
        counted = {name: counts.of(name, getattr(core, event)) for name, event in COUNTED.items()}
        return {
            "status": Cat(bad != 0, overflows != 0, counted["misaligned"] != 0, counts.sticky("holes", core.hole)),
            "samples_in": samples_in,
            "samples_out": samples_out,
            "input_stalls": counts.of("input_stalls", self.s_axis_tvalid & ~self.s_axis_tready),
            "output_stalls": counts.of("output_stalls", self.m_axis_tvalid & ~self.m_axis_tready),
            "bad_inputs": bad,
            "first_bad_input": first_bad,
            "overflows": overflows,
            "first_overflow": first_overflow,
            "overflow_scopes": counts.sticky("overflow_scopes", scopes),
            **counted,
        }


class _Counts:
    """Counters that begin anew together."""

    def __init__(self, m: Module, clear: Any) -> None:
        self.m, self.clear = m, clear

    def later(self, name: str, event: Value) -> Signal:
        """Register an event: the result is high one cycle after it."""
        register = Signal(event.shape(), name=name)
        self.m.d.sync += register.eq(event)
        with self.m.If(self.clear):
            self.m.d.sync += register.eq(0)
        return register

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
