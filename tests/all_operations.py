"""A function with every operation, which a fixture adds to the table of functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from dynagate import FUNCTIONS
from dynagate.dynamics import FunctionRow, Tree
from dynagate.dynamics.spatial import array, exp, select, sqrt
from dynagate.fixedpoint.operations import FIXED
from dynagate.graph.ops import OPS
from dynagate.hw.units.table import HARDWARE, OfCores

ALL_OPERATIONS = "all_operations"


def all_operations(tree: Tree, q: Sequence[Any], qd: Sequence[Any]) -> Any:
    """Numbers that mean nothing: each operation of a datapath on operands that it takes, and choices between a value
    and a number."""
    a, b = q
    v, w = qd
    speed = sqrt(v * v + w * w + 0.25)
    signed = 0.4 * a - 0.1 * b, 0.5 * w, b
    results = [speed, -(2.0 * v)]
    for k, (name, op) in enumerate(OPS.items()):
        if name != "input" and not isinstance(HARDWARE[name], OfCores):
            operands = [speed] if FIXED[name].positive else [signed[(k + j) % 3] for j in range(3)]
            constant = [-1.0 if op.constant == "exponent" else 0.3] if op.constant else []
            results.append(op.real(*operands[: op.arity], *constant) * (0.1 + 0.01 * k))
    first = select(a - 1.0, sum(results[::2]), sum(results[1::2]))
    second = select(w, select(v, a * b, 0.75), sum(results))
    return array([first - exp(-speed), -second])


@pytest.fixture(autouse=True)
def function(monkeypatch: pytest.MonkeyPatch) -> FunctionRow:
    known = FUNCTIONS["inverse_dynamics"]
    added = FunctionRow(ALL_OPERATIONS, known.inputs[:2], known.outputs, {"plain": all_operations}, {})
    monkeypatch.setitem(FUNCTIONS, ALL_OPERATIONS, added)
    return added
