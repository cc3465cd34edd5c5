"""Properties of an operation in fixed point: integers in numpy and C, intervals and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dynagate.base.errors import Error
from dynagate.fixedpoint.format import Arithmetic, Format, FormattedIntegers, Rescaled, rescale, wide
from dynagate.fixedpoint.intervals import Interval


class NotInCError(Error, ValueError):
    """The integers in C do not support these formats; the text says which."""


@dataclass(frozen=True)
class ExactResult:
    """The exact result of an operation, before it is rounded into its format."""

    bits: int
    """Bits of the widest intermediate value."""
    frac: int
    """Fraction bits of the result."""
    up: tuple[int, ...] = (0,)
    """Bits by which each operand is shifted left first."""
    finer: tuple[bool, ...] = ()
    """Whether each operand is shifted further if the result's format has more fraction bits."""
    plan: tuple[int, ...] = ()
    """Numbers of tables and steps in C."""

    def into(self, to: Format) -> ExactResult:
        """Return the result with the fraction bits of a format, or more."""
        more = max(0, to.frac - self.frac)
        up = tuple(bits + more * moves for bits, moves in zip(self.up, self.finer, strict=True))
        return replace(self, bits=self.bits + more, frac=self.frac + more, up=up)


@dataclass(frozen=True)
class Formula:
    """An operation whose result is exact and rounded once. A constant is the last operand."""

    text: str
    """C expression of the operands x, y and z."""
    integers: Callable[..., Any]
    """Function of the shifted operands that returns the exact result."""
    exact: Callable[[Sequence[Format]], ExactResult]
    """Function of the operands' formats that returns how the exact result is computed."""
    signs: tuple[int, ...] = ()
    """For a sum or choice, the sign of each operand in the result, 0 for a condition; empty for a product."""

    def compute(self, operands: Sequence[FormattedIntegers], to: Format, arithmetic: Arithmetic) -> Rescaled:
        """Return the result in the format `to`."""
        exact = self.exact([fmt for _, fmt in operands])
        bits = exact.bits + max(0, to.frac - exact.frac)
        known = [wide(value, bits) for value, _ in operands]
        moved = (value << up if up else value for value, up in zip(known, exact.up, strict=True))
        return rescale(self.integers(*moved), exact.frac, to, arithmetic)

    def in_c(self, formats: Sequence[Format], to: Format) -> ExactResult:
        """Return how C computes the exact result."""
        return self.exact(formats).into(to)


@dataclass(frozen=True)
class Unit:
    """An operation by tables and steps, which a hardware unit computes. It has one or several operands x with formats
    source.
    """

    text: str
    """C expression of x, y, z and the plan p; {bits} is 64 or 128, and `wrong` is set if there is no result."""
    integers: Callable[..., Rescaled]
    """Function (x, source, to) that returns the rounded result."""
    plan: Callable[..., ExactResult]
    """Function (source, to) that returns the numbers for C; raises NotInCError if one is too large."""
    errs: Callable[..., Any]
    """Function (source, to, largest) that bounds the error, with rounding; `largest` is the largest result."""
    noise: float = 2.0  # tables and steps add as much again as the rounding
    """Variance of the error in units of step² / 12; tables and steps add about as much as the rounding."""
    own_octaves: int | None = None
    """Largest number of octaves of operand and result for which the operation has a hardware unit of its own."""

    def compute(self, operands: Sequence[FormattedIntegers], to: Format, arithmetic: Arithmetic) -> Rescaled:
        """Return the result in the format `to`; `arithmetic` is ignored."""
        values, sources = zip(*operands, strict=True)
        return self.integers(*values, *sources, to)


@dataclass(frozen=True)
class FixedOp:
    """An operation in fixed point. A constant is the last operand."""

    meaning: Formula | Unit
    """Definition of its integers."""
    image: Callable[..., Interval]
    """Function from the operands' intervals to an interval that contains the result."""
    error: Callable[..., Any]
    """Function of operands, an `IntervalWithError` each, that bounds the error of the exact result of rounded
    operands.
    """
    positive: bool = False
    """Whether the operand must be positive."""
    most: float | None = None
    """Largest magnitude of results, without a margin; None if their range determines it."""
