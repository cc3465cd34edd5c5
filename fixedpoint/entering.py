"""How an exact result enters its format in C, and in which of its types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dynagate.fixedpoint.elementary import LAST
from dynagate.fixedpoint.format import HALF_UP, SATURATE, Arithmetic, Format
from dynagate.fixedpoint.operations import ExactResult, Formula, Unit
from dynagate.fixedpoint.operations.row import NotInCError

TYPES = 32, 64, 128
"""Bits of the integer types in C. Two are left free, one of them for the rounding constant."""


@dataclass(frozen=True)
class InputConversion:
    """How an exact result enters its format: `down` bits are cut. type: bits of the type in C."""

    type: int
    down: int
    half: bool
    saturate: bool


def types_of(meaning: Formula | Unit) -> tuple[int, ...]:
    """Return the integer types available for an operation's results, narrowest first; units exist only for the wider
    ones.
    """
    return TYPES[1:] if isinstance(meaning, Unit) else TYPES


def entering(meaning: Formula | Unit, exact: ExactResult, to: Format, arithmetic: Arithmetic) -> InputConversion:
    """The result of an operation, `exact` in C. Raises NotInCError: no type is wide enough."""
    arithmetic = LAST if isinstance(meaning, Unit) else arithmetic
    down = min(max(exact.frac - to.frac, 0), exact.bits)  # a cut of more bits leaves the same
    for type in types_of(meaning):
        if exact.bits <= type - 2 and to.width <= type:
            return InputConversion(
                type, down, down > 0 and arithmetic.rounding == HALF_UP, arithmetic.overflow == SATURATE
            )
    raise NotInCError(f"an intermediate value of {exact.bits} bits; expected at most {TYPES[-1] - 2}")


def without_low_bits(formula: Formula, exact: ExactResult, sources: Sequence[Format], to: Format) -> ExactResult:
    """Return the exact result of a sum or choice without the bits that no rounding reads.

    Only one operand has bits below those of the others. If these bits are cut from it first, towards minus infinity
    in the result, all rounded results stay the same, and the values on the way are shorter.

    Args:
        formula: The operation. A product is returned as it is.
        exact: Its exact result in the format `to`, from `Formula.in_c`.
        sources: The formats of the operands.
        to: The format of the result.

    Returns:
        The result. An operand whose `up` is negative loses that many bits.
    """
    dropped = min(max(exact.up), exact.frac - to.frac - 1)  # the highest bit that is cut decides the rounding
    if dropped <= 0 or not formula.signs:
        return exact
    up = tuple(n - dropped if sign else n for n, sign in zip(exact.up, formula.signs, strict=True))
    bits = max(exact.bits - dropped, *(format.width for format in sources))
    return replace(exact, bits=bits, frac=exact.frac - dropped, up=up)
