"""An operation with a unit of its own, registered: the unit for its bench."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.format import Arithmetic, Fixed, Format, Rescaled
from dynagate.fixedpoint.integers import FIXED
from dynagate.hw.units.rescale import differ
from dynagate.hw.units.table import HARDWARE, Own


class OwnUnit(wiring.Component):
    """The result of an operation one cycle after its operands. Ports i0, i1, ...: the operands, signed.

    ========  ===  ================================
    o         out  the result a cycle later, signed
    overflow  out  it does not fit its format
    ========  ===  ================================
    """

    latency = 1

    def __init__(self, op: str, sources: Sequence[Format], to: Format, arithmetic: Arithmetic) -> None:
        row = HARDWARE[op]
        assert isinstance(row, Own)
        self.op, self.wires = op, row.wires
        self.sources, self.to, self.arithmetic = tuple(sources), to, arithmetic
        super().__init__(
            {
                **{f"i{k}": In(signed(fmt.width)) for k, fmt in enumerate(self.sources)},
                "o": Out(signed(to.width)),
                "overflow": Out(1),
            }
        )

    def model(self, *operands: Fixed) -> Rescaled:
        """The operation on integers."""
        return FIXED[self.op].compute(operands, self.to, self.arithmetic)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        operands = [(getattr(self, f"i{k}"), fmt) for k, fmt in enumerate(self.sources)]
        wires = self.wires(m, operands, self.to, self.arithmetic, "o")
        guard = Signal(len(wires.guard), reset_less=True)
        m.d.sync += [self.o.eq(wires.value), guard.eq(wires.guard)]
        m.d.comb += self.overflow.eq(differ(guard))
        return m
