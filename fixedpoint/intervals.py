"""Interval arithmetic over the box of a region's limits: ranges that no state of the region leaves.

Endpoints are float64. Every operation moves them outwards by at least its rounding, so the value of a node in real
arithmetic lies between them (Moore, Kearfott & Cloud, "Introduction to interval analysis", 2009, ch. 2). Intervals do
not track which operands depend on one another, so a range may be wider than the values that states reach.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from dynagate.base.errors import Error


class ProofError(Error, ValueError):
    """Ranges or errors cannot be proved; the text names the node and suggests a remedy."""


class Interval(NamedTuple):
    """All numbers from low to high, (boxes,) each."""

    low: Any
    high: Any

    @property
    def magnitude(self) -> Any:
        """Return the largest magnitude."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def within(self, other: Interval) -> Interval:
        """Return the intersection with another interval."""
        return Interval(np.maximum(self.low, other.low), np.minimum(self.high, other.high))


UNBOUNDED = Interval(-np.inf, np.inf)
"""The interval of all numbers."""


def point(value: float) -> Interval:
    """Return the interval of a single number."""
    return Interval(np.float64(value), np.float64(value))


def outward(low: Any, high: Any) -> Interval:
    """Return the endpoints of an operation, moved outwards by the largest rounding error of float64."""
    return Interval(np.nextafter(low, -np.inf), np.nextafter(high, np.inf))


class IntervalWithError(NamedTuple):
    """Range and rounding error of an operand in fixed point."""

    range: Interval
    """Interval of its value in real arithmetic."""
    error: Any
    """Largest difference between that value and the integers, (boxes,)."""

    @property
    def magnitude(self) -> Any:
        """Return the largest magnitude in real arithmetic."""
        return self.range.magnitude
