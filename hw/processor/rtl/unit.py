"""The multiply-add unit: r = round((± a b ± (c << up)) >> down), a new one every cycle."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.isa.shape import OPERANDS, SHIFT_BITS, SIDE, Core
from dynagate.hw.units.multiply import Multiply
from dynagate.hw.units.rescale import delayed, differ


class MultiplyAdd(wiring.Component):
    """Computes o from operands of `latency` cycles before, one result per cycle.

    ================  ===  ===========================================================================================
    a, b, c           in   signed: the operands
    positive          in   1: a is positive
    product_negative  in   1: subtract a b; for a select, choose b if a is not positive
    addend_negative   in   1: subtract c << up
    select            in   1: instead of the sum, choose b if a is positive, else c << up
    up                in   bits by which c is shifted left
    down              in   bits by which the sum is shifted right, rounded half up
    o                 out  signed: the result, wrapped to the word or saturated
    o_positive        out  1: the result is positive
    overflow          out  1: the result does not fit the word; one cycle after o
    ================  ===  ===========================================================================================
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self.latency = core.unit_latency
        operand = signed(core.word)
        super().__init__(
            {
                **{name: In(operand) for name in OPERANDS},
                "positive": In(1),
                **{name: In(1) for name in ("product_negative", "addend_negative", "select")},
                **{name: In(SHIFT_BITS) for name in ("up", "down")},
                "o": Out(operand),
                "o_positive": Out(1),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, bits = self.core.word, self.core.sum_bits
        takes_b = Signal()
        m.d.comb += takes_b.eq(self.positive ^ self.product_negative)
        m.submodules.product = product = Multiply(word, word)
        m.d.comb += [
            product.a.eq(Mux(self.select, takes_b.as_unsigned(), self.a)),
            product.b.eq(self.b),
        ]
        late = max(product.latency, SIDE)
        negative = delayed(m, self.product_negative & ~self.select, late, "product_negative")
        addend = delayed(m, self._addend(m, takes_b), late - SIDE, "addend")
        exact = Signal(signed(bits), name="exact", reset_less=True)
        factor = delayed(m, product.p, late - product.latency, "product")
        wide = Signal(signed(bits), name="wide")
        m.d.comb += wide.eq(factor)
        m.d.sync += exact.eq((wide ^ negative.replicate(bits)).as_signed() + addend + negative)
        down = delayed(m, self.down, late + 1, "down")
        moved: Value = exact
        for k, (low, high) in enumerate(((3, 5), (1, 3), (0, 1))):
            step = Signal(signed(bits), name=f"moved{k}", reset_less=True)
            ways = [moved.as_signed() >> (n << low) for n in range(1 << (high - low))]
            m.d.sync += step.eq(Array(ways)[delayed(m, down, k, f"down{k}")[low:high]])
            moved = step
        self._fitted(m, moved)
        assert late + 5 + self.core.saturates == self.latency
        return m

    def _fitted(self, m: Module, moved: Value) -> None:
        """Cut the result to a word, and compare its guard bits."""
        word = self.core.word
        guard = Signal(len(moved) - word + 1, name="guard", reset_less=True)
        o = Signal(signed(word), name="result", reset_less=True)
        positive, unfit = Signal(name="result_positive", reset_less=True), Signal(name="unfit", reset_less=True)
        m.d.sync += [o.eq(moved[:word]), guard.eq(moved[word - 1 :])]
        m.d.sync += [positive.eq(~moved[word - 1] & moved[: word - 1].any()), unfit.eq(differ(guard))]
        if not self.core.saturates:
            m.d.comb += [self.o.eq(o), self.o_positive.eq(positive), self.overflow.eq(unfit)]
            return
        negative, fits = guard[-1], ~differ(guard)
        limit = Cat((~negative).replicate(word - 1), negative).as_signed()  # 011...1 or 100...0
        m.d.sync += [self.o.eq(Mux(fits, o, limit)), self.o_positive.eq(Mux(fits, positive, ~negative))]
        m.d.sync += self.overflow.eq(unfit)

    def _addend(self, m: Module, takes_b: Signal) -> Value:
        """Return ± (c << up) plus the rounding constant, SIDE cycles later."""
        bits = self.core.sum_bits
        kept: Value = Mux(self.select & takes_b, 0, self.c).as_signed()
        up, width = self.up, self.core.word
        for k, (low, high) in enumerate(((3, 5), (1, 3), (0, 1))):
            width += (1 << high) - (1 << low)
            step = Signal(signed(width), name=f"up{k}", reset_less=True)
            ways = [Cat(Const(0, n << low), kept).as_signed() if n else kept for n in range(1 << (high - low))]
            m.d.sync += step.eq(Array(ways)[delayed(m, up, k, f"up{k}_bits")[low:high]])
            kept = step
        negative = delayed(m, self.addend_negative & ~self.select, SIDE - 1, "addend_negative")
        half = Signal(bits, name="half", reset_less=True)
        m.d.sync += half.eq((Const(1, bits) << delayed(m, self.down, SIDE - 2, "half_down"))[1:])
        addend = Signal(signed(bits), name="addend", reset_less=True)
        wide = Signal(signed(bits), name="wide_addend")
        m.d.comb += wide.eq(kept)
        m.d.sync += addend.eq((wide ^ negative.replicate(bits)).as_signed() + half + negative)
        return addend
