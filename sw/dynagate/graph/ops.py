"""The table of scalar operations: what each computes on floats, and its derivative.

Every other stage has a table with one row for each operation: `native.expressions`, `fixedpoint.operations`,
`hw.units`. `table` checks at import that no row is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from dynagate.dynamics.spatial import cos, exp, noise, select, sin, sqrt

Row = TypeVar("Row")


@dataclass(frozen=True)
class Op:
    """A scalar operation."""

    name: str
    """Name of the operation."""
    arity: int
    """Number of operands that are nodes."""
    real: Callable[..., Any]
    """Computes the result from the operands, and then the constant if there is one. The scalars may be floats, complex
    numbers, numpy arrays or recorded expressions.
    """
    partials: Callable[..., tuple[Any, ...]]
    """Computes the derivative with respect to each operand from (result, *operands), over the same scalars."""
    counted: str
    """Column of `OperationCounts` in which the operation is counted, by its cost in hardware."""
    constant: Literal["", "value", "term", "factor", "exponent"] = ""
    """Role of the constant; "" for an operation without a constant."""
    cycles: int = 0
    """Typical latency in hardware, in cycles, by which passes balance sums."""
    rate: Callable[[Sequence[Any], Sequence[Any]], Any] | None = None
    """Computes the rate of the result from (operands, rates), if that takes fewer operations than the partials; else
    None.
    """


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
        # created by `fixedpoint.fuse` from products, sums and reciprocals; tracing does not record them
        Op("multiply_add", 3, lambda a, b, c: a * b + c, lambda r, a, b, c: (b, a, 1.0), "mul", cycles=4),
        Op("multiply_sub", 3, lambda a, b, c: a * b - c, lambda r, a, b, c: (b, a, -1.0), "mul", cycles=4),
        Op("sub_multiply", 3, lambda a, b, c: c - a * b, lambda r, a, b, c: (-b, -a, 1.0), "mul", cycles=4),
        Op("normalized_reciprocal", 1, lambda a: 1.0 / a, lambda r, a: (-(r * r),), "reciprocal", cycles=12),
    ]
}

SUMS = ("add", "sub", "add_const")
BEYOND = 1e300
"""A number above any number of a motion: BEYOND - x > 0 tests whether x is finite. No pass folds the comparison."""
PRODUCTS = ("mul", "mul_const")
TRIG = ("sin", "cos")
FUSED = ("multiply_add", "multiply_sub", "sub_multiply")
"""Operations a b + c, a b - c and c - a b on the operands a, b and c, with a single rounding."""


def table(name: str, rows: Mapping[str, Row]) -> Mapping[str, Row]:
    """Return the rows of a stage's table by operation.

    Raises:
        ValueError: An operation has no row, or a row has no operation.
    """
    for operation in OPS:
        if operation not in rows:
            raise ValueError(f"table {name} has no row for operation '{operation}'")
    for operation in rows:
        if operation not in OPS:
            raise ValueError(f"table {name} has a row for '{operation}', which graph.ops does not list")
    return rows
