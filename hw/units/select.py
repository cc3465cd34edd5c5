"""Select: the second operand where the first is positive, else the third. One cycle."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.format import Arithmetic, Fixed, Format, Rescaled
from dynagate.fixedpoint.integers import FIXED
from dynagate.hw.units.rescale import Wires, differ, fit, rounding_constant, shift_left


def select_wires(
    m: Module, operands: Sequence[tuple[Value, Format]], to: Format, arithmetic: Arithmetic, name: str
) -> Wires:
    """What is before the register; helper signals start with name."""
    (condition, _), *choices = operands
    frac = max(fmt.frac for _, fmt in choices)
    positive, negative_or_zero = (shift_left(value, frac - fmt.frac) for value, fmt in choices)
    chosen = Mux(~condition[-1] & condition.any(), positive, negative_or_zero)
    constant = rounding_constant(frac - to.frac, arithmetic)
    if constant:
        chosen = chosen + Const(constant, signed(constant.bit_length() + 1))
    return fit(m, chosen, frac, to, arithmetic, name)


class Select(wiring.Component):
    """The unit on its own, for its bench. Ports i0, i1, i2: condition and choices, signed.

    ========  ===  ================================
    o         out  the choice a cycle later, signed
    overflow  out  it does not fit its format
    ========  ===  ================================
    """

    latency = 1

    def __init__(self, sources: Sequence[Format], to: Format, arithmetic: Arithmetic) -> None:
        self.sources, self.to, self.arithmetic = tuple(sources), to, arithmetic
        super().__init__(
            {
                **{f"i{k}": In(signed(fmt.width)) for k, fmt in enumerate(self.sources)},
                "o": Out(signed(to.width)),
                "overflow": Out(1),
            }
        )

    def model(self, *operands: Fixed) -> Rescaled:
        return FIXED["select"].compute(operands, self.to, self.arithmetic)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        operands = [(getattr(self, f"i{k}"), fmt) for k, fmt in enumerate(self.sources)]
        wires = select_wires(m, operands, self.to, self.arithmetic, "o")
        guard = Signal(len(wires.guard), reset_less=True)
        m.d.sync += [self.o.eq(wires.value), guard.eq(wires.guard)]
        m.d.comb += self.overflow.eq(differ(guard))
        return m
