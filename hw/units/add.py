"""Add and subtract in one cycle: operands are aligned by wiring, summed exactly and rounded once."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Value, signed
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.hw.units.rescale import Wires, fit, rounding_constant, shift_left

LATENCY = 1
"""Cycles from the operands to the result."""
SIGNS = {"add": (1, 1), "sub": (1, -1), "add_const": (1, 1), "neg": (-1,)}
"""Signs of the operands, by operation."""


def add_wires(
    m: Module,
    op: str,
    operands: Sequence[tuple[Value, Format]],
    to: Format,
    arithmetic: Arithmetic,
    name: str,
) -> Wires:
    """Return the wires of a sum before its output register.

    Args:
        m: Module to add to.
        op: Operation, a key of SIGNS.
        operands: Signals with their formats.
        to: Format of the result.
        arithmetic: Rounding and overflow.
        name: Prefix of the names of helper signals.
    """
    frac = max(fmt.frac for _, fmt in operands)
    aligned = [shift_left(value, frac - fmt.frac) for value, fmt in operands]
    total = aligned[0] if SIGNS[op][0] > 0 else -aligned[0]
    for term, sign in zip(aligned[1:], SIGNS[op][1:], strict=True):
        total = total + term if sign > 0 else total - term
    constant = rounding_constant(frac - to.frac, arithmetic)
    if constant:
        total = total + Const(constant, signed(constant.bit_length() + 1))
    return fit(m, total, frac, to, arithmetic, name)
