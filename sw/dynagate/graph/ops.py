"""The operations: what each means on floats, and its derivative.

Every other stage has a table of its own, with a row for each of these operations: `native.expressions`,
`fixedpoint.operations`, `hw.units`. `table` checks at import that no row is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from dynagate.dynamics.spatial import cos, exp, noise, select, sin, sqrt

Row = TypeVar("Row")


@dataclass(frozen=True)
class Op:
    """An operation of this many operands (arity).

    real(*operands): its meaning on floats, complex numbers, numpy arrays of them, and traced expressions. A constant is
    the last operand.
    partials(result, *operands): the derivative with respect to each operand that is a node, of the same scalars.
    counted: the column of an operation count that it falls under, by what it costs in hardware.
    constant: what the constant of an operation that carries one is.
    cycles: typical latency in hardware, by which passes balance.
    rate(operands, rates): how fast the result changes, where that takes fewer operations than the partials; None else.
    """

    name: str
    arity: int
    real: Callable[..., Any]
    partials: Callable[..., tuple[Any, ...]]
    counted: str
    constant: Literal["", "value", "term", "factor", "exponent"] = ""
    cycles: int = 0
    rate: Callable[[Sequence[Any], Sequence[Any]], Any] | None = None


def _partials_of_select(result: Any, condition: Any, positive: Any, otherwise: Any) -> tuple[Any, ...]:
    return 0.0 * condition, select(condition, 1.0, 0.0), select(condition, 0.0, 1.0)


def _rate_of_select(operands: Sequence[Any], rates: Sequence[Any]) -> Any:
    return select(operands[0], rates[1], rates[2])


OPS: dict[str, Op] = {
    op.name: op
    for op in [
        Op("input", 0, lambda: None, lambda r: (), ""),
        Op("const", 0, lambda c: c, lambda r, c: (), "", "value"),
        Op("add", 2, lambda a, b: a + b, lambda r, a, b: (1.0, 1.0), "add", cycles=1),
        Op("sub", 2, lambda a, b: a - b, lambda r, a, b: (1.0, -1.0), "add", cycles=1),
        Op("add_const", 1, lambda a, c: a + c, lambda r, a, c: (1.0,), "add", "term", cycles=1),
        Op("neg", 1, lambda a: -a, lambda r, a: (-1.0,), "neg", cycles=1),
        Op("mul", 2, lambda a, b: a * b, lambda r, a, b: (b, a), "mul", cycles=3),
        Op("mul_const", 1, lambda a, c: a * c, lambda r, a, c: (c,), "mul_const", "factor", cycles=3),
        # times 2**c: a move of the binary point, free in hardware
        Op("shift", 1, lambda a, c: a * 2.0**c, lambda r, a, c: (2.0**c,), "mul_const", "exponent"),
        Op("sin", 1, sin, lambda r, a: (cos(a),), "trig", cycles=12),
        Op("cos", 1, cos, lambda r, a: (-sin(a),), "trig", cycles=12),
        Op("exp", 1, exp, lambda r, a: (r,), "reciprocal", cycles=14),
        Op("sqrt", 1, sqrt, lambda r, a: (0.5 / r,), "reciprocal", cycles=12),
        Op("noise", 3, noise, lambda r, *operands: (0.0, 0.0, 0.0), "reciprocal", cycles=80),
        Op("select", 3, select, _partials_of_select, "add", cycles=1, rate=_rate_of_select),
        Op("reciprocal", 1, lambda a: 1.0 / a, lambda r, a: (-(r * r),), "reciprocal", cycles=12),
        # what `fixedpoint.fuse` makes of products and sums, and of reciprocals; tracing records none of them
        Op("multiply_add", 3, lambda a, b, c: a * b + c, lambda r, a, b, c: (b, a, 1.0), "mul", cycles=4),
        Op("multiply_sub", 3, lambda a, b, c: a * b - c, lambda r, a, b, c: (b, a, -1.0), "mul", cycles=4),
        Op("sub_multiply", 3, lambda a, b, c: c - a * b, lambda r, a, b, c: (-b, -a, 1.0), "mul", cycles=4),
        Op("normalized_reciprocal", 1, lambda a: 1.0 / a, lambda r, a: (-(r * r),), "reciprocal", cycles=12),
    ]
}

SUMS = ("add", "sub", "add_const")
BEYOND = 1e300
"""Above the numbers of any motion: BEYOND - x > 0 asks whether x is finite. No pass takes it for a constant."""
PRODUCTS = ("mul", "mul_const")
TRIG = ("sin", "cos")
FUSED = ("multiply_add", "multiply_sub", "sub_multiply")
"""A product and an addend, a b + c, a b - c and c - a b, of the operands a, b and c: exact, and rounded once."""


def table(name: str, rows: Mapping[str, Row]) -> Mapping[str, Row]:
    """The rows of a stage's table by operation. Raises ValueError: an operation has no row, or a row no operation."""
    for operation in OPS:
        if operation not in rows:
            raise ValueError(f"table {name} has no row for operation '{operation}'")
    for operation in rows:
        if operation not in OPS:
            raise ValueError(f"table {name} has a row for '{operation}', which graph.ops does not list")
    return rows
