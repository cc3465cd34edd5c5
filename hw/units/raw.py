"""Words that pass as they are: in the place of a converter where a stream carries the datapath's own integers."""

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
"""Format of a field that holds a whole word."""


class FromWord(wiring.Component):
    """x as it is, `latency` cycles later.

    ====  ===  ============================================
    x     in   a word
    beat  in   which of the formats it has: all the same
    o     out  the word, signed
    bad   out  never
    ====  ===  ============================================
    """

    latency = 1

    def __init__(self, formats: Sequence[Format]) -> None:
        super().__init__(
            {"x": In(unsigned(WORD)), "beat": In(beats_of(formats)), "o": Out(signed(WORD)), "bad": Out(1)}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [self.o.eq(delayed(m, self.x, self.latency, "word")), self.bad.eq(Const(0))]
        return m


class ToWord(wiring.Component):
    """x as it is, `latency` cycles later.

    ====  ===  ============================================
    x     in   a word, signed
    beat  in   which of the formats it has: all the same
    o     out  the word
    ====  ===  ============================================
    """

    latency = 1

    def __init__(self, formats: Sequence[Format]) -> None:
        super().__init__({"x": In(signed(WORD)), "beat": In(beats_of(formats)), "o": Out(unsigned(WORD))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.o.eq(delayed(m, self.x, self.latency, "word"))
        return m
