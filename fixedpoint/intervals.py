"""Ranges that no state of a region leaves: interval arithmetic over the box of its limits.

Endpoints are float64. Every operation moves them outward by at least its own rounding, so the value of a node in real
arithmetic lies between them (Moore, Kearfott & Cloud, "Introduction to interval analysis", 2009, ch. 2). An interval
does not know which operands depend on one another, so a range may be wider than what states reach.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from dynagate.base.errors import Error


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
        """Return the intersection of both intervals."""
        return Interval(np.maximum(self.low, other.low), np.minimum(self.high, other.high))


UNBOUNDED = Interval(-np.inf, np.inf)


def point(value: float) -> Interval:
    return Interval(np.float64(value), np.float64(value))


def outward(low: Any, high: Any) -> Interval:
    """The endpoints of an operation, moved by the largest error that its rounding has."""
    return Interval(np.nextafter(low, -np.inf), np.nextafter(high, np.inf))


class IntervalWithError(NamedTuple):
    """The range and the rounding error of an operand in fixed point.

    range: interval of its value in real arithmetic. error: (boxes,), the largest difference between that value and the
    integers.
    """

    range: Interval
    error: Any

    @property
    def magnitude(self) -> Any:
        return self.range.magnitude
