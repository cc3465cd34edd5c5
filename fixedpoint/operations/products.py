"""Products in fixed point, with and without an addend."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.intervals import Interval, IntervalWithError, outward
from dynagate.fixedpoint.operations.row import ExactResult, FixedOp, Formula
from dynagate.fixedpoint.operations.sums import add, sub


def _product(formats: Sequence[Format]) -> ExactResult:
    a, b = formats
    return ExactResult(a.width + b.width, a.frac + b.frac, (0, 0), (True, False))


def _fused(formats: Sequence[Format]) -> ExactResult:
    a, b, c = formats
    below = a.frac + b.frac
    frac = max(below, c.frac)
    bits = 2 + max(a.width + b.width + frac - below, c.width + frac - c.frac)
    return ExactResult(bits, frac, (frac - below, 0, frac - c.frac), (True, False, True))


def _mul(a: Interval, b: Interval) -> Interval:
    corners = a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high
    return outward(
        np.minimum(np.minimum(*corners[:2]), np.minimum(*corners[2:])),
        np.maximum(np.maximum(*corners[:2]), np.maximum(*corners[2:])),
    )


def _error(a: IntervalWithError, b: IntervalWithError) -> Any:
    return a.magnitude * b.error + b.magnitude * a.error + a.error * b.error


def _error_of_fused(a: IntervalWithError, b: IntervalWithError, c: IntervalWithError) -> Any:
    return _error(a, b) + c.error


_MUL = FixedOp(Formula("x * y", operator.mul, _product), _mul, _error)

ROWS = {
    "mul": _MUL,
    "mul_const": _MUL,
    "multiply_add": FixedOp(
        Formula("x * y + z", lambda x, y, z: x * y + z, _fused), lambda a, b, c: add(_mul(a, b), c), _error_of_fused
    ),
    "multiply_sub": FixedOp(
        Formula("x * y - z", lambda x, y, z: x * y - z, _fused), lambda a, b, c: sub(_mul(a, b), c), _error_of_fused
    ),
    "sub_multiply": FixedOp(
        Formula("z - x * y", lambda x, y, z: z - x * y, _fused), lambda a, b, c: sub(c, _mul(a, b)), _error_of_fused
    ),
}
