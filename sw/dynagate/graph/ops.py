"""The operations: what each means on floats, and its derivative.

Every other stage has a table of its own, with a row for each of these operations: `fixedpoint.integers`,
`native.expressions`, `hw.units`. `table` checks at import that no row is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

Row = TypeVar("Row")


@dataclass(frozen=True)
class Op:
    """real(*operands): meaning on floats, complex numbers and numpy arrays of them; a constant is the last operand.
    unit: hardware unit that computes it ("" for none).
    partials(*operands): derivative with respect to each operand that is a node.
    counted: the column of an operation count it falls under.
    """

    name: str
    arity: int
    real: Callable[..., Any]
    unit: str
    partials: Callable[..., tuple[Any, ...]]
    counted: str
    has_constant: bool = False


OPS: dict[str, Op] = {
    op.name: op
    for op in [
        Op("input", 0, lambda: None, "", lambda: (), ""),
        Op("const", 0, lambda c: c, "", lambda c: (), "", has_constant=True),
        Op("add", 2, lambda a, b: a + b, "add", lambda a, b: (1.0, 1.0), "add"),
        Op("sub", 2, lambda a, b: a - b, "add", lambda a, b: (1.0, -1.0), "add"),
        Op("add_const", 1, lambda a, c: a + c, "add", lambda a, c: (1.0,), "add", has_constant=True),
        Op("neg", 1, lambda a: -a, "add", lambda a: (-1.0,), "neg"),
        Op("mul", 2, lambda a, b: a * b, "multiply", lambda a, b: (b, a), "mul"),
        Op("mul_const", 1, lambda a, c: a * c, "multiply", lambda a, c: (c,), "mul_const", has_constant=True),
        # times 2**c: a move of the binary point, free in hardware
        Op("shift", 1, lambda a, c: a * 2.0**c, "", lambda a, c: (2.0**c,), "mul_const", has_constant=True),
        Op("sin", 1, np.sin, "sincos", lambda a: (np.cos(a),), "trig"),
        Op("cos", 1, np.cos, "sincos", lambda a: (-np.sin(a),), "trig"),
        Op("reciprocal", 1, lambda a: 1.0 / a, "reciprocal", lambda a: (-1.0 / (a * a),), "reciprocal"),
    ]
}


def table(name: str, rows: Mapping[str, Row]) -> Mapping[str, Row]:
    """The rows of a stage's table by operation. Raises ValueError: an operation has no row, or a row no operation."""
    for operation in OPS:
        if operation not in rows:
            raise ValueError(f"table {name} has no row for operation '{operation}'")
    for operation in rows:
        if operation not in OPS:
            raise ValueError(f"table {name} has a row for '{operation}', which graph.ops does not list")
    return rows
