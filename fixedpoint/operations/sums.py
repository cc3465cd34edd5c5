"""Sums in fixed point, and operations that are a sum of one term: constants, negation, shifts."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.intervals import UNBOUNDED, Interval, IntervalWithError, outward
from dynagate.fixedpoint.operations.row import ExactResult, FixedOp, Formula


def sum_of(formats: Sequence[Format]) -> ExactResult:
    """Return the exact result of a sum whose terms are shifted to the finest binary point among them."""
    frac = max(format.frac for format in formats)
    bits = 2 + max(format.width + frac - format.frac for format in formats)
    return ExactResult(bits, frac, tuple(frac - format.frac for format in formats), (True,) * len(formats))


def add(a: Interval, b: Interval) -> Interval:
    """Return the interval of a sum."""
    return outward(a.low + b.low, a.high + b.high)


def _neg(a: Interval) -> Interval:
    return Interval(-a.high, -a.low)


def sub(a: Interval, b: Interval) -> Interval:
    """Return the interval of a difference."""
    return add(a, _neg(b))


def _shift(a: Interval, exponent: Interval) -> Interval:
    factor = 2.0**exponent.low
    return outward(a.low * factor, a.high * factor)


def _error(*terms: IntervalWithError) -> Any:
    return sum((term.error for term in terms), 0.0)


def _error_of_shift(a: IntervalWithError, exponent: IntervalWithError) -> Any:
    return a.error * 2.0**exponent.range.low


_ONE = Formula("x", operator.pos, sum_of)
_ADD = FixedOp(Formula("x + y", operator.add, sum_of, (1, 1)), add, _error)

ROWS = {
    "input": FixedOp(_ONE, lambda: UNBOUNDED, _error),
    "const": FixedOp(_ONE, lambda c: c, _error, most=0.0),
    "add": _ADD,
    "add_const": _ADD,
    "sub": FixedOp(Formula("x - y", operator.sub, sum_of, (1, -1)), sub, _error),
    "neg": FixedOp(Formula("-x", operator.neg, sum_of), _neg, _error),
    # the formats of its operand have the binary point moved (`FormattedGraph.operand_formats`)
    "shift": FixedOp(_ONE, _shift, _error_of_shift),
}
