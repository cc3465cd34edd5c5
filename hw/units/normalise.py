"""Leading zeros away: one multiplexer moves groups of bits, the next one bits."""

from __future__ import annotations

import math
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from dynagate.hw.units.rescale import delayed

GROUP = 4
"""Bits that the first stage looks at together."""


class Normalised(NamedTuple):
    """bits: the value with its top one moved to the top, as wide as it was. zeros: how far it moved. empty: it was 0,
    and bits and zeros mean nothing."""

    bits: Value
    zeros: Value
    empty: Value


def normalised(m: Module, value: Value) -> Normalised:
    """Of the unsigned value two cycles ago."""
    width = len(value)
    groups = math.ceil(width / GROUP)
    padded = Cat(Const(0, GROUP * groups - width), value)
    held = Signal(unsigned(len(padded)), name="unmoved", reset_less=True)
    coarse = Signal(range(max(groups, 2)), name="coarse", reset_less=True)
    empty = Signal(name="empty", reset_less=True)
    first: Value = Const(groups - 1)
    for group in reversed(range(groups - 1)):
        top = len(padded) - GROUP * group
        first = Mux(padded[top - GROUP : top].any(), group, first)
    m.d.sync += [held.eq(padded), coarse.eq(first), empty.eq(~value.any())]
    moved = Signal(unsigned(len(padded)), name="moved", reset_less=True)
    m.d.sync += moved.eq(held << Cat(Const(0, (GROUP - 1).bit_length()), coarse))
    fine = Signal(2, name="fine")
    top_bits = moved[-GROUP:]
    m.d.comb += fine.eq(Mux(top_bits[3], 0, Mux(top_bits[2], 1, Mux(top_bits[1], 2, 3))))
    bits = (moved << fine)[len(padded) - width : len(padded)]
    return Normalised(bits, Cat(fine, delayed(m, coarse, 1, "coarse")), delayed(m, empty, 1, "empty"))
