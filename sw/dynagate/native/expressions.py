"""The table of operations in C and CUDA."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dynagate.graph.ops import table


@dataclass(frozen=True)
class NativeOp:
    """An operation in C."""

    text: str = ""
    """Expression with the operands {0}, {1} and {2}, a constant last. The constant of a shift is 2**exponent."""
    cycles: int = 4
    """Typical cycles from operands to result, by which sums are arranged. Other processors are only slower."""
    infinity: Literal["stays", "nan", "lost", "hidden"] = "stays"
    """Result for infinite operands: infinite or NaN ("stays"), NaN ("nan"), possibly a number, such as 1 / infinity
    ("lost"), or possibly another operand ("hidden"). NaN stays NaN in all of these but "hidden".
    """
    function: str = ""
    """Expression of the operands x, y and z for single numbers, if C has no operator."""
    in_order: int = 2
    """Assumed cycles on a small in-order processor: an instruction with a load or store. Division and root wait for
    their result, and a sine is a function of about forty instructions.
    """
    single: str = ""
    """Function of math.h that computes it for a double."""


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
        ),  # sines and cosines of inputs are computed first
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
    """Return the C expression of an operation on operands."""
    row = NATIVE[op]
    if row.function:
        return f"DG_CALL({op}, {', '.join([*operands, *[operands[0]] * (3 - len(operands))])})"
    return row.text.format(*operands)


def functions(ops: Iterable[str]) -> list[str]:
    """Return the definitions of the functions that operations use."""
    used = set(ops)
    return [f"DG_FUNCTION({op}, {row.function})" for op, row in NATIVE.items() if op in used and row.function]
