"""Normalize and shift: remove leading zeros by two multiplexers, one for groups of bits and one for single bits."""

from __future__ import annotations

import math
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from dynagate.hw.units.rescale import delayed

GROUP = 4
"""Bits that the first multiplexer shifts at once."""


class Normalized(NamedTuple):
    """A value without leading zeros."""

    bits: Value
    """The value with its top one shifted to the top bit, in the same width."""
    zeros: Value
    """Number of leading zeros that were removed."""
    empty: Value
    """1: the value was 0, and bits and zeros are undefined."""


def normalized(m: Module, value: Value) -> Normalized:
    """Normalize an unsigned value. The result is two cycles late."""
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
    """Return the index of the first bit that is 1, or the last index if no bit is.

    Both halves are searched in parallel, so that no combinational chain forms.
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
        m: Module that the registers are added to.
        value: Unsigned value.
        least: Smallest shift in bits. It is applied as a slice, because a simulator computes a shift of a shift wrong.
        amount: Bits to shift beyond `least`, unsigned.
        fits: Whether the result fits.
        width: Bits of the result.

    Returns:
        The shifted value, signed, or 0 if it does not fit; and `fits`. Both are two cycles late.
    """
    coarse = Signal(unsigned(len(value) - least), reset_less=True)
    m.d.sync += coarse.eq(Mux(fits, value[least:] >> Cat(Const(0, FINE_BITS), amount[FINE_BITS:]), 0))
    o = Signal(signed(width), name="value", reset_less=True)
    m.d.sync += o.eq(coarse >> delayed(m, amount[:FINE_BITS], 1, "fine"))
    return o, delayed(m, fits, 2, "fits_too")
