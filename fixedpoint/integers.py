"""The operations in fixed point: what each computes on integers. Hardware computes the same, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynagate.fixedpoint import elementary
from dynagate.fixedpoint.format import Arithmetic, Fixed, Format, Rescaled, rescale, wide
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
    total: Any = 0
    for (value, format), sign in zip(operands, signs, strict=True):
        total = total + sign * (wide(value, bits) << (frac - format.frac))
    return rescale(total, frac, to, arithmetic)


def _mul(operands: Sequence[Fixed], to: Format, arithmetic: Arithmetic) -> Rescaled:
    (a, fa), (b, fb) = operands
    bits = fa.width + fb.width + max(0, to.frac - fa.frac - fb.frac)
    return rescale(wide(a, bits) * wide(b, bits), fa.frac + fb.frac, to, arithmetic)


def _shift(operands: Sequence[Fixed], to: Format, arithmetic: Arithmetic) -> Rescaled:
    (value, format), (exponent, _) = operands
    moved = Format(format.width, format.frac - int(exponent))
    return _sum([Fixed(value, moved)], (1,), to, arithmetic)


def _elementary(compute: Callable[..., Rescaled]) -> Integer:
    def integer(operands: Sequence[Fixed], to: Format, arithmetic: Arithmetic) -> Rescaled:
        ((value, format),) = operands
        return compute(value, format, to)

    return integer


INTEGERS = table(
    "fixedpoint.integers",
    {
        "input": _same,
        "const": _same,
        "add": _add,
        "sub": _sub,
        "add_const": _add,
        "neg": _neg,
        "mul": _mul,
        "mul_const": _mul,
        "shift": _shift,
        "sin": _elementary(elementary.sine),
        "cos": _elementary(elementary.cosine),
        "reciprocal": _elementary(elementary.reciprocal),
    },
)
