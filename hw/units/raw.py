"""Pass words unchanged, in place of a float converter, for streams that carry the datapath's integers."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Const, Module, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.design.words import WORD
from dynagate.fixedpoint.format import Format
from dynagate.hw.units.float32 import beats_of
from dynagate.hw.units.rescale import delayed

WHOLE = Format(WORD, 0)
"""Format of a field that holds a 32-bit word."""


class FromWord(wiring.Component):
    """Returns x unchanged, `latency` cycles later.

    ====  ===  =========================
    x     in   32 bits: a word
    beat  in   ignored
    o     out  signed: the word
    bad   out  always 0
    ====  ===  =========================
    """

    latency = 1
    """Cycles from x to o."""

    def __init__(self, formats: Sequence[Format]) -> None:
        super().__init__(
            {"x": In(unsigned(WORD)), "beat": In(beats_of(formats)), "o": Out(signed(WORD)), "bad": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [self.o.eq(delayed(m, self.x, self.latency, "word")), self.bad.eq(Const(0))]
        return m


class ToWord(wiring.Component):
    """Returns x unchanged, `latency` cycles later.

    ====  ===  =========================
    x     in   signed, 32 bits: a word
    beat  in   ignored
    o     out  32 bits: the word
    ====  ===  =========================
    """

    latency = 1
    """Cycles from x to o."""

    def __init__(self, formats: Sequence[Format]) -> None:
        super().__init__({"x": In(signed(WORD)), "beat": In(beats_of(formats)), "o": Out(unsigned(WORD))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.eq(delayed(m, self.x, self.latency, "word"))
        return m
