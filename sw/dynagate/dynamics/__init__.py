"""Rigid-body algorithms, written once over any scalar, and the table of functions that they provide.

A scalar may be a float, a numpy batch or a traced expression, so the same code evaluates a function and records its
graph. `FUNCTIONS` lists every function that can be traced, evaluated and built, with the names and shapes of its inputs
and outputs. `CONSTRAINED` lists the additional functions of robots with constraints.
"""

from __future__ import annotations

from dynagate.dynamics.functions.aliases import ALIASES
from dynagate.dynamics.functions.constrained import CONSTRAINED, CONSTRAINED_RESIDUAL, CONSTRAINED_SOLUTION
from dynagate.dynamics.functions.function_table import FUNCTIONS, LISTED, QUANTITIES, REGRESSORS
from dynagate.dynamics.functions.listing import TABLE
from dynagate.dynamics.functions.lookup import (
    ALL,
    AND,
    FRAME_FUNCTIONS,
    ROLLOUT,
    TOGETHER,
    check_named,
    function,
    of_frame,
    requested,
)
from dynagate.dynamics.functions.record import CODE, EXTERNAL, TAU_OR_QDD, FunctionPart, FunctionRow
from dynagate.dynamics.functions.spaces import SPACES, Argument, Space
from dynagate.dynamics.tree import Tree, tree_of

__all__ = [
    "ALIASES",
    "ALL",
    "AND",
    "CODE",
    "CONSTRAINED",
    "CONSTRAINED_RESIDUAL",
    "CONSTRAINED_SOLUTION",
    "EXTERNAL",
    "FRAME_FUNCTIONS",
    "FUNCTIONS",
    "LISTED",
    "QUANTITIES",
    "REGRESSORS",
    "ROLLOUT",
    "SPACES",
    "TABLE",
    "TAU_OR_QDD",
    "TOGETHER",
    "Argument",
    "FunctionPart",
    "FunctionRow",
    "Space",
    "Tree",
    "check_named",
    "function",
    "of_frame",
    "requested",
    "tree_of",
]
