"""The operations in C and CUDA."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dynagate.graph.ops import table


@dataclass(frozen=True)
class NativeOp:
    """An operation in C.

    text: the expression, {0}, {1} and {2} the operands, a constant last; that of a shift is 2**constant.
    function: where C has no operator for it, its value for single numbers x, y and z, the operands, instead.
    cycles: from operands to result on processors of the day; on others sums take longer, and are as right.
    in_order: cycles that it takes a small processor in order, assumed: an instruction, and a load or store with it;
    division and root wait for their result, and a sine is a function of some forty instructions.
    infinity: what becomes of operands that are infinite. They remain infinite or turn into NaN ("stays"), become NaN
    ("nan"), or may become a number, as 1 / infinity does ("lost"). NaN remains NaN in all of these. The
    result may be that of another operand ("hidden").
    single: the function of math.h that computes it for a double.
    """

    text: str = ""
    cycles: int = 4
    infinity: Literal["stays", "nan", "lost", "hidden"] = "stays"
    function: str = ""
    in_order: int = 2
    single: str = ""


NATIVE = table(
    "native.expressions",
    {
        "input": NativeOp("", 0, in_order=0),
        "const": NativeOp("{0}", 0, in_order=0),
        "add": NativeOp("{0} + {1}"),
        "sub": NativeOp("{0} - {1}"),
        "add_const": NativeOp("{0} + {1}"),
        "neg": NativeOp("-{0}"),
        "mul": NativeOp("{0} * {1}"),
        "mul_const": NativeOp("{0} * {1}"),
        "shift": NativeOp("{0} * {1}"),
        "sin": NativeOp(
            "DG_CALL(sin, {0}, {0}, {0})", 0, "nan", in_order=40, single="sin"
        ),  # those of inputs are computed before all else
        "cos": NativeOp("DG_CALL(cos, {0}, {0}, {0})", 0, "nan", in_order=40, single="cos"),
        "exp": NativeOp("DG_CALL(exp, {0}, {0}, {0})", 40, "lost", in_order=40, single="exp"),
        "noise": NativeOp("DG_CALL(noise, {0}, {1}, {2})", 80, "lost", in_order=120),
        "sqrt": NativeOp(function="sqrt(x)", cycles=20, in_order=22, single="sqrt"),
        "select": NativeOp(function="x > 0 ? y : z", cycles=2, infinity="hidden"),
        "reciprocal": NativeOp("1 / {0}", 24, "lost", in_order=18),
        "multiply_add": NativeOp("{0} * {1} + {2}"),
        "multiply_sub": NativeOp("{0} * {1} - {2}"),
        "sub_multiply": NativeOp("{2} - {0} * {1}"),
        "normalized_reciprocal": NativeOp("1 / {0}", 24, "lost"),
    },
)


def operation(op: str, operands: Sequence[str]) -> str:
    """The operation on operands in C."""
    row = NATIVE[op]
    if row.function:
        return f"DG_CALL({op}, {', '.join([*operands, *[operands[0]] * (3 - len(operands))])})"
    return row.text.format(*operands)


def functions(ops: Iterable[str]) -> list[str]:
    """The definitions that these operations need before they are called."""
    used = set(ops)
    return [f"DG_FUNCTION({op}, {row.function})" for op, row in NATIVE.items() if op in used and row.function]
