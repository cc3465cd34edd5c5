"""Convert float32 stream words to fixed-point integers, and integers to float32.

A lane of a stream carries another field of a sample in each beat, so a converter serves several formats; its input
`beat` selects the format. The converters of a processor take the binary point from the program instead, in their input
`point`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.format import Format, Integers, Rescaled
from dynagate.hw.units.floating import (
    BINARY32,
    FROM_FLOAT_LATENCY,
    POINT_BITS,
    Words,
    from_floating,
    largest_exponent,
    point_out_of,
    to_float_latency,
    to_floating,
    up_shift,
)
from dynagate.hw.units.normalize import normalized
from dynagate.hw.units.rescale import by_beat, delayed, differ, negated_if

FINE_BITS = 3
"""Bits of the fine shift: one multiplexer shifts by multiples of eight, the next one by single bits."""
POINT = signed(POINT_BITS)
"""Shape of the exponent that places a number's binary point."""


def beats_of(formats: Sequence[Format]) -> range:
    """Return the range of a converter's input `beat`."""
    return range(max(len(formats), 2))


class FromFloat(wiring.Component):
    """Converts float32 to integers: o = x in the beat's format, rounded half up, `latency` cycles later.

    ====  ===  ==================================================================
    x     in   bits of the floating-point number
    beat  in   index of the format
    o     out  signed: the integer; 0 if the number is far too large
    bad   out  1: x is NaN, infinite or does not fit its format
    ====  ===  ==================================================================
    """

    latency = FROM_FLOAT_LATENCY
    kind = BINARY32

    def __init__(self, formats: Sequence[Format]) -> None:
        self.formats = tuple(formats)
        self.width = max(fmt.width for fmt in formats)
        super().__init__(
            {"x": In(unsigned(self.kind.bits)), **self._which(), "o": Out(signed(self.width)), "bad": Out(1)}
        )

    def _which(self) -> dict[str, Any]:
        """Return the port that selects the format of a number."""
        return {"beat": In(beats_of(self.formats))}

    def _most(self) -> Value:
        """Return `largest_exponent` of the number's format."""
        return by_beat([Const(largest_exponent(fmt, self.width, self.kind), POINT) for fmt in self.formats], self.beat)

    def _late(self, m: Module) -> Value:
        """Return the index of the result's format."""
        return delayed(m, self.beat, self.latency, "beat")

    def model(self, words: Words, beat: int = 0) -> Rescaled:
        """Return the integers that the unit computes from words (count,), and which of them are bad."""
        return from_floating(words, self.formats[beat], self.width, self.kind)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kind, mantissa_bits = self.kind, self.kind.significand - 1
        negative, field = self.x[-1], self.x[mantissa_bits:-1]
        size = Cat(self.x[:mantissa_bits], field.any())
        exponent = Cat(field[0] | ~field.any(), field[1:])  # subnormal numbers have that of the smallest normal ones
        down = Signal(POINT, reset_less=True)
        significand = Signal(signed(kind.significand + 1), reset_less=True)
        strange = Signal(name="nan_or_infinite", reset_less=True)
        up = up_shift(self.width, kind)
        m.d.sync += [
            down.eq(self._most() - exponent),
            significand.eq(negated_if(negative, Cat(size, Const(0, 1)).as_signed())),
            strange.eq(field.all()),
        ]
        # one bit below the format's last stays for rounding
        whole = Signal(signed(kind.significand + 1 + up))
        m.d.comb += whole.eq(significand << up)
        groups = (len(whole) - 1 >> FINE_BITS) + 1
        coarse = Signal(signed(len(whole)), reset_less=True)
        fine = Signal(FINE_BITS, reset_less=True)
        too_large = down[-1] | strange
        far = (down >> FINE_BITS) >= groups
        nothing = whole[-1].replicate(len(whole)).as_signed()
        moves = Array([(whole >> (g << FINE_BITS)).as_signed() for g in range(groups)])
        m.d.sync += [
            coarse.eq(Mux(too_large, 0, Mux(far, nothing, moves[down[FINE_BITS:-1]]))),
            fine.eq(down[:FINE_BITS]),
        ]
        moved = Signal(signed(len(whole)), reset_less=True)
        m.d.sync += moved.eq(coarse >> fine)
        rounded = Signal(signed(len(whole)), reset_less=True)
        m.d.sync += rounded.eq((moved + 1) >> 1)
        too_large = delayed(m, too_large, 3, "too_large")
        beat = self._late(m)
        guards = [differ(rounded[fmt.width - 1 :]) for fmt in self.formats]
        kept: list[Value] = [rounded[: fmt.width].as_signed() for fmt in self.formats]
        m.d.comb += [self.o.eq(by_beat(kept, beat)), self.bad.eq(by_beat(guards, beat) | too_large)]
        return m


