"""One adder for many sums: operands chosen by slot wait a cycle in registers, then pass one carry chain.

Binary points, signs and rounding differ from slot to slot. All of them go into the operands' constant bits, so that the
adder has no third input: sums that need one (`shared_sum` is None) keep an adder of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.hw.units.add import SIGNS
from dynagate.hw.units.rescale import delayed, rounding_constant

LATENCY = 2
CARRY = -1


class SharedSum(NamedTuple):
    """below: bits of each operand below the result's last one, negative where it ends above. rounded: the operand whose
    appended zeros take the rounding constant, CARRY for the carry, None where nothing is rounded."""

    below: tuple[int, int]
    subtract: bool
    rounded: int | None

    def appended(self, which: int, room: int) -> tuple[int, int]:
        """How many bits go below an operand, and what they hold, where `room` bits are below the results' last one."""
        bits = room - self.below[which]
        if self.rounded == which:
            return bits, 1 << (room - 1)
        if self.rounded == CARRY and which == 0:
            return bits, (1 << bits) - 1  # hands the carry up to the operands' own last bit
        return bits, 0

    def operand(self, which: int, value: Value, room: int) -> Value:
        """What the adder's port takes."""
        bits, held = self.appended(which, room)
        return Cat(Const(held, bits), value).as_signed() if bits else value

    @property
    def carry(self) -> int:
        return int(self.subtract or self.rounded == CARRY)


def shared_sum(op: str, sources: Sequence[Format], to: Format, arithmetic: Arithmetic) -> SharedSum | None:
    """How a shared adder does this sum, or None where it takes a third operand to round it."""
    if len(sources) != 2:
        return None
    subtract = SIGNS[op] == (1, -1)
    below = sources[0].frac - to.frac, sources[1].frac - to.frac
    shift = max(below)
    if not rounding_constant(shift, arithmetic):
        return SharedSum(below, subtract, None)
    coarse = below.index(min(below))
    if min(below) < 1 and not (subtract and coarse == 1):
        return SharedSum(below, subtract, coarse)
    if shift == min(below) == 1 and not subtract:
        return SharedSum(below, subtract, CARRY)
    return None


class SharedAdd(wiring.Component):
    """s = a + b + carry, or a + ~b + carry where `subtract` is set, two cycles later."""

    latency = LATENCY

    def __init__(self, width: int) -> None:
        self.width = width
        super().__init__(
            {
                "a": In(signed(width)),
                "b": In(signed(width)),
                "subtract": In(1),
                "carry": In(1),
                "s": Out(signed(width + 1)),
            }
        )

    @staticmethod
    def model(a: Any, b: Any, subtract: Any, carry: Any) -> Any:
        return a + (b ^ -subtract) + carry

    def elaborate(self, platform: object) -> Module:
        m = Module()
        a, b = delayed(m, self.a, 1, "a"), delayed(m, self.b, 1, "b")
        subtract, carry = delayed(m, self.subtract, 1, "subtract"), delayed(m, self.carry, 1, "carry")
        second = b ^ subtract.replicate(self.width).as_signed()
        total = Cat(Const(1, 1), a).as_signed() + Cat(carry, second).as_signed()  # one chain, the carry its first bit
        result = Signal(self.s.shape(), reset_less=True)
        m.d.sync += result.eq(total[1:].as_signed())
        m.d.comb += self.s.eq(result)
        return m
