"""A row of the operations in fixed point: all that is known of one, for integers in numpy and in C, and for proofs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dynagate.base.errors import Error
from dynagate.fixedpoint.format import Arithmetic, Format, FormattedIntegers, Rescaled, rescale, wide
from dynagate.fixedpoint.intervals import Interval


class NotInCError(Error, ValueError):
    """Formats that the integers in C do not support. The text says which."""


@dataclass(frozen=True)
class ExactResult:
    """The exact result of an operation, before it enters its format.

    bits: of the widest intermediate value. frac: its fraction bits. up: by how many bits each operand is moved first.
    finer: which operands move on where the result's format has more fraction bits.
    plan: the numbers of tables and steps in C.
    """

    bits: int
    frac: int
    up: tuple[int, ...] = (0,)
    finer: tuple[bool, ...] = ()
    plan: tuple[int, ...] = ()

    def into(self, to: Format) -> ExactResult:
        """With the fraction bits of a format, or more."""
        more = max(0, to.frac - self.frac)
        up = tuple(bits + more * moves for bits, moves in zip(self.up, self.finer, strict=True))
        return replace(self, bits=self.bits + more, frac=self.frac + more, up=up)


@dataclass(frozen=True)
class Formula:
    """An operation whose result is exact and rounded once.

    integers: the exact result of operands that `exact` has moved. text: the same in C, of the operands x, y and z.
    exact: of the operands' formats. A constant is the last operand.
    signs: of a sum, or of a choice of operands, 1 or -1 for each operand, the sign that it has in the result; 0 for an
    operand that is a condition. Empty for a product.
    """

    text: str
    integers: Callable[..., Any]
    exact: Callable[[Sequence[Format]], ExactResult]
    signs: tuple[int, ...] = ()

    def compute(self, operands: Sequence[FormattedIntegers], to: Format, arithmetic: Arithmetic) -> Rescaled:
        """The result in the format `to`."""
        exact = self.exact([fmt for _, fmt in operands])
        bits = exact.bits + max(0, to.frac - exact.frac)
        known = [wide(value, bits) for value, _ in operands]
        moved = (value << up if up else value for value, up in zip(known, exact.up, strict=True))
        return rescale(self.integers(*moved), exact.frac, to, arithmetic)

    def in_c(self, formats: Sequence[Format], to: Format) -> ExactResult:
        return self.exact(formats).into(to)


@dataclass(frozen=True)
class Unit:
    """An operation by tables and steps, which one hardware unit computes for all nodes of its kind. It has one operand,
    or several; then x and source below are as many.

    integers(x, source, to): its result, rounded. text: the same in C: a function of 64 or 128 bits, of {bits}, of x (of
    x, y and z) and p, the numbers of `plan(source, to)`; `wrong` is set where there is no result. A plan with more bits
    than C has is a NotInCError.
    errs(source, to, largest): the most by which it differs from the exact result, its rounding included. largest: the
    magnitude of results. noise: the variance of that error, in units of step² / 12.
    own_octaves: an operation whose operand and result span this many octaves or fewer has a hardware unit of its own.
    """

    text: str
    integers: Callable[..., Rescaled]
    plan: Callable[..., ExactResult]
    errs: Callable[..., Any]
    noise: float = 2.0  # tables and steps add as much again as the rounding
    own_octaves: int | None = None

    def compute(self, operands: Sequence[FormattedIntegers], to: Format, arithmetic: Arithmetic) -> Rescaled:
        """The result in the format `to`; `arithmetic` does not matter."""
        values, sources = zip(*operands, strict=True)
        return self.integers(*values, *sources, to)


@dataclass(frozen=True)
class FixedOp:
    """An operation in fixed point.

    meaning: what it computes on integers.
    image(*operands): an interval that holds its value for all operands in theirs. A constant is the last operand.
    error(*operands): the most by which the exact result of rounded operands, `Held` each, differs from that of real
    ones.
    positive: whether the operand must be.
    most: the magnitude that results have at most and without a margin. None where it is that of their range.
    """

    meaning: Formula | Unit
    image: Callable[..., Interval]
    error: Callable[..., Any]
    positive: bool = False
    most: float | None = None