class FromFloatAt(FromFloat):
    """Converts float32 to integers of one width, like `FromFloat`; the input `point`, see `point_into`, replaces
    `beat`.
    """

    def __init__(self, width: int) -> None:
        super().__init__([Format(width, 0)])

    def _which(self) -> dict[str, Any]:
        return {"point": In(POINT)}

    def _most(self) -> Value:
        return self.point

    def _late(self, m: Module) -> Value:
        return Const(0)


class ToFloat(wiring.Component):
    """Converts integers to the nearest float32, ties to even, `latency` cycles later.

    ====  ===  =========================
    x     in   signed: the integer
    beat  in   index of its format
    o     out  bits of the float32
    ====  ===  =========================
    """

    def __init__(self, formats: Sequence[Format]) -> None:
        self.formats = tuple(formats)
        self.width = max(fmt.width for fmt in formats)
        self.rounds = self.width > BINARY32.longest_exact
        self.latency = to_float_latency(self.width)
        super().__init__({"x": In(signed(self.width)), **self._which(), "o": Out(unsigned(BINARY32.bits))})

    def _which(self) -> dict[str, Any]:
        """Return the port that selects the format of a number."""
        return {"beat": In(beats_of(self.formats))}

    def _top(self, m: Module) -> Value:
        """Return `point_out_of` the format of the number of three cycles ago."""
        tops = [Const(point_out_of(replace(fmt, width=self.width)), unsigned(9)) for fmt in self.formats]
        return by_beat(tops, delayed(m, self.beat, 3, "beat"))

    def model(self, x: Integers, beat: int = 0) -> Words:
        """Return the words that the unit computes from integers (count,)."""
        return to_floating(x, self.formats[beat], BINARY32)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width = self.width
        size = Signal(unsigned(width), reset_less=True)
        m.d.sync += size.eq(negated_if(self.x[-1], self.x))
        negative = delayed(m, self.x[-1], 4, "negative")
        leading = normalized(m, size)
        top = self._top(m)
        exponent = Signal(unsigned(9), reset_less=True)
        bits = Signal(unsigned(width), reset_less=True)
        empty = Signal(name="zero", reset_less=True)
        m.d.sync += [exponent.eq(top - leading.zeros), bits.eq(leading.bits), empty.eq(leading.empty)]
        keep = BINARY32.significand - 1
        below = Cat(Const(0, max(keep + 2 - width, 0)), bits)  # the implicit one on top
        mantissa = below[len(below) - 1 - keep : len(below) - 1]
        packed = Cat(mantissa, exponent[:8])
        if self.rounds:
            rest = below[: len(below) - 1 - keep]
            up = rest[-1] & (rest[:-1].any() | mantissa[0])
            result = Signal(unsigned(32), reset_less=True)
            m.d.sync += result.eq(Mux(empty, 0, Cat((packed + up)[:31], negative)))
            m.d.comb += self.o.eq(result)
        else:
            m.d.comb += self.o.eq(Mux(empty, 0, Cat(packed, negative)))
        return m


class ToFloatAt(ToFloat):
    """Converts integers of one width to float32, like `ToFloat`; the input `point`, see `point_out_of`, replaces
    `beat`.
    """

    def __init__(self, width: int) -> None:
        super().__init__([Format(width, 0)])

    def _which(self) -> dict[str, Any]:
        return {"point": In(POINT)}

    def _top(self, m: Module) -> Value:
        return delayed(m, self.point, 3, "point")
