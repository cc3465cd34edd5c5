"""Choices in fixed point: the result is one of the operands, selected by the sign of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.intervals import Interval, IntervalWithError
from dynagate.fixedpoint.operations.row import ExactResult, FixedOp, Formula
from dynagate.fixedpoint.operations.sums import sub, sum_of


def _selected(formats: Sequence[Format]) -> ExactResult:
    """Return the exact result of a choice; the condition is not shifted."""
    condition, *choices = formats
    one = sum_of(choices)
    return replace(one, bits=max(one.bits - 1, condition.width), up=(0, *one.up), finer=(False, *one.finer))


def _select(condition: Interval, positive: Interval, otherwise: Interval) -> Interval:
    first, second = condition.low > 0.0, condition.high <= 0.0
    low, high = np.minimum(positive.low, otherwise.low), np.maximum(positive.high, otherwise.high)
    return Interval(
        np.where(first, positive.low, np.where(second, otherwise.low, low)),
        np.where(first, positive.high, np.where(second, otherwise.high, high)),
    )


def _error_of_select(condition: IntervalWithError, positive: IntervalWithError, otherwise: IntervalWithError) -> Any:
    """Return the error of a choice: near zero, the condition's error may select the other operand."""
    low, high = condition.range
    sure = (condition.error == 0.0) | (low > condition.error) | (high <= -condition.error)
    apart = sub(positive.range, otherwise.range).magnitude
    return np.maximum(positive.error, otherwise.error) + np.where(sure, 0.0, apart)


ROWS = {
    "select": FixedOp(
        Formula("x > 0 ? y : z", lambda x, y, z: np.where(x > 0, y, z), _selected, (0, 1, 1)),
        _select,
        _error_of_select,
    ),
}
