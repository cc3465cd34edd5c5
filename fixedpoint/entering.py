"""How an exact result enters its format in C, and in which of its types."""

from __future__ import annotations

from dataclasses import dataclass

from dynagate.fixedpoint.elementary import LAST
from dynagate.fixedpoint.format import HALF_UP, SATURATE, Arithmetic, Format
from dynagate.fixedpoint.operations import Exact, Formula, Unit
from dynagate.fixedpoint.operations.row import NotInCError

TYPES = 32, 64, 128
"""Bits of the integer types in C. Two are left free, one of them for the rounding constant."""


@dataclass(frozen=True)
class Entering:
    """How an exact result enters its format: `down` bits are cut. type: bits of the type in C."""

    type: int
    down: int
    half: bool
    saturate: bool


def types_of(meaning: Formula | Unit) -> tuple[int, ...]:
    """Those that an operation's results have, short ones first; units have functions of the longer ones."""
    return TYPES[1:] if isinstance(meaning, Unit) else TYPES


def entering(meaning: Formula | Unit, exact: Exact, to: Format, arithmetic: Arithmetic) -> Entering:
    """The result of an operation, `exact` in C. Raises NotInCError: no type is wide enough."""
    arithmetic = LAST if isinstance(meaning, Unit) else arithmetic
    down = max(exact.frac - to.frac, 0)
    bits = max(exact.bits, down + 1)
    for type in types_of(meaning):
        if bits <= type - 2 and to.width <= type:
            return Entering(type, down, down > 0 and arithmetic.rounding == HALF_UP, arithmetic.overflow == SATURATE)
    raise NotInCError(f"an intermediate value of {bits} bits; expected at most {TYPES[-1] - 2}")
