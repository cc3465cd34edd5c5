"""Multiply and add in one cycle: product and addend are aligned by wiring, summed exactly and rounded once."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Const, Module, Value, signed
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.hw.units.rescale import Wires, fit, rounding_constant, shift_left

SIGNS = {"multiply_add": (1, 1), "multiply_sub": (1, -1), "sub_multiply": (-1, 1)}
"""Signs of the product and of the addend, by operation."""


def fused_wires(
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
        operands: Two factors and an addend, with their formats.
        to: Format of the result.
        arithmetic: Rounding and overflow.
        name: Prefix of the names of helper signals.
    """
    (a, fa), (b, fb), (c, fc) = operands
    below = fa.frac + fb.frac
    frac = max(below, fc.frac)
    product, addend = shift_left(a * b, frac - below), shift_left(c, frac - fc.frac)
    signs = SIGNS[op]
    total = addend - product if signs[0] < 0 else product + addend if signs[1] > 0 else product - addend
    constant = rounding_constant(frac - to.frac, arithmetic)
    if constant:
        total = total + Const(constant, signed(constant.bit_length() + 1))
    return fit(m, total, frac, to, arithmetic, name)
