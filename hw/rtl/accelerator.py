"""Base of all accelerators: AXI4-Stream in and out, and AXI4-Lite registers with identity and counters."""

from __future__ import annotations

from typing import Any, NamedTuple

from amaranth.hdl import (
    Cat,
    Const,
    Module,
    Mux,
    Signal,
    Value,
)
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from dynagate.hw.export.style import add_lasting_domain, clock_domain
from dynagate.hw.rtl import axi_lite
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.axi_lite import AxiLite
from dynagate.hw.rtl.regmap import BITS, COUNTED, IDENTITY, VERSION
from dynagate.hw.rtl.stream_ports import stream_ports


def ports(axi: Axi) -> dict[str, Any]:
    """Return the ports of the shell, by name.

    Args:
        axi: Width of the streams.
    """
    return {
        "aclk": In(1),
        "aresetn": In(1),
        **stream_ports(axi.width, into=True, prefix="s_axis_"),
        **stream_ports(axi.width, into=False, prefix="m_axis_"),
        **{f"s_axil_{name}": port for name, port in axi_lite.PORTS.items()},
    }


class ShellStatus(NamedTuple):
    """Events between the two streams that the counters observe."""

    enter: Value
    """1: a sample enters in this cycle."""
    leave: Value
    """1: a result leaves in this cycle."""
    bad_sample: Value
    """1: the sample that enters has NaN, infinity, or a number outside its format."""
    overflow: Value
    """One bit per pass: the pass overflowed in the sample that leaves."""
    overflowed: Value
    """1: the sample that leaves overflowed in any pass."""
    misaligned: Value
    """1 for one cycle: a sample was misaligned."""
    hole: Value
    """1 for one cycle: a beat had a hole (a byte that TKEEP omits before the end of a sample)."""
    empty: Value = Const(0)
    """1: no sample is in the accelerator."""


class Accelerator(wiring.Component):
    """Streams and registers around a computing core. Subclasses add the core.

    The ports s_axis_* and m_axis_* are the streams. The ports s_axil_* lead to the registers of `hw.rtl.regmap`.

    =======  ===  ==============================================================================
    aclk     in   clock of the whole accelerator
    aresetn  in   reset, active low; synchronous, except for a platform with an asynchronous reset
    =======  ===  ==============================================================================
    """

    def __init__(self, axi: Axi) -> None:
        self.axi = axi
        super().__init__(ports(axi))

    def _clocked(self, m: Module, platform: object) -> tuple[Signal, Signal]:
        """Add the clock domain of the accelerator. Return a soft reset, and a signal that clears the counters."""
        m.domains.sync = sync = clock_domain(platform)
        m.d.comb += [sync.clk.eq(self.aclk), sync.rst.eq(~self.aresetn)]
        self.clock = sync.clk
        add_lasting_domain(m, sync, platform)
        return Signal(name="reset"), Signal(name="clear")

    def _controlled(self, m: Module, reset: Signal, clear: Signal, registers: AxiLite) -> None:
        """Connect the registers to the bus, and decode what is written to `control`."""
        control = Signal(8)
        m.d.sync += [reset.eq(control[0]), clear.eq(control[1])]
        m.submodules.registers = registers
        m.d.comb += [control.eq(registers.written), *self._at_the_bus(registers)]

    def _offer(self, m: Module, sink: Any, reset: Value) -> None:
        """Register the output stream, so that an offered beat stays until it is accepted, even through a soft reset.

        sink: object with the signals of the stream.
        """
        offered = Signal(self.axi.width + 1, reset_less=True)
        m.d.comb += [
            sink.tready.eq(~self.m_axis_tvalid | self.m_axis_tready),
            Cat(self.m_axis_tdata, self.m_axis_tlast).eq(offered),
        ]
        with m.If(sink.tready):
            m.d.sync += [self.m_axis_tvalid.eq(sink.tvalid & ~reset), offered.eq(Cat(sink.tdata, sink.tlast))]

    def _at_the_ports(self, source: Any, reset: Value) -> list[Any]:
        """Return the assignments that connect the input stream to the shell's ports."""
        return [
            source.tdata.eq(self.s_axis_tdata),
            source.tvalid.eq(self.s_axis_tvalid),
            source.tlast.eq(self.s_axis_tlast),
            source.tkeep.eq(self.s_axis_tkeep),
            self.s_axis_tready.eq(source.tready & ~reset),
        ]

    def _at_the_bus(self, registers: AxiLite) -> list[Any]:
        """Return the assignments that connect AXI4-Lite to the shell's ports."""
        wires = []
        for name, port in axi_lite.PORTS.items():
            here, there = getattr(self, f"s_axil_{name}"), getattr(registers, name)
            wires.append(there.eq(here) if port.flow is In else here.eq(there))
        return wires

    def _identity(self, digest: int) -> dict[str, Value]:
        """Return the registers that identify the accelerator, by name. digest: 64 bits of a hash."""
        return {
            "identity": Const(IDENTITY, BITS),
            "version": Const(VERSION, BITS),
            "hash_low": Const(digest & 0xFFFFFFFF, BITS),
            "hash_high": Const(digest >> 32, BITS),
        }

    def _counters(self, m: Module, clear: Value, core: ShellStatus, *, reset_less: bool = False) -> dict[str, Value]:
        """Return the registers that count events since the last clear, by name.

        Args:
            m: Module to add them to.
            clear: Signal that sets the counters to 0.
            core: Events.
            reset_less: Whether the counters need no reset, because `clear` is 1 after each reset.
        """
        counts = _Counts(m, clear, reset_less)
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
    """Counters that are cleared together."""

    def __init__(self, m: Module, clear: Any, reset_less: bool) -> None:
        self.m, self.clear, self.reset_less = m, clear, reset_less

    def later(self, name: str, event: Value) -> Signal:
        """Register an event: the result is 1 one cycle after the event."""
        register = Signal(event.shape(), name=name, reset_less=self.reset_less)
        self.m.d.sync += register.eq(event)
        with self.m.If(self.clear):
            self.m.d.sync += register.eq(0)
        return register

    def of(self, name: str, event: Any) -> Signal:
        """Count an event."""
        count = Signal(BITS, name=name, reset_less=self.reset_less)
        self.m.d.sync += count.eq(count + event)
        with self.m.If(self.clear):
            self.m.d.sync += count.eq(0)
        return count

    def first(self, name: str, event: Any, index: Any) -> tuple[Signal, Signal]:
        """Count an event, and keep the index at which it occurred first."""
        count = self.of(name, event)
        first = Signal(BITS, name=f"first_of_{name}", reset_less=True)
        with self.m.If(event & (count == 0)):
            self.m.d.sync += first.eq(index)
        return count, first

    def sticky(self, name: str, bits: Any) -> Signal:
        """Keep each bit that was ever 1."""
        seen = Signal(len(bits), name=name, reset_less=self.reset_less)
        self.m.d.sync += seen.eq(seen | bits)
        with self.m.If(self.clear):
            self.m.d.sync += seen.eq(0)
        return seen
