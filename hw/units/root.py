"""Square root by digit recurrence, one bit per cycle, non-restoring (Ercegovac and Lang, Digital Arithmetic, ch. 6).

The root of the operand's integer, shifted left by `shift` bits, is found from its top bit down. The remainder is the
operand minus the square of the bits found so far. Its sign determines the next bit, and whether the next step subtracts
or adds.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.hw.units.latencies import root_bits, root_latency
from dynagate.hw.units.rescale import delayed, differ, fit


class Root(wiring.Component):
    """Computes o = √x, rounded half up, `latency` cycles later. Accepts an operand every cycle.

    ========  ===  ==================================================
    x         in   signed: the operand
    o         out  signed: the result; 0 if x is negative
    overflow  out  1: x is negative, or the result does not fit
    ========  ===  ==================================================

    Args:
        source_width: Bits of the operand.
        to_width: Bits of the result.
        shift: `root_shift` of the formats of operand and result.
    """

    def __init__(self, source_width: int, to_width: int, shift: int) -> None:
        self.source_width, self.to_width, self.shift = source_width, to_width, shift
        self.bits = root_bits(source_width, shift)
        self.latency = root_latency(source_width, to_width, shift)
        super().__init__({"x": In(signed(source_width)), "o": Out(signed(to_width)), "overflow": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        negative = self.x[-1]
        size = self.x[:-1] & (~negative).replicate(self.source_width - 1)
        size = size[max(-self.shift, 0) :]
        rest: Value = Cat(size, Const(0, 2 * self.bits - len(size) - max(self.shift, 0)))  # the bits below are 0
        root: Value = Const(0, 0)
        remainder: Value = Const(0, signed(2))
        for k in range(self.bits):
            # subtract 4 root + 1 from a remainder that is not negative, add 4 root + 3 to a negative one
            subtracts = ~remainder[-1]
            term = Cat(~subtracts, Const(1, 1), root ^ subtracts.replicate(k), subtracts).as_signed()
            left = Signal(signed(k + 3), name=f"remainder_{k}", reset_less=True)
            brought_down = Cat(Const(0, max(2 - len(rest), 0)), rest[-2:], remainder).as_signed()
            m.d.sync += left.eq(brought_down + term + subtracts)
            root = Cat(~left[-1], delayed(m, root, 1, f"root_{k}")) if k else ~left[-1]
            rest = delayed(m, rest[:-2], 1, f"rest_{k}") if len(rest) > 2 else Const(0, 0)
            remainder = left
        rounded = Signal(unsigned(self.bits + 1), name="rounded", reset_less=True)
        m.d.sync += rounded.eq(root + 1)
        wires = fit(m, Cat(rounded[1:], Const(0, 1)).as_signed(), 0, Format(self.to_width, 0), Arithmetic(), "o")
        flagged = delayed(m, negative, self.latency, "negative")
        m.d.comb += [self.o.eq(wires.value), self.overflow.eq(flagged | differ(wires.guard))]
        return m
