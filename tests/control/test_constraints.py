"""Constraints of iLQR: optima next to IPOPT's, warm multipliers, and what cannot be kept."""

from __future__ import annotations

import re
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import robots, trace
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.bench import constrained
from dynagate.control import Constraint, Cost, Input
from dynagate.control.bounded_values import outside
from dynagate.control.cost import knot_graph
from dynagate.graph.ops import OPS

KNOTS, DT = 20, 0.025
LENGTHS = (0.5, 0.36)
ARM = robots.load("two_joint_arm", damping=False).with_frame("tip", on="forearm", translation=(0.0, 0.0, LENGTHS[1]))
HEIGHT = ARM.links[0].joint.translation[2]
COST = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=100.0)
START, GOAL, AT = np.array([0.1, 0.2]), np.array([1.5, 0.4]), np.array([0.62, 0.55])
RADIUS, POWER, PLACE = 0.15, 20.0, np.array([0.55, 0.45])


def square(x: Any) -> Any:
    return x * x


def obstacle(knot: Any) -> Any:
    tip = knot.position("tip")
    return RADIUS**2 - square(tip[0] - knot["at"][0]) - square(tip[2] - knot["at"][1])


OBSTACLE = Constraint(obstacle, at="all", inputs={"at": (2,)}, scale=0.1)
STILL = Constraint(lambda knot: knot.qd, equal=True, at="end")
REACHED = Constraint(lambda knot: knot.position("tip")[::2] - PLACE, equal=True, at="end", scale=0.1)
WEAK = Constraint(
    lambda knot: [knot.tau[0] * knot.qd[0] - POWER, -POWER - knot.tau[0] * knot.qd[0]], at="knots", scale=POWER
)
CASES: dict[str, tuple[list[Constraint], dict[str, Any]]] = {
    "obstacle": ([OBSTACLE], {"at": AT}),
    "still at the end": ([STILL], {}),
    "a place at the end": ([REACHED], {}),
    "power": ([WEAK], {}),
    "obstacle and rest": ([OBSTACLE, STILL], {"at": AT}),
}
OPTIONS: dict[str, Any] = {"knots": KNOTS, "dt": DT, "cost": COST, "iterations": 400}


def ipopt(plan: Any, constraints: list[Constraint]) -> float:
    """Return the least cost near a plan by IPOPT, with the tip's place by hand and the dynamics by symbols."""
    casadi = pytest.importorskip("casadi")
    graph = trace(ARM, "forward_dynamics")
    q, qd, tau = symbols = [casadi.SX.sym(name, 2) for name in ("q", "qd", "tau")]
    values: list[Any] = [None] * len(graph)
    for port, symbol in zip(graph.inputs, symbols, strict=True):
        values[port.nodes[0] : port.nodes[-1] + 1] = casadi.vertsplit(symbol)
    for i, node in enumerate(graph.nodes):
        if node.op != "input":
            constant = [] if node.constant is None else [node.constant]
            values[i] = OPS[node.op].real(*(values[a] for a in node.args), *constant)
    after = qd + DT * casadi.vertcat(*(values[i] for i in graph.outputs[0].nodes))
    step = casadi.Function("step", [q, qd, tau], [q + DT * after, after])
    qs, qds, us = (casadi.MX.sym(name, 2, n) for name, n in (("q", KNOTS + 1), ("qd", KNOTS + 1), ("u", KNOTS)))
    q_next, qd_next = step.map(KNOTS)(qs[:, :-1], qds[:, :-1], us)
    away = qs - np.repeat(GOAL[:, None], KNOTS + 1, axis=1)
    running = 0.5 * casadi.sumsqr(away[:, :-1]) + 0.05 * casadi.sumsqr(qds[:, :-1]) + 0.5e-2 * casadi.sumsqr(us)
    cost = DT * running + 50.0 * casadi.sumsqr(away[:, -1]) + 5.0 * casadi.sumsqr(qds[:, -1])
    rules = [qs[:, 0] - START, qds[:, 0], qs[:, 1:] - q_next, qds[:, 1:] - qd_next]
    below = []
    x = LENGTHS[0] * casadi.sin(qs[0, :]) + LENGTHS[1] * casadi.sin(qs[0, :] + qs[1, :])
    z = HEIGHT + LENGTHS[0] * casadi.cos(qs[0, :]) + LENGTHS[1] * casadi.cos(qs[0, :] + qs[1, :])
    if OBSTACLE in constraints:
        below.append(RADIUS**2 - (x - AT[0]) ** 2 - (z - AT[1]) ** 2)
    if STILL in constraints:
        rules.append(qds[:, -1])
    if REACHED in constraints:
        rules += [x[-1] - PLACE[0], z[-1] - PLACE[1]]
    if WEAK in constraints:
        power = us[0, :] * qds[0, :-1]
        below += [power - POWER, -POWER - power]
    unknown = casadi.vertcat(*(casadi.vec(part) for part in (qs, qds, us)))
    equal = casadi.vertcat(*(casadi.vec(rule) for rule in rules))
    ends = casadi.vertcat(*(casadi.vec(each) for each in below)) if below else casadi.MX(0, 1)
    problem = {"x": unknown, "f": cost, "g": casadi.vertcat(equal, ends)}
    solve = casadi.nlpsol("solve", "ipopt", problem, {"ipopt.print_level": 0, "print_time": False, "ipopt.tol": 1e-9})
    start = np.concatenate([part.ravel() for part in (plan.q, plan.qd, plan.tau)])
    start *= 1.0 + 0.01 * np.random.default_rng(0).normal(size=len(start))
    low = np.concatenate([np.zeros(equal.shape[0]), np.full(ends.shape[0], -np.inf)])
    result = solve(x0=start, lbg=low, ubg=0.0)
    assert solve.stats()["success"]
    return float(result["f"])


