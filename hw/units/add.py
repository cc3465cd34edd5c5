"""Add and subtract: operands aligned by wiring, summed exactly, rounded once. One cycle."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.format import Arithmetic, Fixed, Format, Rescaled
from dynagate.fixedpoint.integers import FIXED
from dynagate.hw.units.rescale import Wires, differ, fit, rounding_constant, shift_left

LATENCY = 1
SIGNS = {"add": (1, 1), "sub": (1, -1), "add_const": (1, 1), "neg": (-1,)}


def add_wires(
    m: Module,
    op: str,
    operands: Sequence[tuple[Value, Format]],
    to: Format,
    arithmetic: Arithmetic,
    name: str,
) -> Wires:
    """The sum's wires, before its register; helper signals start with name."""
    frac = max(fmt.frac for _, fmt in operands)
    aligned = [shift_left(value, frac - fmt.frac) for value, fmt in operands]
    total = aligned[0] if SIGNS[op][0] > 0 else -aligned[0]
    for term, sign in zip(aligned[1:], SIGNS[op][1:], strict=True):
        total = total + term if sign > 0 else total - term
    constant = rounding_constant(frac - to.frac, arithmetic)
    if constant:
        total = total + Const(constant, signed(constant.bit_length() + 1))
    return fit(m, total, frac, to, arithmetic, name)


class Add(wiring.Component):
    """One registered sum: the unit on its own, for its bench. Ports i0, i1: the operands, signed.

    ========  ===  =============================
    o         out  the sum a cycle later, signed
    overflow  out  it does not fit its format
    ========  ===  =============================
    """

    latency = LATENCY

    def __init__(self, op: str, sources: Sequence[Format], to: Format, arithmetic: Arithmetic) -> None:
        self.op, self.sources, self.to, self.arithmetic = op, tuple(sources), to, arithmetic
        super().__init__(
            {
                **{f"i{k}": In(signed(fmt.width)) for k, fmt in enumerate(self.sources)},
                "o": Out(signed(to.width)),
                "overflow": Out(1),
            }
        )

    def model(self, *operands: Fixed) -> Rescaled:
        """The op table's meaning on integers."""
        return FIXED[self.op].compute(operands, self.to, self.arithmetic)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        operands = [(getattr(self, f"i{k}"), fmt) for k, fmt in enumerate(self.sources)]
        wires = add_wires(m, self.op, operands, self.to, self.arithmetic, "o")
        guard = Signal(len(wires.guard), reset_less=True)
        m.d.sync += [self.o.eq(wires.value), guard.eq(wires.guard)]
        m.d.comb += self.overflow.eq(differ(guard))
        return m
