"""The operations in fixed point, a file for those of one kind. A row has all that this stage knows of an operation."""

from __future__ import annotations

from dynagate.fixedpoint.operations import choices, counters, functions, products, sums
from dynagate.fixedpoint.operations.row import ExactResult, FixedOp, Formula, Unit
from dynagate.graph.ops import table

FIXED = table(
    "fixedpoint.operations", {**sums.ROWS, **products.ROWS, **choices.ROWS, **functions.ROWS, **counters.ROWS}
)

__all__ = ["FIXED", "ExactResult", "FixedOp", "Formula", "Unit"]
