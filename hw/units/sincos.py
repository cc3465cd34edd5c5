"""Sine and cosine of any angle: range reduction by a constant product, table, quadratic interpolation.

The arithmetic is defined by `fixedpoint.elementary.SinePlan`; the stages follow its lines in order.
"""

from __future__ import annotations

from amaranth.hdl import Const, Module, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.elementary import LAST, sine_plan
from dynagate.fixedpoint.format import Format
from dynagate.hw.units.latencies import sine_latency
from dynagate.hw.units.multiply import MultiplyConst
from dynagate.hw.units.quadratic import quadratic
from dynagate.hw.units.rescale import delayed, differ, fit, negated_if, rounding_constant


class SinCos(wiring.Component):
    """Computes o = sin(x) or cos(x), `latency` cycles later. Accepts an angle every cycle.

    ========  ===  =====================================
    x         in   signed: the angle in rad
    cosine    in   1 for the cosine, 0 for the sine
    o         out  signed: the result
    overflow  out  1: the result does not fit its format
    ========  ===  =====================================
    """

    def __init__(self, source: Format, to: Format) -> None:
        self.source, self.to = source, to
        self.plan = sine_plan(source, to)
        self.latency = sine_latency(source, to)
        super().__init__(
            {
                "x": In(signed(source.width)),
                "cosine": In(1),
                "o": Out(signed(to.width)),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan = self.plan
        quarter = plan.quarter.bits
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

        size = quadratic(m, plan.quarter, within)
        negative = delayed(m, negative, size.cycles - 1, "negative")
        signed_size = negated_if(negative, size.value.as_signed())
        if half_bit := rounding_constant(plan.quarter.frac - self.to.frac, LAST):
            signed_size = signed_size + Const(half_bit, signed(half_bit.bit_length() + 1))
        wires = fit(m, signed_size, plan.quarter.frac, self.to, LAST, "o")
        o = Signal.like(self.o, name="value", reset_less=True)
        m.d.sync += o.eq(wires.value)
        m.d.comb += self.o.eq(o)
        if len(wires.guard):
            guard = Signal(len(wires.guard), name="guard", reset_less=True)
            m.d.sync += guard.eq(wires.guard)
            m.d.comb += self.overflow.eq(differ(guard))
        return m
