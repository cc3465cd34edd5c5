"""Ranges that no state of a region leaves: interval arithmetic over the box of its limits.

Endpoints are float64. Every operation moves them outward by at least its own rounding, so the value of a node in real
arithmetic lies between them (Moore, Kearfott & Cloud, "Introduction to interval analysis", 2009, ch. 2). An interval
does not know which operands depend on one another, so a range may be wider than what states reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.base.errors import Error
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.unit_errors import exp_error, newton_error, reciprocal_error, root_error, sine_error
from dynagate.graph import Graph
from dynagate.graph.graph import Node
from dynagate.graph.ops import table

Array = npt.NDArray[np.float64]

SLACK = 2.0**-50
"""Above the largest error of numpy's sine, cosine and exponential, which is some units of 2⁻⁵³."""


class ProofError(Error, ValueError):
    """Ranges or errors that cannot be proved; the text names the node and what would do."""


class Interval(NamedTuple):
    """All numbers from low to high, (boxes,) each."""

    low: Any
    high: Any

    @property
    def magnitude(self) -> Any:
        """The largest magnitude."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def within(self, other: Interval) -> Interval:
        """What both hold."""
        return Interval(np.maximum(self.low, other.low), np.minimum(self.high, other.high))


UNBOUNDED = Interval(-np.inf, np.inf)


def point(value: float) -> Interval:
    return Interval(np.float64(value), np.float64(value))


def outward(low: Any, high: Any) -> Interval:
    """The endpoints of an operation, moved by the largest error that its rounding has."""
    return Interval(np.nextafter(low, -np.inf), np.nextafter(high, np.inf))


def _unknown() -> Interval:
    return UNBOUNDED


def _add(a: Interval, b: Interval) -> Interval:
    return outward(a.low + b.low, a.high + b.high)


def _neg(a: Interval) -> Interval:
    return Interval(-a.high, -a.low)


def _sub(a: Interval, b: Interval) -> Interval:
    return _add(a, _neg(b))


def _mul(a: Interval, b: Interval) -> Interval:
    corners = a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high
    return outward(
        np.minimum(np.minimum(*corners[:2]), np.minimum(*corners[2:])),
        np.maximum(np.maximum(*corners[:2]), np.maximum(*corners[2:])),
    )


def square(a: Interval) -> Interval:
    """x x, which is not negative."""
    ends = a.low * a.low, a.high * a.high
    least = np.where((a.low <= 0.0) & (a.high >= 0.0), 0.0, np.minimum(*ends))
    low, high = outward(least, np.maximum(*ends))
    return Interval(np.maximum(low, 0.0), high)


def _multiply_add(a: Interval, b: Interval, c: Interval) -> Interval:
    return _add(_mul(a, b), c)


def _multiply_sub(a: Interval, b: Interval, c: Interval) -> Interval:
    return _sub(_mul(a, b), c)


def _sub_multiply(a: Interval, b: Interval, c: Interval) -> Interval:
    return _sub(c, _mul(a, b))


def _shift(a: Interval, exponent: Interval) -> Interval:
    return _mul(a, point(2.0**exponent.low))


def _wave(function: Callable[[Any], Any], peak: float) -> Callable[[Interval], Interval]:
    """A sine that is 1 at `peak` and a turn from there, and -1 half a turn from there. An angle that rounding moves
    across a peak has a value nearer to it than SLACK."""

    def holds(a: Interval, angle: float) -> Any:
        turn = 2.0 * np.pi
        return np.floor((a.high - angle) / turn) >= np.ceil((a.low - angle) / turn)

    def image(a: Interval) -> Interval:
        ends = function(a.low), function(a.high)
        low = np.where(holds(a, peak + np.pi), -1.0, np.minimum(*ends) - SLACK)
        high = np.where(holds(a, peak), 1.0, np.maximum(*ends) + SLACK)
        return Interval(np.maximum(low, -1.0), np.minimum(high, 1.0))

    return image


def _exp(a: Interval) -> Interval:
    with np.errstate(over="ignore"):
        low, high = outward(np.exp(a.low) * (1.0 - SLACK), np.exp(a.high) * (1.0 + SLACK))
    return Interval(np.maximum(low, 0.0), high)


def _sqrt(a: Interval) -> Interval:
    low, high = outward(np.sqrt(np.maximum(a.low, 0.0)), np.sqrt(np.maximum(a.high, 0.0)))
    return Interval(np.where(a.low < 0.0, -np.inf, np.maximum(low, 0.0)), np.where(a.low < 0.0, np.inf, high))


def _reciprocal(a: Interval) -> Interval:
    """Unbounded where the operand may be zero or less: divisors are positive."""
    positive = a.low > 0.0
    low, high = outward(1.0 / np.where(positive, a.high, 1.0), 1.0 / np.where(positive, a.low, 1.0))
    return Interval(np.where(positive, low, -np.inf), np.where(positive, high, np.inf))


def _select(condition: Interval, positive: Interval, otherwise: Interval) -> Interval:
    first, second = condition.low > 0.0, condition.high <= 0.0
    low, high = np.minimum(positive.low, otherwise.low), np.maximum(positive.high, otherwise.high)
    return Interval(
        np.where(first, positive.low, np.where(second, otherwise.low, low)),
        np.where(first, positive.high, np.where(second, otherwise.high, high)),
    )


class Held(NamedTuple):
    """What is known of an operand in fixed point. range: of its value in real arithmetic. error: (boxes,), the most by
    which the integers differ from it."""

    range: Interval
    error: Any

    @property
    def magnitude(self) -> Any:
        return self.range.magnitude


def _no_error() -> float:
    return 0.0


def _error_of_sum(*terms: Held) -> Any:
    return sum(term.error for term in terms)


def _error_of_product(a: Held, b: Held) -> Any:
    return a.magnitude * b.error + b.magnitude * a.error + a.error * b.error


def _error_of_fused(a: Held, b: Held, c: Held) -> Any:
    return _error_of_product(a, b) + c.error


def _error_of_shift(a: Held, exponent: Held) -> Any:
    return a.error * 2.0**exponent.range.low


def _error_of_wave(a: Held) -> Any:
    return np.minimum(a.error, 2.0)


def _error_of_exp(a: Held) -> Any:
    """|e**x - e**y| is largest where the integers are above the largest x."""
    with np.errstate(over="ignore"):
        return np.exp(a.range.high) * np.expm1(a.error)


def _error_of_sqrt(a: Held) -> Any:
    """|√x - √y| = |x - y| / (√x + √y); infinite where the integers may be negative."""
    least = a.range.low - a.error
    sizes = np.sqrt(np.maximum(a.range.low, 0.0)) + np.sqrt(np.maximum(least, 0.0))
    positive = (least >= 0.0) & (sizes > 0.0)
    return np.where(positive, a.error / np.where(positive, sizes, 1.0), np.where(a.error > 0.0, np.inf, 0.0))


def _error_of_reciprocal(a: Held) -> Any:
    """|1/x - 1/y| = |x - y| / (x y); infinite where the integers may be zero or less."""
    least = a.range.low - a.error
    positive = least > 0.0
    return np.where(positive, a.error / np.where(positive, a.range.low * least, 1.0), np.inf)


def _error_of_select(condition: Held, positive: Held, otherwise: Held) -> Any:
    """Near zero the condition's error may choose the other one."""
    low, high = condition.range
    sure = (condition.error == 0.0) | (low > condition.error) | (high <= -condition.error)
    apart = _sub(positive.range, otherwise.range).magnitude
    return np.maximum(positive.error, otherwise.error) + np.where(sure, 0.0, apart)


