"""Operations in fixed point, with a file for each kind."""

from __future__ import annotations

from dynagate.fixedpoint.operations import choices, counters, functions, products, sums
from dynagate.fixedpoint.operations.row import ExactResult, FixedOp, Formula, Unit
from dynagate.graph.ops import table

FIXED = table(
    "fixedpoint.operations", {**sums.ROWS, **products.ROWS, **choices.ROWS, **functions.ROWS, **counters.ROWS}
)
"""Fixed-point properties of each operation, by name."""

__all__ = ["FIXED", "ExactResult", "FixedOp", "Formula", "Unit"]
