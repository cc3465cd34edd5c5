"""Calls of solvers whose arrays stay for the next one: results are the caller's own, and nothing of a call is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import robots
from dynagate.control import Cost
from dynagate.control.cost import NQ, Input
from dynagate.control.forward import holding_loop
from dynagate.graph.evaluate import evaluate
from dynagate.graph.loop import evaluate_loop
from dynagate.host import problems
from dynagate.host.bound import ShapeCache
from dynagate.host.solver import Solver

ARM = robots.load("two_joint_arm", damping=False)
KNOTS = 8
COST = Cost(
    lambda knot: [*knot.away(knot["goal"]), *(0.1 * (knot.tau - knot["hold"]))],
    lambda knot: 10.0 * knot.away(knot["goal"]),
    inputs={"goal": Input((NQ,), None, True, True), "hold": Input((), 0.0)},
)
OWN: dict[str, dict[str, Any]] = {
    "ilqr": {"iterations": 4},
    "mppi": {"samples": 130, "temperature": 0.1, "spread": 1.0, "nodes": 3, "iterations": 2},
}


@pytest.fixture(scope="module", params=["ilqr", "mppi"])
def solver(request: pytest.FixtureRequest) -> Iterator[Solver]:
    with getattr(dynagate, request.param)(ARM, knots=KNOTS, dt=0.02, cost=COST, **OWN[request.param]) as opened:
        assert isinstance(opened, Solver)
        yield opened


def problem(count: int, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    q0, qd0 = random.uniform(-1.0, 1.0, (2, count, 2))
    return {"q0": q0, "qd0": qd0, "goal": random.uniform(-1.0, 1.0, (count, KNOTS + 1, 2))}


def solved(solver: Solver, inputs: dict[str, Any], **more: Any) -> dict[str, np.ndarray]:
    result = solver(**inputs, **more, **({"draw": 3} if solver.function == "mppi" else {}))
    return {each.name: getattr(result, each.name) for each in fields(result)}


def assert_same(result: dict[str, np.ndarray], expected: dict[str, np.ndarray], **tolerance: float) -> None:
    for name, value in expected.items():
        assert isinstance(result[name], np.ndarray)
        assert result[name].dtype == value.dtype
        if tolerance:
            np.testing.assert_allclose(result[name], value, err_msg=name, **tolerance)
        else:
            np.testing.assert_array_equal(result[name], value, err_msg=name)


def test_results_are_the_callers_own(solver: Solver) -> None:
    inputs = problem(1)
    first = solved(solver, inputs)
    kept = {name: value.copy() for name, value in first.items()}
    first["tau"][...] += 1.0
    assert not np.array_equal(solved(solver, problem(1, 1))["tau"], kept["tau"])
    first["tau"][...] = kept["tau"]
    assert_same(first, kept)
    assert_same(solved(solver, inputs), kept)
    assert len(solver._kept) == 1


def test_nothing_of_a_call_is_left_for_the_next(solver: Solver) -> None:
    inputs = {name: x[0] for name, x in problem(1).items()}
    first = solved(solver, inputs)
    more = {"hold": 5.0} | ({"warm": solver(**inputs)} if solver.function == "ilqr" else {"tau": np.ones(2)})
    assert not np.array_equal(solved(solver, inputs, **more)["tau"], first["tau"])
    with pytest.raises(ValueError, match="goal is not finite"):
        solver(**{**inputs, "goal": np.full((KNOTS + 1, 2), np.nan)})
    assert_same(solved(solver, inputs), first)


@pytest.mark.parametrize("shared", [False, True])
def test_many_problems_are_the_same_as_few(solver: Solver, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = problem(6)
    inputs = {name: x.reshape(2, 3, *x.shape[1:]) for name, x in inputs.items()}
    if shared:
        inputs["goal"] = inputs["goal"][0, 0]
    expected = solved(solver, inputs, tau=np.ones((KNOTS, 2)))
    monkeypatch.setattr(problems, "FEW", 0)
    monkeypatch.setattr(solver, "_kept", ShapeCache(problems.SHAPES))
    assert_same(solved(solver, inputs, tau=np.ones((KNOTS, 2))), expected)
    assert not solver._kept
    assert expected["tau"].shape == (2, 3, KNOTS, 2)


def test_arrays_of_few_shapes_stay(solver: Solver) -> None:
    for count in range(1, problems.SHAPES + 3):
        solved(solver, problem(count))
    assert list(solver._kept) == [(count,) for count in range(3, problems.SHAPES + 3)]
    assert solved(solver, problem(0))["tau"].shape == (0, KNOTS, 2)


def test_calls_at_the_same_time(solver: Solver) -> None:
    inputs = [problem(3, seed) for seed in range(4)]
    expected = [solved(solver, each) for each in inputs]
    results: list[list[dict[str, np.ndarray]]] = [[] for _ in inputs]

    def calls(k: int) -> None:
        results[k] += [solved(solver, inputs[k]) for _ in range(30)]

    threads = [threading.Thread(target=calls, args=(k,)) for k in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for own, right in zip(results, expected, strict=True):
        assert len(own) == 30
        for each in own:
            assert_same(each, right)


def test_threads_share_the_samples_of_few_and_of_many_problems() -> None:
    options = {"knots": KNOTS, "dt": 0.02, "cost": COST, **OWN["mppi"]}
    with dynagate.mppi(ARM, **options) as one, dynagate.mppi(ARM, threads=3, **options) as several:
        for count in (1, 2, 7):
            assert_same(solved(several, problem(count)), solved(one, problem(count)))


@pytest.mark.parametrize("samples", [1, 5, 64, 129])
@pytest.mark.parametrize("bounds", [None, (np.array([-0.5, -np.inf]), np.array([0.2, 0.4]))])
def test_float32_is_near_the_reference(samples: int, bounds: Any) -> None:
    options = {"knots": KNOTS, "dt": 0.02, "cost": COST, **OWN["mppi"], "samples": samples, "bounds": bounds}
    options["temperature"] = 10.0
    with dynagate.mppi(ARM, device="numpy", **options) as reference:
        expected = solved(reference, problem(3))
    with dynagate.mppi(ARM, dtype="float32", **options) as single:
        result = solved(single, problem(3))
    assert result["tau"].dtype == np.float32
    assert_same({name: x.astype(expected[name].dtype) for name, x in result.items()}, expected, rtol=1e-3, atol=1e-4)
    if bounds is not None:
        assert (result["tau"] <= np.float32([0.2, 0.4])).all()
        assert (result["tau"][..., 0] >= -0.5).all()


@pytest.mark.parametrize("robot", [ARM, replace(ARM, gravity=(0.0, 0.0, 0.0)), robots.load("hyq")])
def test_torques_that_hold_a_robot(robot: Any) -> None:
    """Those of inverse dynamics without speeds and accelerations."""
    q = np.random.default_rng(0).uniform(-1.0, 1.0, (5, robot.nq))
    still = np.zeros((5, robot.nv))
    expected = evaluate(dynagate.trace(robot, "inverse_dynamics"), {"q": q, "qd": still, "qdd": still})["tau"]
    np.testing.assert_allclose(evaluate_loop(holding_loop(robot), {"q0": q})["tau"], expected, atol=1e-9)


def test_torques_that_hold_where_one_is_not_known(solver: Solver) -> None:
    q = np.array([[0.3, 0.4], [np.nan, 0.0], [0.3, 0.4]])
    held = solver.holding(q)
    assert held.shape == (3, KNOTS, 2)
    assert (held[1] == 0.0).all()
    np.testing.assert_array_equal(held[0], held[2])
    assert abs(held[0]).min() > 0.0


@pytest.mark.parametrize("count", [3, 400])
def test_a_failed_problem_restarts_cold_and_the_others_warm(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few problems, whose arrays stay, and of many."""
    monkeypatch.setattr(problems, "FEW", 10_000)
    with dynagate.ilqr(ARM, knots=KNOTS, dt=0.02, cost=COST, iterations=4) as solver:
        inputs = problem(count)
        lost = {**inputs, "q0": np.where(np.arange(count)[:, None] == 1, np.nan, inputs["q0"])}
        before = solver(**lost)
        assert before.failed.tolist() == [k == 1 for k in range(count)]
        assert not before.cold.any()
        warm, cold = before.shifted(), solver(**inputs)
        both = solver(**inputs, warm=warm)
        assert not both.failed.any()
        assert both.cold.tolist() == [k == 1 for k in range(count)]
        np.testing.assert_array_equal(both.tau[1], cold.tau[1])
        own = replace(warm, **{each.name: getattr(warm, each.name)[:1] for each in fields(warm)})
        alone = solver(**{name: x[:1] for name, x in inputs.items()}, warm=own)
        np.testing.assert_allclose(both.tau[0], alone.tau[0], rtol=1e-12, atol=1e-12)
        again = solver(**lost, warm=warm)
        assert again.failed.tolist() == both.cold.tolist()
        with pytest.raises(TypeError, match="warm is a ndarray; expected the solution of an earlier call"):
            solver(**inputs, warm=warm.tau)


def test_a_single_failed_problem_restarts_cold() -> None:
    cost = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=10.0)
    inputs = {"q0": np.array([0.3, -0.2]), "qd0": np.zeros(2), "goal": np.zeros(2)}
    with dynagate.ilqr(ARM, knots=2, dt=0.01, cost=cost, iterations=1) as solver:
        first = solver(**inputs)
        spoiled = replace(first, tau=np.full_like(first.tau, np.nan), q=np.full_like(first.q, np.nan))
        again = solver(**inputs, warm=spoiled)
        assert again.cold
        np.testing.assert_array_equal(again.tau, first.tau)


def test_starts_that_are_all_lost_are_flagged(solver: Solver) -> None:
    inputs = problem(2)
    for name in ("q0", "qd0"):
        result = solved(solver, {**inputs, name: np.full((2, 2), np.nan)})
        assert result["failed"].all()
