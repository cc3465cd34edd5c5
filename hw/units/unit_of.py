"""Build the unit of one operation for its bench: registered, with constants at its other ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from amaranth.hdl import Const, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.hw.units.rescale import differ
from dynagate.hw.units.table import HARDWARE, Elementary, Own


class OwnUnit(wiring.Component):
    """The unit of an operation that shares none, with its output register. Ports i0, i1, ... are the signed operands.

    ========  ===  ======================================
    o         out  signed: the result, one cycle later
    overflow  out  1: the result does not fit its format
    ========  ===  ======================================
    """

    latency = 1
    """Cycles from the operands to the result."""

    def __init__(
        self, op: str, sources: Sequence[Format], to: Format, arithmetic: Arithmetic, exact_width: int | None
    ) -> None:
        row = HARDWARE[op]
        assert isinstance(row, Own)
        self.wires = row.wires
        self.sources, self.to, self.arithmetic, self.exact_width = tuple(sources), to, arithmetic, exact_width
        super().__init__(
            {
                **{f"i{k}": In(signed(fmt.width)) for k, fmt in enumerate(self.sources)},
                "o": Out(signed(to.width)),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        operands = [(getattr(self, f"i{k}"), fmt) for k, fmt in enumerate(self.sources)]
        wires = self.wires(m, operands, self.to, self.arithmetic, "o")
        bits = wires.guard_within(self.to, self.exact_width)
        guard = Signal(len(bits), reset_less=True)
        m.d.sync += [self.o.eq(wires.value), guard.eq(bits)]
        m.d.comb += self.overflow.eq(differ(guard))
        return m


class UnitOf(NamedTuple):
    """A unit for its bench."""

    component: Any
    """Component with `latency` and the ports o and overflow."""
    operands: tuple[str, ...]
    """Names of the operand ports."""
    held: Mapping[str, Const]
    """Constants at the other ports."""


def unit_of(
    op: str, sources: Sequence[Format], to: Format, arithmetic: Arithmetic, exact_width: int | None = None
) -> UnitOf:
    """Return the unit of an operation other than a product.

    Args:
        op: Name of the operation.
        sources: Formats of the operands.
        to: Format of the result.
        arithmetic: Rounding and overflow.
        exact_width: Bits that hold all rounded results of a sum before they wrap; None if no number is known.
    """
    row = HARDWARE[op]
    if isinstance(row, Own):
        return UnitOf(
            OwnUnit(op, sources, to, arithmetic, exact_width), tuple(f"i{k}" for k in range(len(sources))), {}
        )
    assert isinstance(row, Elementary)
    held = {name: Const.cast(value) for name, value in row.constants(sources[0], to).items()}
    return UnitOf(row.core(*row.key(sources[0], to)), ("x",), held)
