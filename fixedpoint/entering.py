"""Choose the C type of an exact result, and how the result is rounded into its format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dynagate.fixedpoint.elementary import LAST
from dynagate.fixedpoint.format import HALF_UP, SATURATE, Arithmetic, Format
from dynagate.fixedpoint.operations import ExactResult, Formula, Unit
from dynagate.fixedpoint.operations.row import NotInCError

TYPES = 32, 64, 128
"""Bits of the integer types in C. Two bits remain free, one of them for the rounding constant."""


@dataclass(frozen=True)
class InputConversion:
    """How an exact result is rounded into its format in C."""

    type: int
    """Bits of the C type."""
    down: int
    """Bits to drop."""
    half: bool
    """Whether half a unit is added before, to round half up."""
    saturate: bool
    """Whether results that do not fit saturate."""


def types_of(meaning: Formula | Unit | None) -> tuple[int, ...]:
    """Return the integer types for an operation's results, narrowest first; units have only the wider ones."""
    return TYPES[1:] if isinstance(meaning, Unit) else TYPES


def entering(meaning: Formula | Unit | None, exact: ExactResult, to: Format, arithmetic: Arithmetic) -> InputConversion:
    """Return how the result of an operation is rounded into its format.

    Args:
        meaning: The operation, None for a value that is only brought into another format.
        exact: Its exact result in C.
        to: Format of the result.
        arithmetic: Rounding and overflow.

    Raises:
        NotInCError: No type is wide enough.
    """
    arithmetic = LAST if isinstance(meaning, Unit) else arithmetic
    down = min(max(exact.frac - to.frac, 0), exact.bits)  # a cut of more bits leaves the same
    for type in types_of(meaning):
        if exact.bits <= type - 2 and to.width <= type:
            return InputConversion(
                type, down, down > 0 and arithmetic.rounding == HALF_UP, arithmetic.overflow == SATURATE
            )
    raise NotInCError(
        f"an intermediate value of {exact.bits} bits; expected at most {TYPES[-1] - 2}", code="DG-FORMAT-009"
    )


def rounded_in_c(value: str, enter: InputConversion, to: Format) -> str:
    """Return C that declares `v`, the rounded value, and `kept`, what its format holds of it.

    Args:
        value: C expression of the exact integer.
        enter: How it is rounded.
        to: Format of the result.
    """
    T = f"dg_{enter.type}"
    if enter.down:
        value = f"DG_CUT({value}, {f'(({T})1 << {enter.down - 1})' if enter.half else '0'}, {enter.down})"
    kept = (
        f"DG_CLIP(v, {literal(to.lowest)}, {literal(to.highest)})"
        if enter.saturate
        else f"DG_WRAP({enter.type}, v, {enter.type - to.width})"
    )
    return f"const {T} v = {value}, kept = {kept};"


def literal(value: int) -> str:
    """Return an integer literal of C."""
    return f"{value}LL" if value >= 0 else f"({value}LL)"


def without_low_bits(formula: Formula, exact: ExactResult, sources: Sequence[Format], to: Format) -> ExactResult:
    """Return the exact result of a sum or choice without the bits that no rounding reads.

    Only one operand has bits below those of the others. If these bits are first dropped from it, towards minus infinity
    in the result, all rounded results stay the same, and intermediate values are shorter.

    Args:
        formula: The operation. A product is returned unchanged.
        exact: Its exact result in the format `to`, from `Formula.in_c`.
        sources: Formats of the operands.
        to: Format of the result.

    Returns:
        The result. An operand whose `up` is negative loses that many bits.
    """
    dropped = min(max(exact.up), exact.frac - to.frac - 1)  # the highest bit that is cut decides the rounding
    if dropped <= 0 or not formula.signs:
        return exact
    up = tuple(n - dropped if sign else n for n, sign in zip(exact.up, formula.signs, strict=True))
    bits = max(exact.bits - dropped, *(format.width for format in sources))
    return replace(exact, bits=bits, frac=exact.frac - dropped, up=up)
