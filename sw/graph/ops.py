"""The op table: one row per operation, everything that any stage needs to know of it.

Nothing else in the project lists the operations again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dynagate.fixedpoint import elementary
from dynagate.fixedpoint.format import Arithmetic, Fixed, Format, Rescaled, rescale, wide

Integer = Callable[[Sequence[Fixed], Format, Arithmetic], Rescaled]


@dataclass(frozen=True)
class Op:
    """real(*operands): meaning on floats, complex numbers and numpy arrays of them; a constant is the last operand.
    integer(operands, to, arithmetic): meaning in fixed point, the constant as the last operand.
    c: C expression, with {0}, {1} the operands. unit: hardware unit that computes it ("" for none).
    partials(*operands): derivative with respect to each operand that is a node.
    counted: the column of an operation count it falls under.
    """

    name: str
    arity: int
    real: Callable[..., Any]
    integer: Integer
    c: str
    unit: str
    partials: Callable[..., tuple[Any, ...]]
    counted: str
    has_constant: bool = False


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


OPS: dict[str, Op] = {
    op.name: op
    for op in [
        Op("input", 0, lambda: None, _same, "", "", lambda: (), ""),
        Op("const", 0, lambda c: c, _same, "{0}", "", lambda c: (), "", has_constant=True),
        Op("add", 2, lambda a, b: a + b, _add, "{0} + {1}", "add", lambda a, b: (1.0, 1.0), "add"),
        Op("sub", 2, lambda a, b: a - b, _sub, "{0} - {1}", "add", lambda a, b: (1.0, -1.0), "add"),
        Op("add_const", 1, lambda a, c: a + c, _add, "{0} + {1}", "add", lambda a, c: (1.0,), "add", True),
        Op("neg", 1, lambda a: -a, _neg, "-{0}", "add", lambda a: (-1.0,), "neg"),
        Op("mul", 2, lambda a, b: a * b, _mul, "{0} * {1}", "multiply", lambda a, b: (b, a), "mul"),
        Op(
            "mul_const",
            1,
            lambda a, c: a * c,
            _mul,
            "{0} * {1}",
            "multiply",
            lambda a, c: (c,),
            "mul_const",
            True,
        ),
        # times 2**c: a move of the binary point, free in hardware
        Op(
            "shift",
            1,
            lambda a, c: a * 2.0**c,
            _shift,
            "{0} * {1}",
            "",
            lambda a, c: (2.0**c,),
            "mul_const",
            True,
        ),
        Op(
            "sin",
            1,
            np.sin,
            _elementary(elementary.sine),
            "sin({0})",
            "sincos",
            lambda a: (np.cos(a),),
            "trig",
        ),
        Op(
            "cos",
            1,
            np.cos,
            _elementary(elementary.cosine),
            "cos({0})",
            "sincos",
            lambda a: (-np.sin(a),),
            "trig",
        ),
        Op(
            "reciprocal",
            1,
            lambda a: 1.0 / a,
            _elementary(elementary.reciprocal),
            "1 / {0}",
            "reciprocal",
            lambda a: (-1.0 / (a * a),),
            "reciprocal",
        ),
    ]
}