@pytest.mark.parametrize("name", CASES)
def test_constrained_optima_are_ipopts(name: str) -> None:
    constraints, inputs = CASES[name]
    with dynagate.ilqr(ARM, constraints=constraints, **OPTIONS) as solver:
        plan = solver(START, np.zeros(2), goal=GOAL, **inputs)
        again = solver(START, np.zeros(2), goal=GOAL, warm=plan, **inputs)
        moved = {"q0": START + 0.002, "qd0": np.zeros(2), "goal": GOAL, **inputs}
        warm, cold = solver(warm=plan, **moved), solver(tau=plan.tau, **moved)
    assert plan.converged
    assert plan.violation.shape == (len(constraints),)
    assert (plan.violation <= [1.1e-5 * each.scale for each in constraints]).all()
    free = dynagate.ilqr(ARM, device="numpy", **OPTIONS)(START, np.zeros(2), goal=GOAL)
    assert plan.cost > free.cost * (1.0 + 1e-6)
    assert plan.cost == pytest.approx(ipopt(plan, constraints), rel=1e-3)
    assert again.converged
    assert again.iterations <= 3
    assert again.cost == pytest.approx(float(plan.cost), rel=1e-5)
    assert warm.converged
    assert name == "power" or warm.iterations < cold.iterations  # torques times speeds settle slowly in any case


SHORT: dict[str, Any] = {"knots": 6, "dt": DT, "cost": COST, "device": "numpy"}


def test_a_plan_of_torque_rates_is_ipopts_and_keeps_them() -> None:
    pytest.importorskip("casadi")
    problem = next(each for each in constrained.problems() if each.name == "torque rate")
    plan = constrained.ours(problem)
    assert plan.converged
    assert np.abs(plan.tau).max() == problem.bounds[1][0]
    assert problem.ramp is not None
    torques = problem.ramp + problem.dt * np.cumsum(plan.tau, axis=0)
    np.testing.assert_allclose(plan.actuators[1:], torques[:-1], atol=1e-9)
    least, converged = constrained.ipopt(problem, plan)
    assert converged
    assert plan.cost == pytest.approx(least, rel=1e-4)


def test_forces_of_a_contact_are_those_of_the_function() -> None:
    leg, random = constrained.leg_robot(), np.random.default_rng(6)
    states = {name: random.uniform(-1.0, 1.0, (5, 6)) for name in ("q", "qd", "tau")}
    expected = dynagate.evaluate(trace(leg, "constrained_forward_dynamics"), {**states, "active": np.ones((5, 1))})[
        "force"
    ]
    graph = knot_graph("f", leg, {}, lambda knot: knot.constraint_force(), False)
    np.testing.assert_allclose(dynagate.evaluate(graph, states)["result"], expected, rtol=1e-9, atol=1e-12)
    lifted = knot_graph("f", leg, {}, lambda knot: knot.constraint_force(np.zeros(1)), False)
    assert not any(lifted.nodes[i].op != "const" for i in lifted.outputs[0].nodes)
    for robot, last, text in ((ARM, False, "a robot without constraints"), (leg, True, "the last state")):
        with pytest.raises(ArgumentError, match=f"constraint_force of {text}"):
            knot_graph("f", robot, {}, lambda knot: knot.constraint_force(), last)


def test_each_constraint_has_its_violation_and_its_multipliers() -> None:
    """With bounds of joints, inputs of each knot, and a batch of which one start is NaN."""
    ceiling = Constraint(lambda knot: knot.tau[0] - knot["most"], inputs={"most": Input((), each=True)}, scale=10.0)
    with dynagate.ilqr(ARM, constraints=[ceiling, STILL], joint_bounds=2.0, iterations=100, **SHORT) as solver:
        most = np.linspace(8.0, 12.0, 7)
        start = np.array([START, START + 0.1, [np.nan, 0.0]])
        plan = solver(start, np.zeros((3, 2)), goal=START + 0.1, most=most)
        one = solver(START, np.zeros(2), goal=START + 0.1, most=most)
    assert plan.failed.tolist() == [False, False, True]
    assert plan.converged[:2].all()
    assert (plan.tau[:2, :, 0] <= most[:-1] + 1e-3).all()
    assert np.abs(plan.qd[:2, -1]).max() < 1e-4
    expected = np.maximum(plan.tau[0, :, 0] - most[:-1], 0.0).max(), np.abs(plan.qd[0, -1]).max()
    np.testing.assert_allclose(plan.violation[0], expected, atol=1e-12)
    np.testing.assert_allclose(one.cost, plan.cost[0], rtol=1e-6)
    assert plan.multipliers.shape == (3, 6, 3)  # two positions, and the ceiling
    assert plan.end_multipliers.shape == (3, 4)
    np.testing.assert_array_equal(plan.shifted().multipliers[:, :-1], plan.multipliers[:, 1:])


