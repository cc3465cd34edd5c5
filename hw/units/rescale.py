"""Round and wrap or saturate in gateware: `fixedpoint.format.rescale` as wires."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from dynagate.fixedpoint.format import HALF_UP, SATURATE, Arithmetic, Format

BLOCK_RAM = {"ram_style": "block"}
"""Attribute of a table in block RAM; as logic, a small table would be a long path."""
LOOKUP_RAM = {"ram_style": "distributed"}
"""Attribute of a memory in lookup tables."""


class Wires(NamedTuple):
    """value: signed, of the format's width or less. guard: bits that are all equal unless the value did not fit; to be
    compared (`differ`) a cycle later, since a carry chain has just made them."""

    value: Value
    guard: Value


def rounding_constant(shift: int, arithmetic: Arithmetic) -> int:
    """Return the constant to add before dropping `shift` bits."""
    return 1 << (shift - 1) if shift > 0 and arithmetic.rounding == HALF_UP else 0


def fit(m: Module, value: Value, frac: int, to: Format, arithmetic: Arithmetic, name: str) -> Wires:
    """A signed value with its rounding constant already added, cut to the format and saturated or wrapped."""
    exact = Signal(signed(len(value)), name=f"{name}_exact")  # named: an expression is made anew wherever it is used
    m.d.comb += exact.eq(value)
    shift = frac - to.frac
    # keep a sign bit where everything is shifted out
    rounded = exact[min(shift, len(exact) - 1) :].as_signed() if shift > 0 else shift_left(exact, -shift)
    if len(rounded) <= to.width:
        return Wires(rounded, Const(0, 0))
    kept, guard = rounded[: to.width].as_signed(), rounded[to.width - 1 :]
    if arithmetic.overflow != SATURATE:
        return Wires(kept, guard)
    # the lowest number is 100...0, the highest 011...1
    negative = exact[-1]
    limit = (~Cat(negative.replicate(to.width - 1), ~negative)).as_signed()
    return Wires(Mux(differ(guard), limit, kept).as_signed(), guard)


def differ(bits: Value) -> Value:
    """Whether some are 1 and some are 0."""
    return bits.any() & ~bits.all()


def shift_left(value: Value, bits: int) -> Value:
    """value · 2**bits: zeros appended, no shifter."""
    return Cat(Const(0, bits), value).as_signed() if bits else value


def negated_if(negative: Value, value: Value) -> Value:
    """The signed value, or minus it: one carry chain, no multiplexer behind it."""
    return (value ^ negative.replicate(len(value)).as_signed()) + negative


def by_beat(values: Sequence[Value], beat: Value) -> Value:
    """The value of this beat, or the only one."""
    return Array(values)[beat] if len(values) > 1 else values[0]


def delayed(m: Module, value: Value, cycles: int, name: str, *, reset: bool = False) -> Value:
    """The value this many cycles later, in registers named name_d1, name_d2, ..., with a reset or without."""
    for k in range(1, cycles + 1):
        register = Signal(value.shape(), name=f"{name}_d{k}", reset_less=not reset)
        m.d.sync += register.eq(value)
        value = register
    return value
