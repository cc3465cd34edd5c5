"""Exponential function: range reduction by a constant product, table, quadratic interpolation, shift.

The arithmetic is defined by `fixedpoint.elementary.ExpPlan`; the stages follow its lines in order.
"""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.elementary import exp_plan
from dynagate.fixedpoint.format import Format
from dynagate.hw.units.latencies import exp_latency
from dynagate.hw.units.multiply import MultiplyConst
from dynagate.hw.units.normalize import shifted_down
from dynagate.hw.units.quadratic import quadratic
from dynagate.hw.units.rescale import delayed, shift_left


class Exp(wiring.Component):
    """Computes o = exp(x), rounded half up, `latency` cycles later. Accepts an operand every cycle.

    ========  ===  =====================================
    x         in   signed: the operand
    o         out  signed: the result
    overflow  out  1: the result does not fit its format
    ========  ===  =====================================
    """

    def __init__(self, source: Format, to: Format) -> None:
        self.source, self.to = source, to
        self.plan = exp_plan(source, to)
        self.latency = exp_latency(source, to)
        super().__init__({"x": In(signed(source.width)), "o": Out(signed(to.width)), "overflow": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan, power = self.plan, self.plan.power
        m.submodules.reduce = reduce = MultiplyConst(self.source.width, plan.per_unit)
        m.d.comb += reduce.a.eq(self.x)
        t = Signal(signed(max(len(reduce.p) - plan.shift, power.bits + 1)))
        m.d.comb += t.eq(reduce.p >> plan.shift if plan.shift >= 0 else shift_left(reduce.p, -plan.shift))

        # how far the result will go down, known long before it
        least, most = plan.least_down(self.to), plan.most_down
        whole = t[power.bits :].as_signed()
        down = Signal(signed(max(len(whole), plan.down.bit_length() + 1) + 1), reset_less=True)
        amount = Signal(range(most - least + 1), reset_less=True)
        fits = Signal(reset_less=True)
        half = Signal(unsigned(most), reset_less=True)
        m.d.sync += [
            down.eq(Const(plan.down, signed(plan.down.bit_length() + 1)) - whole),
            amount.eq(Mux(down < least, 0, Mux(down > most, most - least, down - least))),
            fits.eq(down >= least),
            half.eq(Const(1 << (least - 1), most) << amount),
        ]
        between = quadratic(m, power, t[: power.bits])
        rounded = Signal(unsigned(power.frac + 3), reset_less=True)
        m.d.sync += rounded.eq(between.value + delayed(m, half, between.cycles - 3, "half"))
        kept: tuple[Value, Value] = (
            delayed(m, amount, between.cycles - 1, "amount"),
            delayed(m, fits, between.cycles - 1, "fits"),
        )
        o, fits_too = shifted_down(m, rounded, least, *kept, self.to.width)
        m.d.comb += [self.o.eq(o), self.overflow.eq(o[-1] | ~fits_too)]
        return m