def test_multipliers_are_the_price_of_a_constraint() -> None:
    """A bound that is looser by little lowers the cost by as much as the multipliers of the knots say."""
    costs, price = [], 0.0
    for most in (9.0, 9.01, 9.02):
        bound = Constraint(lambda knot, most=most: knot.tau[0] - most, scale=10.0)
        with dynagate.ilqr(ARM, constraints=bound, iterations=200, within=1e-8, **SHORT) as solver:
            plan = solver([0.3, 0.0], np.zeros(2), goal=START + 0.3)
        assert plan.converged
        costs.append(float(plan.cost))
        price = price or float(plan.multipliers.sum())
    assert price > 0.0
    assert costs[0] - costs[1] == pytest.approx(0.01 * price, rel=0.02)
    assert costs[1] - costs[2] < costs[0] - costs[1]


def test_what_cannot_be_kept_is_violated_least() -> None:
    """Two demands that exclude each other: the plan lies between them, and says so."""
    low, high = (Constraint(lambda knot, x=x: knot.qd[:1] - x, equal=True, at="end") for x in (-0.1, 0.1))
    with dynagate.ilqr(ARM, constraints=[low, high], iterations=200, **SHORT) as solver:
        plan = solver(START, np.zeros(2), goal=START)
    assert not plan.converged
    np.testing.assert_allclose(plan.violation, 0.1, atol=1e-3)
    assert np.isfinite(plan.tau).all()


def test_distances_beyond_bounds() -> None:
    cases = [(0.5, -1.0, 1.0, 0.0), (1.5, -1.0, 1.0, 0.5), (-1.5, -1.0, 1.0, -0.5), (0.3, 0.0, 0.0, 0.3)]
    cases += [(-0.3, 0.0, 0.0, -0.3), (-9.0, -np.inf, 0.0, 0.0), (0.2, -np.inf, 0.0, 0.2), (0.7, 0.5, 0.5, 0.2)]
    for x, least, most, expected in cases:
        assert outside(x, least, most) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"constraints": 3}, ArgumentTypeError, "constraints=3; expected a list of dynagate.control.Constraint"),
        ({"constraints": [lambda knot: 0.0]}, ArgumentTypeError, "expected a list of dynagate.control.Constraint"),
        ({"constraints": Constraint(lambda knot: "far")}, ArgumentTypeError, "returned"),
        ({"constraints": Constraint(lambda knot: [])}, ArgumentError, "a constraint returned no values"),
        ({"constraints": Constraint(lambda knot: np.zeros((2, 2)))}, ArgumentTypeError, "an array of several axes"),
        ({"constraints": Constraint(lambda knot: knot["wall"])}, ArgumentError, "reads the input 'wall'"),
        ({"constraints": Constraint(lambda knot: knot.position("hand"))}, ValueError, "hand"),
        (
            {"constraints": Constraint(lambda knot: knot["goal"][0], inputs={"goal": (3,)})},
            ArgumentError,
            "input 'goal' of a constraint is (3,), and of another one or of the cost",
        ),
        ({"within": 0.0}, ArgumentError, "within"),
    ],
)
def test_constraints_that_are_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        dynagate.ilqr(ARM, **SHORT, **change)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"function": "tip"}, ArgumentTypeError, "function"),
        ({"equal": 1}, ArgumentTypeError, "equal"),
        ({"at": "start"}, ArgumentError, "at='start'; expected 'knots', 'end' or 'all'"),
        ({"at": 3}, ArgumentError, "at"),
        ({"scale": 0.0}, ArgumentError, "scale 0"),
        ({"scale": np.nan}, ArgumentError, "scale nan"),
        ({"inputs": {"q": (2,)}}, ArgumentError, "the constraint has an input 'q'"),
        ({"inputs": {"wall": (0,)}}, ArgumentError, "input 'wall' of the constraint has shape (0,)"),
    ],
)
def test_options_of_a_constraint_that_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        Constraint(**{"function": lambda knot: 0.0, **options})


def test_fixed_point_refuses_constraints() -> None:
    solver = dynagate.ilqr(ARM, constraints=[STILL], iterations=3, **SHORT)
    with pytest.raises(ArgumentError, match="constraints in fixed point; expected none, or a cost"):
        solver.on_integers(START, np.zeros(2), goal=GOAL)
