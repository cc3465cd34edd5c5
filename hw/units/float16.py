"""float16 to fixed point and back. `float32` has the wider numbers.

A float16 has five bits of exponent, so results reach its ends: what is too large becomes infinite, and small numbers
become subnormal ones, which have fewer bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.format import Format, Integers
from dynagate.hw.units.float32 import FromFloat, beats_of
from dynagate.hw.units.floating import BINARY16, TO_HALF_LATENCY, Words, to_floating
from dynagate.hw.units.normalize import normalized
from dynagate.hw.units.rescale import by_beat, delayed, negated_if


class FromHalf(FromFloat):
    """float16 to integers, as `FromFloat`."""

    kind = BINARY16


class ToHalf(wiring.Component):
    """Integers to float16: the nearest one, ties to even, `latency` cycles later; infinite from 65520 on.

    ====  ===  ===========================
    x     in   the integer, signed
    beat  in   which of the formats it has
    o     out  the bits of the float16
    ====  ===  ===========================
    """

    latency = TO_HALF_LATENCY

    def __init__(self, formats: Sequence[Format]) -> None:
        self.formats = tuple(formats)
        self.width = max(fmt.width for fmt in formats)
        super().__init__(
            {"x": In(signed(self.width)), "beat": In(beats_of(formats)), "o": Out(unsigned(BINARY16.bits))}
        )

    def model(self, x: Integers, beat: int = 0) -> Words:
        return to_floating(x, self.formats[beat], BINARY16)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width, keep = self.width, BINARY16.significand
        size = Signal(unsigned(width), reset_less=True)
        m.d.sync += size.eq(negated_if(self.x[-1], self.x))
        leading = normalized(m, size)
        # the exponent of a number that has its top bit at the top; 0 and less: the float16 is subnormal
        tops = [Const(BINARY16.bias + width - 1 - fmt.frac, signed(12)) for fmt in self.formats]
        top = by_beat(tops, delayed(m, self.beat, 3, "beat"))
        exponent = Signal(signed(12), reset_less=True)
        bits = Signal(unsigned(width), reset_less=True)
        m.d.sync += [exponent.eq(top - leading.zeros), bits.eq(leading.bits)]
        empty = delayed(m, leading.empty, 3, "zero")
        below = Cat(Const(0, max(keep + 2 - width, 0)), bits)  # the implicit one on top
        kept, rest = below[-keep - 1 :], below[: -keep - 1]  # one bit more than the significand rounds
        return self._rounded(m, exponent, kept, rest.any(), empty)

    def _rounded(self, m: Module, exponent: Signal, kept: Value, rest: Value, empty: Value) -> Module:
        """A subnormal number's bits move down until its exponent is that of the smallest normal one; then all round."""
        keep, largest = BINARY16.significand, (1 << BINARY16.exponent_bits) - 1
        down = Signal(range(keep + 3), reset_less=True)
        is_subnormal = exponent <= 0
        m.d.sync += down.eq(Mux(is_subnormal, Mux(exponent < -keep, keep + 2, 1 - exponent), 0))
        moved = Cat(Const(0, keep + 2), delayed(m, kept, 1, "kept")) >> down
        significand = Signal(keep + 1, reset_less=True)
        inexact = Signal(reset_less=True)
        field = Signal(BINARY16.exponent_bits, reset_less=True)
        infinite = Signal(reset_less=True)
        m.d.sync += [
            significand.eq(moved[keep + 2 :]),
            inexact.eq(delayed(m, rest, 1, "rest") | moved[: keep + 2].any()),
            field.eq(delayed(m, Mux(is_subnormal, 0, exponent[: len(field)]), 1, "field")),
            infinite.eq(delayed(m, exponent >= largest, 1, "too_large")),
        ]
        half, even = significand[0], significand[1]
        packed = Cat(significand[1:keep], field)  # the implicit one is left out
        up = half & (inexact | even)
        result = Signal(BINARY16.bits, reset_less=True)
        negative = delayed(m, self.x[-1], self.latency - 1, "negative")
        finite = Mux(infinite, largest << keep - 1, packed + up)
        m.d.sync += result.eq(Mux(empty, 0, Cat(finite[: BINARY16.bits - 1], negative)))
        m.d.comb += self.o.eq(result)
        return m
