"""1/x: normalise, seed from a table, Newton steps, shift back.

`fixedpoint.elementary.ReciprocalPlan` says what is computed; the stages here are its lines, in order. The binary
points of operand and result enter only through `shift`, so one unit serves operands of any binary point.
"""

from __future__ import annotations

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.elementary import SATURATING, ReciprocalPlan, reciprocal, reciprocal_plan
from dynagate.fixedpoint.format import Format, Integers, Rescaled
from dynagate.hw.units.multiply import Multiply
from dynagate.hw.units.multiply import latency as product_latency
from dynagate.hw.units.rescale import delayed, fit

SHIFT_BITS = 10


def shift_of(source: Format, to: Format) -> int:
    """The `shift` input for an operand and a result of these formats, refused where it does not fit its port."""
    shift = reciprocal_plan(source, to).shift
    if not -(1 << (SHIFT_BITS - 1)) <= shift < 1 << (SHIFT_BITS - 1):
        raise ValueError(f"reciprocal of {source} as {to}: the binary points are {shift} bits apart")
    return shift


class Newton(NamedTuple):
    """One step: fraction bits of the estimate, of its error and of the next estimate; operand and sum widths of its
    two products, 1 - n r and r + r e."""

    have: int
    error_frac: int
    reached: int
    inner: tuple[int, int, int]
    outer: tuple[int, int, int]

    @property
    def latency(self) -> int:
        return product_latency(*self.inner[:2]) + product_latency(*self.outer[:2])


def newton_steps(source_width: int, to_width: int) -> list[Newton]:
    plan = _plan(source_width, to_width)
    return [
        Newton(
            have,
            error_frac,
            reached,
            (source_width + 1, have + 2, source_width + have + 2),
            (error_frac - plan.index_bits + 3, have + 2, have + error_frac + 3),
        )
        for have, error_frac, reached in plan.steps
    ]


def latency(source_width: int, to_width: int) -> int:
    """Four stages to the seed, the Newton steps, four stages back."""
    return 8 + sum(step.latency for step in newton_steps(source_width, to_width))


def _plan(source_width: int, to_width: int) -> ReciprocalPlan:
    return reciprocal_plan(Format(source_width, 0), Format(to_width, 0))


