"""Round and wrap or saturate in gateware: the wires of `fixedpoint.format.rescale`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from dynagate.fixedpoint.format import HALF_UP, SATURATE, Arithmetic, Format

BLOCK_RAM = {"ram_style": "block"}
"""Attribute that puts a table into block RAM. As logic, a small table would be a long path."""
LOOKUP_RAM = {"ram_style": "distributed"}
"""Attribute that puts a memory into lookup tables."""
KEPT = {"keep": "true"}
"""Attribute of a register that synthesis must not merge with an equal one."""
DUPLICATED = {"max_fanout": 400}
"""Attribute of registers that the placer may duplicate: the largest number of loads of one copy."""
PACKED = {"shreg_extract": "no"}
"""Attribute of a register that belongs into a DSP block or a block RAM, and so not into a shift register."""


class Wires(NamedTuple):
    """A result before its overflow check."""

    value: Value
    """Signed value, of the format's width or less."""
    guard: Value
    """Guard bits, which are equal unless the value does not fit.

    They are compared by `differ` one cycle later, because they come out of a carry chain.
    """

    def guard_within(self, to: Format, exact_width: int | None) -> Value:
        """Return the guard bits below the copies of the sign that every result has.

        Args:
            to: Format of the result.
            exact_width: Bits that hold all rounded results before they wrap; None if no number is known.
        """
        return self.guard if exact_width is None else self.guard[: max(exact_width - to.width + 1, 0)]


def rounding_constant(shift: int, arithmetic: Arithmetic) -> int:
    """Return the constant to add before dropping `shift` bits."""
    return 1 << (shift - 1) if shift > 0 and arithmetic.rounding == HALF_UP else 0


def fit(m: Module, value: Value, frac: int, to: Format, arithmetic: Arithmetic, name: str) -> Wires:
    """Cut a signed value, to which its rounding constant was added, to a format.

    Args:
        m: Module to add to.
        value: The value.
        frac: Fraction bits of the value.
        to: Format of the result.
        arithmetic: Rounding, and whether the result wraps or saturates.
        name: Prefix of signal names.
    """
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
    """Return whether some of the bits are 1 and some are 0."""
    return bits.any() & ~bits.all()


def shift_left(value: Value, bits: int) -> Value:
    """Return value · 2**bits by appending zeros."""
    return Cat(Const(0, bits), value).as_signed() if bits else value


def widened(value: Value, width: int) -> Value:
    """Return a signed value with copies of its sign bit on top, up to a width."""
    more = width - len(value)
    return Cat(value, value[-1].replicate(more)).as_signed() if more > 0 else value


def negated_if(negative: Value, value: Value) -> Value:
    """Return the signed value, or its negative, in one carry chain."""
    return (value ^ negative.replicate(len(value)).as_signed()) + negative


def by_beat(values: Sequence[Value], beat: Value) -> Value:
    """Return the value of this beat, or the only value."""
    return Array(values)[beat] if len(values) > 1 else values[0]


def delayed(m: Module, value: Value, cycles: int, name: str, *, reset: bool = False, packed: bool = False) -> Value:
    """Return a value this many cycles later.

    Args:
        m: Module that the registers are added to.
        value: The value.
        cycles: Number of registers.
        name: Registers are named name_d1, name_d2, ...
        reset: Whether the registers have a reset.
        packed: Whether the first register belongs into a DSP block or a block RAM (`PACKED`).
    """
    for k in range(1, cycles + 1):
        attrs = PACKED if packed and k == 1 else {}
        register = Signal(value.shape(), name=f"{name}_d{k}", reset_less=not reset, attrs=attrs)
        m.d.sync += register.eq(value)
        value = register
    return value
