"""Add and subtract: operands aligned by wiring, summed exactly, rounded once. One cycle."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Value, signed
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.hw.units.rescale import Wires, fit, rounding_constant, shift_left

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
