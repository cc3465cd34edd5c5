"""sin and cos of any angle: range reduction by a constant product, table, quadratic interpolation.

`fixedpoint.elementary.SinePlan` says what is computed; the stages here are its lines, in order.
"""

from __future__ import annotations

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.elementary import LAST, cosine, sine, sine_plan
from dynagate.fixedpoint.format import Format, Integers, Rescaled
from dynagate.hw.units.multiply import Multiply, MultiplyConst, constant_width
from dynagate.hw.units.multiply import latency as product_latency
from dynagate.hw.units.rescale import BLOCK_RAM, delayed, differ, fit, negated_if, rounding_constant, shift_left


def _signed_width(values: tuple[int, ...]) -> int:
    return max(v.bit_length() for v in values) + 1


class Products(NamedTuple):
    """Operand and sum widths of the unit's three products."""

    reduce: tuple[int, int]
    inner: tuple[int, int, int]
    outer: tuple[int, int, int]


def products(source: Format, to: Format) -> Products:
    plan = sine_plan(source, to)
    # c1 and the carries of d c2 may need one bit more than c1 alone
    slope = _signed_width(plan.c1) + 1
    return Products(
        (source.width, constant_width(plan.per_radian)),
        (plan.offset_bits, _signed_width(plan.c2), slope + plan.inner_shift),
        (plan.offset_bits, slope, plan.outer_frac + 3),
    )


def latency(source: Format, to: Format) -> int:
    """The products, a stage for folding and the table, one for the sign."""
    return sum(product_latency(*widths[:2]) for widths in products(source, to)) + 2


class SinCos(wiring.Component):
    """o = sin(x) or cos(x), `latency` cycles later. A new angle every cycle.

    ========  ===  ================================
    x         in   the angle in rad, signed
    cosine    in   1 for the cosine, 0 for the sine
    o         out  the result, signed
    overflow  out  it does not fit its format
    ========  ===  ================================
    """

    def __init__(self, source: Format, to: Format) -> None:
        self.source, self.to = source, to
        self.plan = sine_plan(source, to)
        self.latency = latency(source, to)
        super().__init__(
            {
                "x": In(signed(source.width)),
                "cosine": In(1),
                "o": Out(signed(to.width)),
                "overflow": Out(1),
            }
        )

    def model(self, x: Integers, cosine_wanted: bool) -> Rescaled:
        return (cosine if cosine_wanted else sine)(x, self.source, self.to)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan = self.plan
        quarter = plan.phase_bits - 2

        widths = products(self.source, self.to)
        m.submodules.reduce = reduce = MultiplyConst(self.source.width, plan.per_radian)
        m.d.comb += reduce.a.eq(self.x)
        wants_cosine = delayed(m, self.cosine, reduce.latency, "wants_cosine")
        phase = Signal(unsigned(plan.phase_bits))
        m.d.comb += phase.eq(reduce.p >> plan.phase_shift)
        # cos x = sin(x + a quarter turn): a sum of the top two bits
        odd = Signal()
        second_half = Signal()
        m.d.comb += [
            odd.eq(phase[quarter] ^ wants_cosine),
            second_half.eq(phase[quarter + 1] ^ (phase[quarter] & wants_cosine)),
        ]
        # odd quadrants run backwards through the quarter's table
        within = Signal(unsigned(quarter))
        m.d.comb += within.eq(phase[:quarter] ^ odd.replicate(quarter))
        negative = delayed(m, second_half, 1, "second_half")

        m.submodules.table = table = self._table()
        read = table.read_port()
        m.d.comb += [read.addr.eq(within[plan.offset_bits :]), read.en.eq(1)]
        offset = Signal(signed(plan.offset_bits), reset_less=True)
        # minus half a segment: the top bit of the offset becomes its sign, inverted
        m.d.sync += offset.eq(Cat(within[: plan.offset_bits - 1], ~within[plan.offset_bits - 1]))
        w1, w2 = (_signed_width(c) for c in (plan.c1, plan.c2))
        c2, c1, c0 = (
            read.data[:w2].as_signed(),
            read.data[w2 : w2 + w1].as_signed(),
            read.data[w2 + w1 :].as_signed(),
        )

        m.submodules.inner = inner = Multiply(*widths.inner)
        half = Const(1 << (plan.inner_shift - 1), plan.inner_shift)
        m.d.comb += [inner.a.eq(offset), inner.b.eq(c2), inner.c.eq(Cat(half, c1).as_signed())]

        m.submodules.outer = outer = Multiply(*widths.outer)
        shift = plan.outer_frac - max(self.to.frac, 2)
        c0 = delayed(m, c0, inner.latency, "c0")
        m.d.comb += [
            outer.a.eq(delayed(m, offset, inner.latency, "offset")),
            outer.b.eq(inner.p >> plan.inner_shift),
            outer.c.eq(shift_left(c0, plan.outer_frac - plan.frac0)),
        ]
        # no sine is 2 or more, whatever the product's width
        size = outer.p[shift : shift + max(self.to.frac, 2) + 2].as_signed()
        negative = delayed(m, negative, inner.latency + outer.latency, "negative")
        signed_size = negated_if(negative, size)
        if half_bit := rounding_constant(max(self.to.frac, 2) - self.to.frac, LAST):
            signed_size = signed_size + Const(half_bit, signed(half_bit.bit_length() + 1))
        wires = fit(m, signed_size, max(self.to.frac, 2), self.to, LAST, "o")
        o = Signal.like(self.o, name="value", reset_less=True)
        guard = Signal(len(wires.guard), name="guard", reset_less=True)
        m.d.sync += [o.eq(wires.value), guard.eq(wires.guard)]
        m.d.comb += [self.o.eq(o), self.overflow.eq(differ(guard))]
        return m

    def _table(self) -> Memory:
        plan = self.plan
        # half a unit of the result's last place is in c0 already
        c0 = tuple(c + (1 << (plan.frac0 - max(self.to.frac, 2) - 1)) for c in plan.c0)
        w0, w1, w2 = (_signed_width(c) for c in (c0, plan.c1, plan.c2))
        words = [
            (a & ((1 << w0) - 1)) << (w1 + w2) | (b & ((1 << w1) - 1)) << w2 | (c & ((1 << w2) - 1))
            for a, b, c in zip(c0, plan.c1, plan.c2, strict=True)
        ]
        return Memory(shape=unsigned(w0 + w1 + w2), depth=len(words), init=words, attrs=BLOCK_RAM)
