"""An algorithm with every operation, from the formula to the datapath; what a table says of a missing row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import FUNCTIONS, Region, build, evaluate, robots, trace
from dynagate.dynamics import Function, Tree
from dynagate.dynamics.spatial import array, exp, select, sqrt
from dynagate.fixedpoint.goal import Goal
from dynagate.fixedpoint.operations import FIXED
from dynagate.fixedpoint.optimise import optimise
from dynagate.graph.ops import FUSED, OPS, table
from dynagate.graph.truth import relative_errors
from dynagate.hw.units.table import ELEMENTARY
from dynagate.sim.runner import run_datapath_bench

from tests.cuda_text import as_host_code

NAME = "all_operations"


def all_operations(tree: Tree, q: Sequence[Any], qd: Sequence[Any]) -> Any:
    """Numbers that mean nothing: each operation of the table on operands that it takes, and choices between a value and
    a number."""
    a, b = q
    v, w = qd
    speed = sqrt(v * v + w * w + 0.25)
    signed = 0.4 * a - 0.1 * b, 0.5 * w, b
    results = [speed, -(2.0 * v)]
    for k, (name, op) in enumerate(OPS.items()):
        if name != "input":
            operands = [speed] if FIXED[name].positive else [signed[(k + j) % 3] for j in range(3)]
            constant = [-1.0 if op.constant == "exponent" else 0.3] if op.constant else []
            results.append(op.real(*operands[: op.arity], *constant) * (0.1 + 0.01 * k))
    first = select(a - 1.0, sum(results[::2]), sum(results[1::2]))
    second = select(w, select(v, a * b, 0.75), sum(results))
    return array([first - exp(-speed), -second])


@pytest.fixture(autouse=True)
def function(monkeypatch: pytest.MonkeyPatch) -> Function:
    known = FUNCTIONS["inverse_dynamics"]
    added = Function(NAME, known.inputs[:2], known.outputs, {"plain": all_operations}, {})
    monkeypatch.setitem(FUNCTIONS, NAME, added)
    return added


ARM = robots.load("two_joint_arm")


def states(count: int) -> dict[str, np.ndarray]:
    return Region.of(ARM).sample(NAME, count, seed=3)


def expected(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The formula on numbers, state by state."""
    return np.array(
        [all_operations(None, *row) for row in zip(inputs["q"], inputs["qd"], strict=True)],  # type: ignore[arg-type]
        dtype=np.float64,
    )


def test_the_graph_has_every_operation() -> None:
    graph = trace(ARM, NAME)
    assert {node.op for node in graph.nodes} >= set(OPS) - {"sub", "neg", *FUSED, "normalised_reciprocal"}
    inputs = states(2000)
    assert np.allclose(evaluate(graph, inputs)["tau"], expected(inputs), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("layout", ["rows", "planes"])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 2e-6), ("float64", 1e-14)])
def test_c_computes_it(dtype: str, error: float, layout: str) -> None:
    inputs = states(1003)
    with dynagate.open(ARM, NAME, device="cpu", dtype=dtype, layout=layout) as accelerator:
        got = accelerator(**inputs).tau
    exact = {key: value.astype(dtype).astype(np.float64) for key, value in inputs.items()}
    assert relative_errors(np.asarray(got, dtype=np.float64), expected(exact)).max() <= error


def test_cuda_computes_it(tmp_path: Path) -> None:
    graph, inputs = trace(ARM, NAME), states(70)
    assert relative_errors(as_host_code(graph, inputs, tmp_path)["tau"], expected(inputs)).max() <= 1e-14


def test_the_datapath_computes_it(designs: Path) -> None:
    region, graph = Region.of(ARM), trace(ARM, NAME)
    assert optimise(graph, region, Goal(1e-3, fresh=16384)).error <= 1e-3
    built = build(ARM, NAME, ii=3, goal=Goal(1e-3, fresh=16384), folder=designs)
    run_datapath_bench(built, states(300), seed=1)
    assert set(ELEMENTARY) - {"normalised_reciprocal"} <= set(built.plan.unit_counts())


def test_a_choice_is_not_taken_for_the_side_that_random_states_take() -> None:
    """Identities are found by evaluation; the condition here is negative in all states of one in a million."""

    def rarely(tree: Tree, q: Sequence[Any], qd: Sequence[Any]) -> Any:
        return array([select(q[0] - 1e6, qd[0], qd[1]), select(1e6 - q[0], qd[0], qd[1])])

    FUNCTIONS[NAME].forms["plain"] = rarely
    result = evaluate(trace(ARM, NAME), {"q": [[2e6, 0.0], [0.0, 0.0]], "qd": [[1.0, 2.0]] * 2})["tau"]
    assert result.tolist() == [[1.0, 2.0], [2.0, 1.0]]


def test_a_missing_row_is_named() -> None:
    rows = dict.fromkeys(OPS, 1)
    assert table("some", rows) == rows
    with pytest.raises(ValueError, match="table some has no row for operation 'select'"):
        table("some", {name: 1 for name in OPS if name != "select"})
    with pytest.raises(ValueError, match=r"table some has a row for 'power', which graph\.ops does not list"):
        table("some", {**rows, "power": 1})
