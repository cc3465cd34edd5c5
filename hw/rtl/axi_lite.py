"""An AXI4-Lite subordinate with one write and one read at a time and registered responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from amaranth.hdl import Array, Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.hw.rtl.regmap import ADDRESS_BITS, BITS, OKAY, REGISTERS, SLVERR, WRITE

PORTS = {
    "awaddr": In(ADDRESS_BITS),
    "awprot": In(3),
    "awvalid": In(1),
    "awready": Out(1),
    "wdata": In(BITS),
    "wstrb": In(BITS // 8),
    "wvalid": In(1),
    "wready": Out(1),
    "bresp": Out(2),
    "bvalid": Out(1),
    "bready": In(1),
    "araddr": In(ADDRESS_BITS),
    "arprot": In(3),
    "arvalid": In(1),
    "arready": Out(1),
    "rdata": Out(BITS),
    "rresp": Out(2),
    "rvalid": Out(1),
    "rready": In(1),
}
"""Ports of AXI4-Lite, by name without prefix."""


class AxiLite(wiring.Component):
    """Registers behind AXI4-Lite. An unknown address, or a write to a read-only register, is answered with SLVERR.

    A choice of outputs is also answered with SLVERR if it omits all outputs of a function, or while samples are under
    way. The ports of AXI4-Lite are listed in PORTS; the others are:

    ===============  ===  ========================================================================
    written          out  8 bits, valid for one cycle: the low byte that was written to `control`
    parameter        out  index of the parameter that is written
    parameter_word   out  32 bits: the word that is written to it
    parameter_valid  out  1 for one cycle: a parameter is written
    outputs          out  one bit per output: the output is sent
    idle             in   1: no sample is under way
    restore          in   1: choose all outputs
    ===============  ===  ========================================================================

    Args:
        values: Value that each register reads as, by name. Names outside the register table follow the table.
        parameters: Words of the parameter registers, which follow the table, after a reset.
        choices: Number of outputs of each function. A register after the parameters has a bit for each output.
    """

    def __init__(
        self, values: Mapping[str, Value], parameters: Sequence[int] = (), choices: Sequence[int] = ()
    ) -> None:
        self.values, self._parameters, self._choices = values, tuple(parameters), tuple(choices)
        place = {"parameter": Out(range(max(len(parameters), 1)))} if parameters else {}
        word = {"parameter_word": Out(BITS), "parameter_valid": Out(1)} if parameters else {}
        every = sum(choices)
        chosen = {"outputs": Out(every, init=(1 << every) - 1), "idle": In(1), "restore": In(1)} if choices else {}
        super().__init__({**PORTS, "written": Out(8), **place, **word, **chosen})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        have_address = Signal()
        have_data = Signal()
        address = Signal(ADDRESS_BITS)
        data = Signal(BITS if self._parameters or self._choices else 8)
        strobe = Signal()
        whole = Signal()
        m.d.comb += [self.awready.eq(~have_address), self.wready.eq(~have_data)]
        with m.If(self.awvalid & self.awready):
            m.d.sync += [have_address.eq(1), address.eq(self.awaddr)]
        with m.If(self.wvalid & self.wready):
            m.d.sync += [have_data.eq(1), data.eq(self.wdata), strobe.eq(self.wstrb[0])]
            m.d.sync += whole.eq(self.wstrb.all())
        with m.If(self.bvalid & self.bready):
            m.d.sync += self.bvalid.eq(0)
        writable = [r.address for r in REGISTERS.values() if r.access == WRITE]
        first, count = len(REGISTERS), len(self._parameters)
        kept = [Signal(BITS, name=f"parameter_{k}", init=word) for k, word in enumerate(self._parameters)]
        is_parameter = Signal()
        if count:
            place = (address >> 2) - first
            m.d.comb += [
                is_parameter.eq((address >> 2 >= first) & (address >> 2 < first + count)),
                self.parameter.eq(place),
                self.parameter_word.eq(data),
                self.parameter_valid.eq(have_address & have_data & ~self.bvalid & is_parameter & whole),
            ]
            for k, register in enumerate(kept):
                with m.If(self.parameter_valid & (self.parameter == k)):
                    m.d.sync += register.eq(data)
        is_choice = self._choose(m, have_address & have_data & ~self.bvalid, address, data, whole)
        with m.If(have_address & have_data & ~self.bvalid):
            fits = Signal()
            m.d.comb += fits.eq(sum(((address >> 2) == a >> 2 for a in writable), Const(0)) != 0)
            m.d.comb += self.written.eq(data[:8] & (fits & strobe).replicate(8))
            m.d.sync += [
                have_address.eq(0),
                have_data.eq(0),
                self.bvalid.eq(1),
                self.bresp.eq(SLVERR - (SLVERR - OKAY) * (fits | is_choice | (is_parameter & whole))),
            ]

        reading = Signal()
        self.have_address, self.have_data, self.reading = have_address, have_data, reading
        chosen = Signal(ADDRESS_BITS)
        m.d.comb += self.arready.eq(~reading & ~self.rvalid)
        m.d.sync += reading.eq(self.arvalid & self.arready)
        with m.If(self.arvalid & self.arready):
            m.d.sync += chosen.eq(self.araddr)
        with m.If(self.rvalid & self.rready):
            m.d.sync += self.rvalid.eq(0)
        own = [value for name, value in self.values.items() if name not in REGISTERS]
        words = Array([*(self.values.get(name, Const(0, BITS)) for name in REGISTERS), *kept, *self._chosen, *own])
        with m.If(reading):
            m.d.sync += [
                self.rvalid.eq(1),
                self.rdata.eq(words[chosen >> 2]),
                self.rresp.eq(SLVERR * ((chosen >> 2) >= len(words))),
            ]
        return m

    @property
    def _chosen(self) -> list[Signal]:
        return [self.outputs] if self._choices else []

    def _choose(self, m: Module, write: Value, address: Signal, data: Signal, whole: Signal) -> Value:
        """Accept a choice of outputs that is written. Return whether it is valid."""
        if not self._choices:
            return Const(0)
        starts = [sum(self._choices[:k]) for k in range(len(self._choices) + 1)]
        is_choice = Signal()
        m.d.comb += is_choice.eq(
            (address >> 2 == len(REGISTERS) + len(self._parameters))
            & whole
            & self.idle
            & Cat(data[low:high].any() for low, high in pairwise(starts)).all()
            & ~data[starts[-1] :].any()
        )
        with m.If(write & is_choice):
            m.d.sync += self.outputs.eq(data)
        with m.If(self.restore):
            m.d.sync += self.outputs.eq(self.outputs.init)
        return is_choice
