"""Leading zeros away: one multiplexer moves groups of bits, the next one bits."""

from __future__ import annotations

import math
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from dynagate.hw.units.rescale import delayed

GROUP = 4
"""Bits that the first stage looks at together."""


class Normalized(NamedTuple):
    """bits: the value with its top one moved to the top, as wide as it was. zeros: how far it moved. empty: it was 0,
    and bits and zeros mean nothing."""

    bits: Value
    zeros: Value
    empty: Value


def normalized(m: Module, value: Value) -> Normalized:
    """Normalize the unsigned value of two cycles ago."""
    width = len(value)
    groups = math.ceil(width / GROUP)
    padded = Cat(Const(0, GROUP * groups - width), value)
    held = Signal(unsigned(len(padded)), name="unmoved", reset_less=True)
    coarse = Signal(range(max(groups, 2)), name="coarse", reset_less=True)
    empty = Signal(name="empty", reset_less=True)
    filled = [padded[top - GROUP : top].any() for top in range(len(padded), 0, -GROUP)]
    m.d.sync += [held.eq(padded), coarse.eq(_first(filled)), empty.eq(~value.any())]
    moved = Signal(unsigned(len(padded)), name="moved", reset_less=True)
    m.d.sync += moved.eq(held << Cat(Const(0, (GROUP - 1).bit_length()), coarse))
    fine = Signal(2, name="fine")
    top_bits = moved[-GROUP:]
    m.d.comb += fine.eq(Mux(top_bits[3], 0, Mux(top_bits[2], 1, Mux(top_bits[1], 2, 3))))
    bits = (moved << fine)[len(padded) - width : len(padded)]
    return Normalized(bits, Cat(fine, delayed(m, coarse, 1, "coarse")), delayed(m, empty, 1, "empty"))


def _first(flags: list[Value]) -> Value:
    """Position of the first that is set, or the last position: both halves are searched in parallel, so that no chain
    forms.
    """
    if len(flags) == 1:
        return Const(0, 1)
    half = 1 << (len(flags) - 1).bit_length() - 1
    before, after = flags[:half], flags[half:]
    any_before = Cat(*before).any()
    low = Mux(any_before, _first(before), _first(after))
    return Cat(low[: half.bit_length() - 1], ~any_before) if half > 1 else ~any_before


FINE_BITS = 3
"""Bits of the fine shift: one multiplexer shifts by multiples of eight, the next one by single bits."""


def shifted_down(m: Module, value: Value, least: int, amount: Value, fits: Value, width: int) -> tuple[Value, Value]:
    """Shift an unsigned value right by `least + amount` bits in two cycles.

    Args:
        m: the module that the registers are added to.
        value: the unsigned value.
        least: the smallest shift, in bits. It is a slice: a shift of a shift is what a simulator computes wrong.
        amount: the bits to shift beyond `least`, unsigned.
        fits: whether the result fits.
        width: the width of the result, in bits.

    Returns:
        The shifted value, signed, or 0 where it does not fit; and `fits`. Both are two cycles late.
    """
    coarse = Signal(unsigned(len(value) - least), reset_less=True)
    m.d.sync += coarse.eq(Mux(fits, value[least:] >> Cat(Const(0, FINE_BITS), amount[FINE_BITS:]), 0))
    o = Signal(signed(width), name="value", reset_less=True)
    m.d.sync += o.eq(coarse >> delayed(m, amount[:FINE_BITS], 1, "fine"))
    return o, delayed(m, fits, 2, "fits_too")