class Reciprocal(wiring.Component):
    """o = 1/x rounded half up in magnitude, `latency` cycles later; 1/0 saturates. A new operand every cycle."""

    def __init__(self, source_width: int, to_width: int) -> None:
        self.source_width, self.to_width = source_width, to_width
        self.plan = _plan(source_width, to_width)
        self.latency = latency(source_width, to_width)
        super().__init__(
            {
                "x": In(signed(source_width)),
                "shift": In(signed(SHIFT_BITS)),
                "o": Out(signed(to_width)),
                "overflow": Out(1),
            }
        )

    def model(self, x: Integers, source: Format, to: Format) -> Rescaled:
        return reciprocal(x, source, to)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan, width = self.plan, self.source_width

        size = Signal(unsigned(width), reset_less=True)
        m.d.sync += size.eq(Mux(self.x < 0, -self.x, self.x))

        zeros = Signal(range(width + 1), reset_less=True)
        m.d.sync += zeros.eq(_leading_zeros(m, size))
        size_d = delayed(m, size, 1, "size")

        n = Signal(unsigned(width), reset_less=True)
        # 1/0 overflows whatever n is, but n must be what the integers say
        m.d.sync += n.eq(Mux(zeros == width, Const(1 << (width - 1), width), (size_d << zeros)[:width]))

        m.submodules.table = table = Memory(
            shape=unsigned(plan.seed_frac + 1), depth=len(plan.seed), init=list(plan.seed)
        )
        read = table.read_port()
        m.d.comb += [read.addr.eq(n[width - 1 - plan.index_bits : width - 1]), read.en.eq(1)]

        estimate: Value = read.data
        operand = delayed(m, n, 1, "n")
        steps = newton_steps(self.source_width, self.to_width)
        for k, widths in enumerate(steps):
            m.submodules[f"newton{k}"] = step = _NewtonStep(width, widths)
            m.d.comb += [step.n.eq(operand), step.estimate.eq(estimate)]
            estimate, operand = step.o, delayed(m, operand, widths.latency, f"operand{k}")

        until_here = 4 + sum(step.latency for step in steps)
        zeros_here = delayed(m, zeros, until_here - 2, "zeros")
        shift = delayed(m, self.shift, until_here, "shift")
        negative = delayed(m, self.x[-1], until_here, "negative")

        # right shift by down = shift - zeros with rounding: by down - 1, then (v + 1) >> 1
        down = Signal(signed(SHIFT_BITS + 1), reset_less=True)
        m.d.sync += down.eq(shift - zeros_here)
        held = delayed(m, estimate, 1, "estimate")
        zero = delayed(m, zeros_here == width, 1, "zero")
        most = plan.frac + 2
        amount = Signal(range(most), reset_less=True)
        too_large = Signal(reset_less=True)
        m.d.sync += [
            amount.eq(Mux(down < 1, 0, Mux(down > most, most - 1, down - 1))),
            too_large.eq((down < 1) | zero),
        ]
        held = delayed(m, held, 1, "held")
        shifted = Signal(unsigned(len(held)), reset_less=True)
        m.d.sync += shifted.eq(held >> amount)
        too_large = delayed(m, too_large, 1, "too_large")
        rounded = Mux(too_large, Const(1 << self.to_width, self.to_width + 1), (shifted + 1) >> 1)
        result = Mux(delayed(m, negative, 3, "sign"), -rounded, rounded)
        value, overflow = fit(m, result, 0, Format(self.to_width, 0), SATURATING, "o")
        o, flag = (
            Signal(signed(self.to_width), name="value", reset_less=True),
            Signal(name="flag", reset_less=True),
        )
        m.d.sync += [o.eq(value), flag.eq(overflow)]
        m.d.comb += [self.o.eq(o), self.overflow.eq(flag)]
        return m


def _leading_zeros(m: Module, value: Value) -> Value:
    """Zeros above the top one bit: halving, one mux level per bit of the count."""
    width = len(value)
    full = 1 << (width - 1).bit_length()
    rest: Value = Cat(Const((1 << (full - width)) - 1, full - width), value) if full > width else value
    bits = []
    size = full
    while size > 1:
        size //= 2
        top, bottom = rest[size:], rest[:size]
        empty = Signal(name=f"empty{size}")
        m.d.comb += empty.eq(top == 0)
        bits.append(empty)
        rest = Mux(empty, bottom, top)
    count = Cat(*reversed(bits))
    # padding ones below the value stop the count at its width; a full-width value of zero needs one more
    return count if full > width else Mux(rest[0], count, width)


class _NewtonStep(wiring.Component):
    """o = r + r e with e = 1 - n r: the seed's error, squared."""

    def __init__(self, width: int, step: Newton) -> None:
        self.width, self.step = width, step
        super().__init__(
            {
                "n": In(unsigned(width)),
                "estimate": In(unsigned(step.have + 1)),
                "o": Out(unsigned(step.reached + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        step = self.step
        m.submodules.inner = inner = Multiply(*step.inner)
        m.submodules.outer = outer = Multiply(*step.outer)
        one = 1 << (self.width - 1 + step.have)
        m.d.comb += [
            inner.a.eq(self.n),
            inner.b.eq(-self.estimate),
            inner.c.eq(Const(one, signed(one.bit_length() + 1))),
        ]
        estimate = delayed(m, self.estimate, inner.latency, "estimate")
        down = step.have + step.error_frac - step.reached
        half = Const(1 << (down - 1), down + 1)
        m.d.comb += [
            outer.a.eq(inner.p >> (self.width - 1 + step.have - step.error_frac)),
            outer.b.eq(estimate),
            outer.c.eq((estimate << step.error_frac) + half),
            self.o.eq(outer.p >> down),
        ]
        return m
