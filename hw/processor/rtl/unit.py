"""The multiply-add unit: r = round((± a b ± (c << up)) >> down), a new one every cycle."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.hw.processor.isa.shape import OPERANDS, SHIFT_BITS, SIDE, Core
from dynagate.hw.units.multiply import Multiply
from dynagate.hw.units.rescale import delayed, differ, negated_if
from dynagate.hw.units.slot_selects import by_number


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
        # c - a b is the complement of a b + (the complement of c): two XORs instead of a second carry
        negative = delayed(m, self.product_negative & ~self.select, late, "product_negative")
        factor, addend = Signal(signed(bits), name="factor"), self._addend(m, takes_b, late)
        exact = Signal(signed(bits), name="exact", reset_less=True)
        m.d.comb += factor.eq(delayed(m, product.p, late - product.latency, "product"))
        m.d.sync += exact.eq(factor + (addend ^ negative.replicate(len(addend)).as_signed()))
        complement = delayed(m, negative, 1, "complement")
        rounded, too_high = self._shifted(m, exact, complement, delayed(m, self.down, late + 1, "down"))
        self._fitted(m, rounded, too_high, exact[-1] ^ complement)
        assert late + 5 + self.core.saturates == self.latency
        return m

    def _shifted(self, m: Module, exact: Signal, complement: Value, down: Value) -> tuple[Signal, Value]:
        """Shift the sum to the right and round it half up: the last bit that is shifted out is added to the rest.

        Each stage drops the bits that are too high for every result that fits. They only have to equal the sign.

        Args:
            m: Module to add to.
            exact: The sum, or its complement.
            complement: Whether `exact` is the complement.
            down: Bits to shift.

        Returns:
            The result with two more bits than a word, three cycles later, and whether dropped bits differ from its
            sign. The result is then too large, whatever its bits are.
        """
        moved: Value = Cat(complement, exact).as_signed()  # a shift by 0 rounds by 0
        high: Value = Const(0, 1)
        for k, (low, end) in enumerate(((3, 5), (1, 3))):
            # one bit more than the rest of the shift and a word need: a number below the lowest may be rounded up to it
            kept = self.core.word + (1 << low) + 1
            step = Signal(signed(kept), name=f"moved{k}", reset_less=True)
            too_high = Signal(name=f"too_high{k}", reset_less=True)
            bits = delayed(m, down, k, f"down{k}")[low:end]
            m.d.sync += step.eq(by_number([moved.as_signed() >> (n << low) for n in range(1 << len(bits))], bits))
            m.d.sync += too_high.eq(high | _differ_above(moved, kept - 1, 1 << low, bits))
            moved, high = step, too_high
        complement = delayed(m, complement, 2, "complement_late")
        whole = Mux(delayed(m, down, 2, "down2")[0], moved.as_signed() >> 1, moved)
        whole = whole ^ complement.replicate(len(moved)).as_signed()
        rounded = Signal(signed(len(moved) - 1), name="rounded", reset_less=True)
        m.d.sync += rounded.eq(whole[1:].as_signed() + whole[0])
        return rounded, delayed(m, high, 1, "too_high2")

    def _fitted(self, m: Module, rounded: Signal, too_high: Value, negative: Value) -> None:
        """Cut the result to a word, and compare its guard bits. negative: whether the result is, three cycles early."""
        word = self.core.word
        guard = Signal(len(rounded) - word + 1, name="guard", reset_less=True)
        o = Signal(signed(word), name="result", reset_less=True)
        positive, unfit = Signal(name="result_positive", reset_less=True), Signal(name="unfit", reset_less=True)
        m.d.sync += [o.eq(rounded[:word]), guard.eq(rounded[word - 1 :])]
        m.d.sync += positive.eq(~rounded[word - 1] & rounded[: word - 1].any())
        overflows = differ(guard) | delayed(m, too_high, 1, "too_high3")
        m.d.sync += unfit.eq(overflows)
        if not self.core.saturates:
            m.d.comb += [self.o.eq(o), self.o_positive.eq(positive), self.overflow.eq(unfit)]
            return
        negative = delayed(m, negative, 4, "negative")
        limit = Cat((~negative).replicate(word - 1), negative).as_signed()  # 011...1 or 100...0
        m.d.sync += [self.o.eq(Mux(overflows, limit, o)), self.o_positive.eq(Mux(overflows, ~negative, positive))]
        m.d.sync += self.overflow.eq(unfit)

    def _addend(self, m: Module, takes_b: Signal, late: int) -> Value:
        """Return ± (c << up), `late` cycles later. The last shift, by 0 or 1, follows the last register."""
        negative = self.addend_negative & ~self.select
        width = self.core.word + 1
        c = Mux(self.select & takes_b, 0, self.c).as_signed()
        kept = Signal(signed(width), name="signed_addend", reset_less=True)
        m.d.sync += kept.eq(negated_if(negative, c))
        for k, (low, high) in enumerate(((3, 5), (1, 3)), 1):
            width += (1 << high) - (1 << low)
            step = Signal(signed(width), name=f"up{k}", reset_less=True)
            ways = [Cat(Const(0, n << low), kept).as_signed() if n else kept for n in range(1 << (high - low))]
            m.d.sync += step.eq(by_number(ways, delayed(m, self.up, k, f"up{k}_bits")[low:high]))
            kept = step
        kept = delayed(m, kept, late - 3, "addend")
        return Mux(delayed(m, self.up, late, "up")[0], Cat(Const(0, 1), kept).as_signed(), kept).as_signed()


def _differ_above(value: Value, sign: int, step: int, count: Value) -> Value:
    """Return whether the bits of a value from bit sign + step * count up differ from each other."""
    result: Value = Const(0, 1)
    most = (1 << len(count)) - 1
    for n in range(most + 1):
        first = sign + step * n
        last = first + step + 1 if n < most else len(value)
        if first < len(value) - 1:
            differs = differ(value[first:last])
            result |= differs if n == most else differs & (count <= n)
    return result