@dataclass(frozen=True)
class IntervalOp:
    """An operation on intervals.

    image(*operands): an interval that holds its value for all operands in theirs. A constant is the last operand.
    error(*operands): the most by which the exact result of rounded operands differs from that of real ones.
    unit(source, to, largest): the most by which a unit's result differs from the exact one, its rounding included, for
    formats and the largest magnitude of the result. None where the result is exact but for one rounding.
    positive: whether the operand must be.
    """

    image: Callable[..., Interval]
    error: Callable[..., Any]
    unit: Callable[[Format, Format, Any], Any] | None = None
    positive: bool = False


INTERVALS = table(
    "fixedpoint.intervals",
    {
        "input": IntervalOp(_unknown, _no_error),
        "const": IntervalOp(lambda c: c, _error_of_sum),
        "add": IntervalOp(_add, _error_of_sum),
        "sub": IntervalOp(_sub, _error_of_sum),
        "add_const": IntervalOp(_add, _error_of_sum),
        "neg": IntervalOp(_neg, _error_of_sum),
        "mul": IntervalOp(_mul, _error_of_product),
        "mul_const": IntervalOp(_mul, _error_of_product),
        "shift": IntervalOp(_shift, _error_of_shift),
        "sin": IntervalOp(_wave(np.sin, np.pi / 2.0), _error_of_wave, sine_error),
        "cos": IntervalOp(_wave(np.cos, 0.0), _error_of_wave, sine_error),
        "exp": IntervalOp(_exp, _error_of_exp, exp_error),
        "sqrt": IntervalOp(_sqrt, _error_of_sqrt, root_error, positive=True),
        "select": IntervalOp(_select, _error_of_select),
        "reciprocal": IntervalOp(_reciprocal, _error_of_reciprocal, reciprocal_error, positive=True),
        "multiply_add": IntervalOp(_multiply_add, _error_of_fused),
        "multiply_sub": IntervalOp(_multiply_sub, _error_of_fused),
        "sub_multiply": IntervalOp(_sub_multiply, _error_of_fused),
        "normalised_reciprocal": IntervalOp(_reciprocal, _error_of_reciprocal, newton_error, positive=True),
    },
)


def image(node: Node, operands: Sequence[Interval]) -> Interval:
    """The interval of a node. operands: those of its arguments."""
    if node.op == "mul" and node.args[0] == node.args[1]:
        return square(operands[0])
    constant = [] if node.constant is None else [point(node.constant)]
    return INTERVALS[node.op].image(*operands, *constant)


def images(graph: Graph, box: Mapping[int, Interval], known: Mapping[int, Interval]) -> list[Interval]:
    """The interval of every node. box: those of the inputs, by node, a number or (boxes,) each. known: intervals that
    hold the nodes' values for other reasons."""
    values: list[Interval] = []
    for i, node in enumerate(graph.nodes):
        value = box[i] if node.op == "input" else image(node, [values[a] for a in node.args])
        values.append(value.within(known[i]) if i in known else value)
    return values
