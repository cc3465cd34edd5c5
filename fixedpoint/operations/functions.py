"""sin, cos, exp, √ and 1/x in fixed point, by the units of `fixedpoint.elementary` and `fixedpoint.tabulated`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from dynagate.fixedpoint import elementary, unit_errors
from dynagate.fixedpoint.format import Format, Integers, Rescaled
from dynagate.fixedpoint.intervals import Interval, IntervalWithError, outward
from dynagate.fixedpoint.operations import plans_in_c
from dynagate.fixedpoint.operations.row import FixedOp, Unit
from dynagate.fixedpoint.tabulated import TABULATED_OCTAVES, table_plan, tabulated

SLACK = 2.0**-50
"""Bound above the largest error of numpy's sine, cosine and exponential, which is a few units of 2⁻⁵³."""


def _reciprocal_of(x: Integers, source: Format, to: Format) -> Rescaled:
    """Return the reciprocal from the table for the two formats, or by Newton's method if they have no table."""
    plan = table_plan(source.width, to.width, source.frac + to.frac)
    return elementary.reciprocal(x, source, to) if plan is None else tabulated(x, plan, source, to)


def _wave(function: Callable[[Any], Any], peak: float) -> Callable[[Interval], Interval]:
    """Return the image of a sine that is 1 at `peak` and -1 half a period later.

    An angle that rounding moves across a peak has a value within SLACK of the peak's.
    """

    def holds(a: Interval, angle: float) -> Any:
        turn = 2.0 * np.pi
        return np.floor((a.high - angle) / turn) >= np.ceil((a.low - angle) / turn)

    def image(a: Interval) -> Interval:
        ends = function(a.low), function(a.high)
        low = np.where(holds(a, peak + np.pi), -1.0, np.minimum(*ends) - SLACK)
        high = np.where(holds(a, peak), 1.0, np.maximum(*ends) + SLACK)
        return Interval(np.maximum(low, -1.0), np.minimum(high, 1.0))

    return image


def _error_of_wave(a: IntervalWithError) -> Any:
    return np.minimum(a.error, 2.0)


def _exp(a: Interval) -> Interval:
    with np.errstate(over="ignore"):
        low, high = outward(np.exp(a.low) * (1.0 - SLACK), np.exp(a.high) * (1.0 + SLACK))
    return Interval(np.maximum(low, 0.0), high)


def _error_of_exp(a: IntervalWithError) -> Any:
    """Return the error of an exponential: |e**x - e**y| is largest if the integers exceed the largest x."""
    with np.errstate(over="ignore"):
        return np.exp(a.range.high) * np.expm1(a.error)


def _sqrt(a: Interval) -> Interval:
    low, high = outward(np.sqrt(np.maximum(a.low, 0.0)), np.sqrt(np.maximum(a.high, 0.0)))
    return Interval(np.where(a.low < 0.0, -np.inf, np.maximum(low, 0.0)), np.where(a.low < 0.0, np.inf, high))


def _error_of_sqrt(a: IntervalWithError) -> Any:
    """Return the error of a root: |√x - √y| = |x - y| / (√x + √y); infinity if the integers may be negative."""
    least = a.range.low - a.error
    sizes = np.sqrt(np.maximum(a.range.low, 0.0)) + np.sqrt(np.maximum(least, 0.0))
    positive = (least >= 0.0) & (sizes > 0.0)
    return np.where(positive, a.error / np.where(positive, sizes, 1.0), np.where(a.error > 0.0, np.inf, 0.0))


def _reciprocal(a: Interval) -> Interval:
    """Return the interval of a reciprocal; unbounded if the operand may be zero or negative."""
    positive = a.low > 0.0
    low, high = outward(1.0 / np.where(positive, a.high, 1.0), 1.0 / np.where(positive, a.low, 1.0))
    return Interval(np.where(positive, low, -np.inf), np.where(positive, high, np.inf))


def _error_of_reciprocal(a: IntervalWithError) -> Any:
    """Return the error of a reciprocal: |1/x - 1/y| = |x - y| / (x y); infinity if the integers may be zero or
    negative.
    """
    least = a.range.low - a.error
    positive = least > 0.0
    return np.where(positive, a.error / np.where(positive, a.range.low * least, 1.0), np.inf)


_SIN = Unit("dg_sine_{bits}(x, p, 0)", elementary.sine, plans_in_c.sine, unit_errors.sine_error)
_COS = Unit("dg_sine_{bits}(x, p, 1)", elementary.cosine, plans_in_c.sine, unit_errors.sine_error)
_EXP = Unit("dg_exp_{bits}(x, p, &wrong)", elementary.exponential, plans_in_c.exp, unit_errors.exp_error)
_SQRT = Unit("dg_root_{bits}(x, p, &wrong)", elementary.square_root, plans_in_c.root, unit_errors.root_error, noise=1.0)
_INVERSE = "dg_reciprocal_{bits}(x, p, &wrong)"
_RECIPROCAL = Unit(
    _INVERSE, _reciprocal_of, plans_in_c.reciprocal, unit_errors.reciprocal_error, own_octaves=TABULATED_OCTAVES
)
_NORMALIZED = Unit(_INVERSE, elementary.reciprocal, plans_in_c.newton, unit_errors.newton_error)

ROWS = {
    "sin": FixedOp(_SIN, _wave(np.sin, np.pi / 2.0), _error_of_wave, most=1.0),
    "cos": FixedOp(_COS, _wave(np.cos, 0.0), _error_of_wave, most=1.0),
    "exp": FixedOp(_EXP, _exp, _error_of_exp),
    "sqrt": FixedOp(_SQRT, _sqrt, _error_of_sqrt, positive=True),
    "reciprocal": FixedOp(_RECIPROCAL, _reciprocal, _error_of_reciprocal, positive=True),
    "normalized_reciprocal": FixedOp(_NORMALIZED, _reciprocal, _error_of_reciprocal, positive=True),
}
