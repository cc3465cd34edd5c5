"""The operations in fixed point: what each computes on integers. Hardware computes the same, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from dynagate.fixedpoint import elementary
from dynagate.fixedpoint.format import Arithmetic, Fixed, Format, Integers, Rescaled, rescale, wide
from dynagate.fixedpoint.tabulated import TABULATED_OCTAVES, table_plan, tabulated
from dynagate.graph.ops import table

Integer = Callable[[Sequence[Fixed], Format, Arithmetic], Rescaled]
"""(operands, to, arithmetic) -> the result in the format `to`. A constant is the last operand."""


def _add(operands: Sequence[Fixed], to: Format, arithmetic: Arithmetic) -> Rescaled:
    return _sum(operands, (1, 1), to, arithmetic)


def _sub(operands: Sequence[Fixed], to: Format, arithmetic: Arithmetic) -> Rescaled:
    return _sum(operands, (1, -1), to, arithmetic)


def _neg(operands: Sequence[Fixed], to: Format, arithmetic: Arithmetic) -> Rescaled:
    return _sum(operands, (-1,), to, arithmetic)


def _same(operands: Sequence[Fixed], to: Format, arithmetic: Arithmetic) -> Rescaled:
    return _sum(operands, (1,), to, arithmetic)


def _sum(operands: Sequence[Fixed], signs: Sequence[int], to: Format, arithmetic: Arithmetic) -> Rescaled:
    frac = max(format.frac for _, format in operands)
    bits = 2 + max(format.width + frac - format.frac for _, format in operands) + max(0, to.frac - frac)
    terms = []
    for (value, format), sign in zip(operands, signs, strict=True):
        term = wide(value, bits)
        if frac != format.frac:
            term = term << (frac - format.frac)
        terms.append(term if sign > 0 else -term)
    return rescale(terms[0] if len(terms) == 1 else terms[0] + terms[1], frac, to, arithmetic)


def _mul(operands: Sequence[Fixed], to: Format, arithmetic: Arithmetic) -> Rescaled:
    (a, fa), (b, fb) = operands
    bits = fa.width + fb.width + max(0, to.frac - fa.frac - fb.frac)
    return rescale(wide(a, bits) * wide(b, bits), fa.frac + fb.frac, to, arithmetic)


def _multiply_add(product: int, addend: int) -> Integer:
    """The product times its sign plus the addend times its own, exact, rescaled once."""

    def integer(operands: Sequence[Fixed], to: Format, arithmetic: Arithmetic) -> Rescaled:
        (a, fa), (b, fb), (c, fc) = operands
        below = fa.frac + fb.frac
        frac = max(below, fc.frac)
        bits = 2 + max(fa.width + fb.width + frac - below, fc.width + frac - fc.frac) + max(0, to.frac - frac)
        exact = (wide(a, bits) * wide(b, bits)) << (frac - below)
        term = wide(c, bits) << (frac - fc.frac)
        return rescale(product * exact + addend * term, frac, to, arithmetic)

    return integer


def _shift(operands: Sequence[Fixed], to: Format, arithmetic: Arithmetic) -> Rescaled:
    (value, format), (exponent, _) = operands
    moved = Format(format.width, format.frac - int(exponent))
    return _sum([Fixed(value, moved)], (1,), to, arithmetic)


def _select(operands: Sequence[Fixed], to: Format, arithmetic: Arithmetic) -> Rescaled:
    (condition, _), *choices = operands
    frac = _finest([fmt for _, fmt in choices])
    bits = 1 + max(fmt.width + frac - fmt.frac for _, fmt in choices) + max(0, to.frac - frac)
    positive, otherwise = (wide(np.asarray(value), bits) << (frac - fmt.frac) for value, fmt in choices)
    return rescale(np.where(np.asarray(condition) > 0, positive, otherwise), frac, to, arithmetic)


def root_shift(source: Format, to: Format) -> int:
    """Bits by which the operand's integer is moved up. Its root is then the result's integer with a bit below it."""
    return 2 * to.frac - source.frac + 2


def square_root(x: Integers, source: Format, to: Format) -> Rescaled:
    """√x, rounded half up; where x is negative 0 with the flag."""
    shift = root_shift(source, to)
    size = wide(np.maximum(x, 0), source.width + max(shift, 0))
    root = _integer_root(size << shift if shift >= 0 else size >> -shift)
    result = rescale((root + 1) >> 1, to.frac, to, Arithmetic())
    return Rescaled(result.value, result.overflow | np.asarray(x < 0, dtype=bool))


def _integer_root(x: Integers) -> Integers:
    """The largest integers whose squares are not above x."""
    if x.dtype == object:
        return np.array([math.isqrt(int(v)) for v in x.ravel()], dtype=object).reshape(x.shape)
    root = np.sqrt(x.astype(np.float64)).astype(np.int64)
    root = root - (root * root > x)
    return root + ((root + 1) * (root + 1) <= x)


def _elementary(compute: Callable[..., Rescaled]) -> Integer:
    def integer(operands: Sequence[Fixed], to: Format, arithmetic: Arithmetic) -> Rescaled:
        ((value, format),) = operands
        return compute(value, format, to)

    return integer


def _reciprocal(operands: Sequence[Fixed], to: Format, arithmetic: Arithmetic) -> Rescaled:
    """By the table of the two formats where they have one."""
    ((value, source),) = operands
    plan = table_plan(source.width, to.width, source.frac + to.frac)
    return elementary.reciprocal(value, source, to) if plan is None else tabulated(value, plan, source, to)


def _finest(formats: Sequence[Format]) -> int:
    return max(format.frac for format in formats)


def _together(formats: Sequence[Format]) -> int:
    return sum(format.frac for format in formats)


def _fused(formats: Sequence[Format]) -> int:
    return max(formats[0].frac + formats[1].frac, formats[2].frac)


@dataclass(frozen=True)
class FixedOp:
    """An operation in fixed point.

    compute: its meaning on integers.
    exact(formats): the fraction bits of the exact result, of the operands' formats, a constant's last. None where the
    result is rounded whatever its format is, or is given.
    noise: the variance of the error of such a result, in units of step² / 12.
    most: the magnitude that results have at most and without a margin. None where it is that of their range.
    shares_unit: operands and results have one width, so that one hardware unit serves all operations of the kind.
    own_octaves: an operation whose operand and result span so many octaves or fewer has a unit of its own nevertheless.
    """

    compute: Integer
    exact: Callable[[Sequence[Format]], int] | None = None
    noise: float = 0.0
    most: float | None = None
    shares_unit: bool = False
    own_octaves: int | None = None


ELEMENTARY = 2.0
"""Noise of sin, cos, exp and 1/x: their tables and steps add as much again as the rounding."""

FIXED = table(
    "fixedpoint.integers",
    {
        "input": FixedOp(_same, noise=1.0),
        "const": FixedOp(_same, most=0.0),
        "add": FixedOp(_add, _finest),
        "sub": FixedOp(_sub, _finest),
        "add_const": FixedOp(_add, _finest),
        "neg": FixedOp(_neg, _finest),
        "mul": FixedOp(_mul, _together),
        "mul_const": FixedOp(_mul, _together),
        "shift": FixedOp(_shift),
        "sin": FixedOp(_elementary(elementary.sine), noise=ELEMENTARY, most=1.0, shares_unit=True),
        "cos": FixedOp(_elementary(elementary.cosine), noise=ELEMENTARY, most=1.0, shares_unit=True),
        "exp": FixedOp(_elementary(elementary.exponential), noise=ELEMENTARY, shares_unit=True),
        "sqrt": FixedOp(_elementary(square_root), noise=1.0, shares_unit=True),
        "select": FixedOp(_select, lambda formats: _finest(formats[1:])),
        "reciprocal": FixedOp(_reciprocal, noise=ELEMENTARY, shares_unit=True, own_octaves=TABULATED_OCTAVES),
        "multiply_add": FixedOp(_multiply_add(1, 1), _fused),
        "multiply_sub": FixedOp(_multiply_add(1, -1), _fused),
        "sub_multiply": FixedOp(_multiply_add(-1, 1), _fused),
        "normalised_reciprocal": FixedOp(_elementary(elementary.reciprocal), noise=ELEMENTARY, shares_unit=True),
    },
)
