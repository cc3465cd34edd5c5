"""Select in one cycle: the second operand if the first is positive, else the third."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Mux, Value, signed
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.hw.units.rescale import Wires, fit, rounding_constant, shift_left


def select_wires(
    m: Module, operands: Sequence[tuple[Value, Format]], to: Format, arithmetic: Arithmetic, name: str
) -> Wires:
    """Return the wires of a selection before its output register.

    Args:
        m: Module to add to.
        operands: Condition and two values, with their formats.
        to: Format of the result.
        arithmetic: Rounding and overflow.
        name: Prefix of the names of helper signals.
    """
    (condition, _), *choices = operands
    frac = max(fmt.frac for _, fmt in choices)
    positive, negative_or_zero = (shift_left(value, frac - fmt.frac) for value, fmt in choices)
    chosen = Mux(~condition[-1] & condition.any(), positive, negative_or_zero)
    constant = rounding_constant(frac - to.frac, arithmetic)
    if constant:
        chosen = chosen + Const(constant, signed(constant.bit_length() + 1))
    return fit(m, chosen, frac, to, arithmetic, name)
