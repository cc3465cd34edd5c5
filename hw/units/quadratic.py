"""A function on [0, 1) by a table of quadratic polynomials: the gateware of `fixedpoint.elementary.Quadratic`."""

from __future__ import annotations

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed, unsigned
from amaranth.lib.memory import Memory
from dynagate.fixedpoint.elementary import Quadratic
from dynagate.hw.units.latencies import quadratic_products, signed_width
from dynagate.hw.units.multiply import Multiply
from dynagate.hw.units.rescale import BLOCK_RAM, delayed, shift_left


class Computed(NamedTuple):
    """Value of a function."""

    value: Value
    """Value with the fraction bits of the plan. Its top bit is the sign."""
    cycles: int
    """Cycles from the argument to the value."""


def quadratic(m: Module, plan: Quadratic, u: Value) -> Computed:
    """Add the table and the products to a module, and return the function of u.

    Args:
        m: Module to add to.
        plan: Table and widths.
        u: Argument, unsigned, with the bits of the plan.
    """
    m.submodules.table = table = _table(plan)
    read = table.read_port()
    m.d.comb += [read.addr.eq(u[plan.offset_bits :]), read.en.eq(1)]
    offset = Signal(signed(plan.offset_bits), reset_less=True)
    # minus half a segment: the top bit of the offset becomes its sign, inverted
    m.d.sync += offset.eq(Cat(u[: plan.offset_bits - 1], ~u[plan.offset_bits - 1]))
    w1, w2 = (signed_width(c) for c in (plan.c1, plan.c2))
    c2, c1, c0 = (
        read.data[:w2].as_signed(),
        read.data[w2 : w2 + w1].as_signed(),
        read.data[w2 + w1 :].as_signed(),
    )
    inner_widths, outer_widths = quadratic_products(plan)
    m.submodules.inner = inner = Multiply(*inner_widths)
    half = Const(1 << (plan.inner_shift - 1), plan.inner_shift)
    m.d.comb += [inner.a.eq(offset), inner.b.eq(c2), inner.c.eq(Cat(half, c1).as_signed())]

    m.submodules.outer = outer = Multiply(*outer_widths)
    c0 = delayed(m, c0, inner.latency, "c0", packed=True)
    m.d.comb += [
        outer.a.eq(delayed(m, offset, inner.latency, "offset")),
        outer.b.eq(inner.p >> plan.inner_shift),
        outer.c.eq(shift_left(c0, plan.outer_frac - plan.frac0)),
    ]
    shift = plan.outer_shift
    return Computed(outer.p[shift:], 1 + inner.latency + outer.latency)


def _table(plan: Quadratic) -> Memory:
    # half a unit of the result's last place is in c0 already
    c0 = tuple(c + (1 << (plan.frac0 - plan.frac - 1)) for c in plan.c0)
    w0, w1, w2 = (signed_width(c) for c in (c0, plan.c1, plan.c2))
    words = [
        (a & ((1 << w0) - 1)) << (w1 + w2) | (b & ((1 << w1) - 1)) << w2 | (c & ((1 << w2) - 1))
        for a, b, c in zip(c0, plan.c1, plan.c2, strict=True)
    ]
    return Memory(shape=unsigned(w0 + w1 + w2), depth=len(words), init=words, attrs=BLOCK_RAM)
