"""Reciprocal of a positive number: normalize, seed from a table, Newton steps, shift back.

The arithmetic is defined by `fixedpoint.elementary.ReciprocalPlan`; the stages follow its lines in order. The binary
points of operand and result enter only through `shift`, so one unit serves operands of any binary point.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.format import Format
from dynagate.hw.units.latencies import (
    SHIFT_BITS,
    Newton,
    newton_steps,
    product_latency,
    reciprocal_latency,
    widths_plan,
)
from dynagate.hw.units.multiply import Multiply
from dynagate.hw.units.normalize import normalized, shifted_down
from dynagate.hw.units.rescale import BLOCK_RAM, delayed, shift_left


class Reciprocal(wiring.Component):
    """Computes o = 1/x, rounded half up, `latency` cycles later. Accepts an operand every cycle.

    ========  ===  ==============================================================
    x         in   signed: the operand
    shift     in   signed: difference of the binary points, see `shift_of`
    o         out  signed: the result
    overflow  out  1: x is not positive, or the result does not fit
    ========  ===  ==============================================================
    """

    def __init__(self, source_width: int, to_width: int) -> None:
        self.source_width, self.to_width = source_width, to_width
        self.plan = widths_plan(source_width, to_width)
        self.latency = reciprocal_latency(source_width, to_width)
        super().__init__(
            {
                "x": In(signed(source_width)),
                "shift": In(signed(SHIFT_BITS)),
                "o": Out(signed(to_width)),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan, width = self.plan, self.source_width
        leading = normalized(m, self.x)
        # if x is not positive, only the flag counts, but the table expects an operand whose top bit is set
        n = Signal(unsigned(width))
        m.d.comb += n.eq(Cat(leading.bits[:-1], Const(1, 1)))
        positive = ~(delayed(m, self.x[-1], 2, "negative") | leading.empty)

        m.submodules.table = table = Memory(
            shape=unsigned(plan.seed_frac + 1), depth=len(plan.seed), init=list(plan.seed), attrs=BLOCK_RAM
        )
        read = table.read_port()
        m.d.comb += [read.addr.eq(n[width - 1 - plan.index_bits : width - 1]), read.en.eq(1)]

        # the shift of the result is known many cycles before the result
        down = Signal(signed(SHIFT_BITS + 1), reset_less=True)
        m.d.sync += down.eq(delayed(m, self.shift, 3, "shift") - delayed(m, leading.zeros, 1, "zeros"))
        least, most = plan.least_down(Format(self.to_width, 0)), plan.most_down
        amount = Signal(range(most - least + 1), reset_less=True)
        fits = Signal(reset_less=True)
        m.d.sync += [
            amount.eq(Mux(down < least, 0, Mux(down > most, most - least, down - least))),
            fits.eq((down >= least) & delayed(m, positive, 2, "positive")),
        ]
        half = Signal(unsigned(most), reset_less=True)
        m.d.sync += half.eq(Const(1 << (least - 1), most) << amount)

        estimate: Value = read.data
        # n is negated, and not the estimate, which leaves a block RAM late in the cycle
        operand: Value = delayed(m, -n, 1, "minus_n")
        steps = newton_steps(self.source_width, self.to_width)
        until_here = 3
        for k, widths in enumerate(steps):
            last = k == len(steps) - 1
            m.submodules[f"newton{k}"] = step = _NewtonStep(width, widths, last=last)
            m.d.comb += [step.minus_n.eq(operand), step.estimate.eq(estimate)]
            if last:
                m.d.comb += step.half.eq(delayed(m, half, until_here + step.half_after - 6, "half"))
            estimate, operand = step.o, delayed(m, operand, widths.latency, f"operand{k}")
            until_here += widths.latency

        amount = delayed(m, amount, until_here - 5, "amount")
        fits = delayed(m, fits, until_here - 5, "fits")
        o, fits_too = shifted_down(m, estimate, least, amount, fits, self.to_width)
        m.d.comb += [self.o.eq(o), self.overflow.eq(o[-1] | ~fits_too)]
        return m


class _NewtonStep(wiring.Component):
    """Computes o = r + r e with e = 1 - n r: the new error is the square of the old one. The last step keeps all bits.

    ========  ===  ==================================================================================
    minus_n   in   signed: minus n
    estimate  in   r
    half      in   last step only: rounding constant, `half_after` cycles after the operands
    o         out  the next estimate
    ========  ===  ==================================================================================
    """

    def __init__(self, width: int, step: Newton, *, last: bool) -> None:
        self.width, self.step, self.last = width, step, last
        self.down = 0 if last else step.have + step.error_frac - step.reached
        self.half_after = product_latency(*step.inner[:2]) + 1
        frac = step.have + step.error_frac
        super().__init__(
            {
                "minus_n": In(signed(width + 1)),
                "estimate": In(unsigned(step.have + 1)),
                "half": In(unsigned(frac + 2)),
                "o": Out(unsigned(frac + 2 - self.down)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        step = self.step
        m.submodules.inner = inner = Multiply(*step.inner)
        m.submodules.outer = outer = Multiply(*step.outer, late_constant=True)
        one = 1 << (self.width - 1 + step.have)
        m.d.comb += [
            inner.a.eq(self.minus_n),
            inner.b.eq(self.estimate),
            inner.c.eq(Const(one, signed(one.bit_length() + 1))),
        ]
        estimate = delayed(m, self.estimate, inner.latency, "estimate")
        half = self.half if self.last else Const(1 << (self.down - 1), self.down + 1)
        rounded = Signal(signed(step.outer[2]), reset_less=True)
        m.d.sync += rounded.eq((delayed(m, estimate, 1, "estimate_too") << step.error_frac) + half)
        cut = self.width - 1 + step.have - step.error_frac
        m.d.comb += [
            outer.a.eq(inner.p >> cut if cut >= 0 else shift_left(inner.p, -cut)),
            outer.b.eq(estimate),
            outer.c.eq(rounded),
            self.o.eq(outer.p[self.down :]),
        ]
        return m
