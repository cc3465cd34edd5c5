"""iLQR: iterates against Crocoddyl's, costs against finite differences, bounds, failed problems, refusals."""

from __future__ import annotations

import json
import re
import runpy
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import casadi
import crocoddyl
import dynagate
import numpy as np
import pinocchio
import pytest
from dynagate import Policy, Robot, robots, trace
from dynagate.control import Cost, Input, Knot, backward
from dynagate.control.chip import ChipSolver
from dynagate.control.chip_ilqr import ChipIlqr
from dynagate.control.chip_mppi import ChipMppi, MppiOptions
from dynagate.control.cost import CostGraphs
from dynagate.control.ilqr import IlqrOptions, ilqr_loop
from dynagate.dynamics.spatial import cos
from dynagate.fixedpoint.fuse import fused
from dynagate.forces import Limits, Servo
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate
from dynagate.graph.loop import ITERATIONS, Loop, evaluate_loop
from dynagate.graph.ops import OPS
from dynagate.graph.recorder import Recording
from dynagate.host.devices.integer_loop import IntegerLoop
from dynagate.host.ilqr import Ilqr
from dynagate.host.solution import Solution
from dynagate.host.solver import Solver
from dynagate.hw.processor.compiler.loops import loop_instructions
from dynagate.hw.processor.compiler.motion import angles_of
from dynagate.hw.processor.compiler.solver import formatted_solver

from tests.robots import DATA, hopper

EXAMPLES = Path(__file__).parents[2] / "examples"
ARM = robots.load("two_joint_arm", damping=False)
KNOTS, DT = 20, 0.02
COST = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=100.0)


@pytest.fixture(scope="module")
def solver() -> Iterator[Ilqr]:
    opened = dynagate.ilqr(ARM, knots=KNOTS, dt=DT, cost=COST, iterations=30)
    assert isinstance(opened, Ilqr)
    with opened:
        yield opened


BEYOND = pytest.mark.filterwarnings("ignore:.* starts beyond its limits")
"""HyQ's knees cannot be where problems begin."""


def problems(robot: Robot, count: int, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    q0, goal = random.uniform(-1.0, 1.0, (2, count, robot.nq))
    return {"q0": q0, "qd0": np.zeros((count, robot.nv)), "goal": goal}


class Damped(crocoddyl.DifferentialActionModelAbstract):
    """Another model with -d q̇ of its joints, d (nv,), taken at the end of steps of DT: as rotors of DT d."""

    def __init__(self, inner: Any, d: np.ndarray) -> None:
        super().__init__(inner.state, inner.nu, 1)
        self.inner, self.d = inner, d
        inner.armature = DT * d

    def createData(self) -> Any:
        data = super().createData()
        data.inner = self.inner.createData()
        return data

    def calc(self, data: Any, x: np.ndarray, u: np.ndarray) -> None:
        self.inner.calc(data.inner, x, u - self.d * x[-len(u) :])
        data.xout[:] = data.inner.xout
        self.inner.calc(data.inner, x, u)  # the cost is of u
        data.inner.xout[:], data.cost = data.xout, data.inner.cost

    def calcDiff(self, data: Any, x: np.ndarray, u: np.ndarray) -> None:
        self.inner.calcDiff(data.inner, x, u)
        for name in ("Fx", "Fu", "Lx", "Lu", "Lxx", "Lxu", "Luu"):
            getattr(data, name)[...] = getattr(data.inner, name)
        data.Fx[:, -len(u) :] -= data.Fu * self.d


def crocoddyls(
    robot: Robot, path: str, q0: np.ndarray, goal: np.ndarray, tau: np.ndarray, most: int, least: float
) -> Any:
    """Its SolverDDP after at most so many iterations on the same problem, and the order of its joints."""
    model, n = pinocchio.buildModelFromUrdf(path), robot.nv
    _, order = robot.permutation(list(model.names)[1:])
    d = np.array([link.joint.damping for link in robot.links])[order]

    def own(q: np.ndarray) -> np.ndarray:
        return np.concatenate([pinocchio.integrate(model, pinocchio.neutral(model), q[order]), np.zeros(n)])

    state = crocoddyl.StateMultibody(model)
    actuation = crocoddyl.ActuationModelFull(state)
    activation = crocoddyl.ActivationModelWeightedQuad(np.repeat([1.0, 0.1], n))
    away = crocoddyl.CostModelResidual(state, activation, crocoddyl.ResidualModelState(state, own(goal), n))
    torque = crocoddyl.CostModelResidual(state, crocoddyl.ResidualModelControl(state, n))
    running, final = crocoddyl.CostModelSum(state, n), crocoddyl.CostModelSum(state, n)
    running.addCost("away", away, 1.0)
    running.addCost("torque", torque, 1e-2)
    final.addCost("away", away, 100.0)
    models = []
    for costs, dt in ((running, DT), (final, 0.0)):
        motion = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)
        motion.armature = np.zeros(n)
        if dt and d.any():
            motion = Damped(motion, d)
        models.append(crocoddyl.IntegratedActionModelEuler(motion, dt))
    problem = crocoddyl.ShootingProblem(own(q0), [models[0]] * len(tau), models[1])
    problem.nthreads = 1
    peer = crocoddyl.SolverDDP(problem)
    peer.th_stop, peer.reg_min = 1e-9, least
    us = list(tau[:, order])
    peer.solve(list(problem.rollout(us)), us, most, True)
    return peer, order


def assert_equal_iterates(robot: Robot, path: str, solver: Ilqr, count: int) -> None:
    inputs, options = problems(robot, count), solver.options
    tau = solver.holding(inputs["q0"])
    ours = solver(**inputs, tau=tau)
    for k in range(count):
        peer, order = crocoddyls(
            robot, path, inputs["q0"][k], inputs["goal"][k], tau[k], options.iterations, options.smallest
        )
        us, xs = np.array(peer.us), np.array(peer.xs)
        assert ours.cost[k] == pytest.approx(peer.cost, rel=1e-9)
        np.testing.assert_allclose(ours.tau[k][:, order], us, atol=1e-8 * abs(us).max())
        np.testing.assert_allclose(ours.qd[k][:, order], xs[:, -robot.nv :], atol=1e-8 * abs(xs).max())


def test_iterates_equal_crocoddyls(solver: Ilqr) -> None:
    assert_equal_iterates(ARM, str(robots.path("two_joint_arm")), solver, 4)


def test_iterates_with_much_regularization_equal_crocoddyls() -> None:
    options: dict[str, Any] = {"knots": KNOTS, "dt": DT, "cost": COST, "iterations": 8, "device": "numpy"}
    with dynagate.ilqr(ARM, regularization=(0.3, 1e9), **options) as opened:
        assert isinstance(opened, Ilqr)
        assert_equal_iterates(ARM, str(robots.path("two_joint_arm")), opened, 3)


@pytest.mark.long
@pytest.mark.parametrize("name", ["iiwa14", "hyq"])
@BEYOND
def test_iterates_of_larger_robots_equal_crocoddyls(name: str) -> None:
    robot = robots.load(name, damping=False)
    with dynagate.ilqr(robot, knots=KNOTS, dt=DT, cost=COST, iterations=10) as opened:
        assert isinstance(opened, Ilqr)
        assert_equal_iterates(robot, str(robots.path(name)), opened, 3)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:joint:dynagate.RobotWarning")
def test_iterates_with_implicit_damping_equal_crocoddyls() -> None:
    """Of a robot whose explicit steps of 20 ms diverge."""
    path = DATA / "z1_description/urdf/z1.urdf"
    robot = Robot.from_urdf(path, ignore_friction=True)
    with dynagate.ilqr(
        robot, knots=KNOTS, dt=DT, cost=COST, iterations=10, implicit_damping=True, device="numpy"
    ) as opened:
        assert isinstance(opened, Ilqr)
        assert_equal_iterates(robot, str(path), opened, 2)


def ipopts(
    robot: Robot, q0: np.ndarray, goal: np.ndarray, near: Solution, bounds: tuple[np.ndarray, np.ndarray] | None = None
) -> float:
    """The least cost of the same problem by CasADi's IPOPT, over all states and torques, from symbols of the graph.
    bounds: lowest and highest (q, q̇) of every state but the first."""
    graph, n = trace(robot, "forward_dynamics"), robot.nv
    q, qd, tau = symbols = [casadi.SX.sym(name, n) for name in ("q", "qd", "tau")]
    values: list[Any] = [None] * len(graph)
    for port, symbol in zip(graph.inputs, symbols, strict=True):
        values[port.nodes[0] : port.nodes[-1] + 1] = casadi.vertsplit(symbol)
    for i, node in enumerate(graph.nodes):
        if node.op != "input":
            constant = [] if node.constant is None else [node.constant]
            values[i] = OPS[node.op].real(*(values[a] for a in node.args), *constant)
    after = qd + DT * casadi.vertcat(*(values[i] for i in graph.outputs[0].nodes))
    step = casadi.Function("step", [q, qd, tau], [q + DT * after, after])
    qs, qds, taus = (
        casadi.MX.sym(name, n, count) for name, count in (("q", KNOTS + 1), ("qd", KNOTS + 1), ("u", KNOTS))
    )
    q_next, qd_next = step.map(KNOTS)(qs[:, :-1], qds[:, :-1], taus)
    away = qs - np.repeat(goal[:, None], KNOTS + 1, axis=1)
    running = 0.5 * casadi.sumsqr(away[:, :-1]) + 0.05 * casadi.sumsqr(qds[:, :-1]) + 0.5e-2 * casadi.sumsqr(taus)
    cost = DT * running + 50.0 * casadi.sumsqr(away[:, -1]) + 5.0 * casadi.sumsqr(qds[:, -1])
    rules = [qs[:, 0] - q0, qds[:, 0], qs[:, 1:] - q_next, qds[:, 1:] - qd_next]
    unknown = casadi.vertcat(casadi.vec(qs), casadi.vec(qds), casadi.vec(taus))
    problem = {"x": unknown, "f": cost, "g": casadi.vertcat(*(casadi.vec(rule) for rule in rules))}
    options: dict[str, Any] = {"ipopt.print_level": 0, "print_time": False, "ipopt.tol": 1e-9}
    if bounds is not None:  # or its barrier begins far away
        near_bounds = {f"ipopt.warm_start_{name}": 1e-6 for name in ("bound_push", "bound_frac", "mult_bound_push")}
        options |= {"ipopt.warm_start_init_point": "yes", "ipopt.mu_init": 1e-5, **near_bounds}
    solve = casadi.nlpsol("solve", "ipopt", problem, options)
    # from near it: farther away there are other optima, and IPOPT ends in worse ones
    start = np.concatenate([part.ravel() for part in (near.q[0], near.qd[0], near.tau[0])])
    start += (
        (0.1 if bounds is None else 0.01)
        * np.random.default_rng(0).normal(size=len(start))
        * np.maximum(abs(start), 0.1)
    )
    low, high = (np.full(len(start), x) for x in (-np.inf, np.inf))
    if bounds is not None:
        for end, bound in zip((low, high), bounds, strict=True):
            states = end[: 2 * n * (KNOTS + 1)].reshape(2, KNOTS + 1, n)
            states[:, 1:] = bound.reshape(2, 1, n)
    result = solve(x0=start, lbg=0.0, ubg=0.0, lbx=low, ubx=high)
    assert solve.stats()["success"]
    return float(result["f"])


@pytest.mark.long
@pytest.mark.parametrize("name", ["two_joint_arm", "iiwa14", "hyq"])
@BEYOND
def test_optima_equal_crocoddyls_and_ipopts(name: str) -> None:
    robot = robots.load(name, damping=False)
    inputs, path = problems(robot, 1, seed=3), str(robots.path(name))
    with dynagate.ilqr(robot, knots=KNOTS, dt=DT, cost=COST, iterations=200) as opened:
        assert isinstance(opened, Ilqr)
        tau = opened.holding(inputs["q0"])
        ours = opened(**inputs, tau=tau)
    peer, _ = crocoddyls(robot, path, inputs["q0"][0], inputs["goal"][0], tau[0], 200, 1e-9)
    least = ipopts(robot, inputs["q0"][0], inputs["goal"][0], ours)
    print(f"{name}: ours {ours.cost[0]:.6f}, Crocoddyl's {peer.cost:.6f}, IPOPT's {least:.6f}")
    assert ours.converged.all()
    assert ours.cost[0] == pytest.approx(peer.cost, rel=1e-3)
    assert ours.cost[0] == pytest.approx(least, rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("name", ["two_joint_arm", "iiwa14", "hyq"])
@BEYOND
def test_bounds_of_joints_cost_what_ipopts_do(name: str) -> None:
    """The goals of two joints are beyond them, and two joints may not be as fast as they would."""
    robot = robots.load(name, damping=False)
    inputs, n = problems(robot, 1, seed=3), robot.nv
    options: dict[str, Any] = {"knots": KNOTS, "dt": DT, "cost": COST, "iterations": 300}
    with dynagate.ilqr(robot, device="numpy", **options | {"iterations": 15}) as opened:
        free = opened(**inputs)
    start, goal = inputs["q0"][0], inputs["goal"][0]
    high, low = np.full(2 * n, np.inf), np.full(2 * n, -np.inf)
    for k in (0, 1):
        end = (high, low)[int(goal[k] < start[k])]
        end[k] = start[k] + 0.8 * (goal[k] - start[k])
    high[n : n + 2] = 0.8 * abs(free.qd[0, :, :2]).max(axis=0)
    low[n : n + 2] = -high[n : n + 2]
    with dynagate.ilqr(robot, joint_bounds=(low, high), **options) as opened:
        ours = opened(**inputs)
    least = ipopts(robot, start, goal, ours, (low, high))
    print(
        f"{name}: ours {ours.cost[0]:.6f} after {ours.iterations[0]}, IPOPT's {least:.6f}, free {free.cost[0]:.6f} "
        f"after {free.iterations[0]}, beyond by {ours.beyond.max():.1e}"
    )
    assert ours.converged.all()
    assert ours.beyond.max() < 1e-4
    assert ours.cost[0] > 1.02 * free.cost[0]
    assert ours.cost[0] == pytest.approx(least, rel=1e-3)


def test_integers_of_32_bits_are_near_float64(solver: Ilqr) -> None:
    """Ranges from problems that were solved, and others to solve."""
    known, inputs = problems(ARM, 12, seed=11), problems(ARM, 5, seed=12)
    with dynagate.ilqr(ARM, device="numpy", knots=KNOTS, dt=DT, cost=COST, tolerance=1e-4) as opened:
        assert isinstance(opened, Ilqr)
        integers = opened.on_integers(**known, word=32)
        for word, text in [(33, "word=33; expected 12 to 32 bits"), (12.5, "word=12.5; expected 12 to 32 bits")]:
            with pytest.raises(ValueError, match=re.escape(text)):
                opened.on_integers(**known, word=word)  # type: ignore[arg-type]
        expected = opened(**inputs)
        short = opened.on_integers(**known, word=12)
        with pytest.warns(
            dynagate.RobotWarning, match="of two_joint_arm fail in fixed point: results of 'riccati' left"
        ):
            assert short(**inputs).failed.all()
    assert integers.device == "fixed"
    inputs["q0"][4, 0] = np.nan
    result = integers(**inputs)
    assert result.failed.tolist() == [False] * 4 + [True]
    assert result.converged[:4].all()
    assert (result.iterations[:4] > 1).all()
    np.testing.assert_allclose(result.cost[:4], expected.cost[:4], rtol=1e-5)
    gains, exact = result.gains[:4], expected.gains[:4]
    error = abs(gains - exact).max(axis=(1, 2, 3)) / abs(exact).max(axis=(1, 2, 3))
    assert 0.0 < error.max() < 1e-3
    steps = result.tau[:4] * 2.0**40
    np.testing.assert_array_equal(steps, np.round(steps))  # they are integers


def test_integers_that_repeat_are_computed_once() -> None:
    """Ranges from one problem: the other one cannot converge, and its iterations are soon all alike."""
    q, goal = (np.random.default_rng(seed).uniform(-1.0, 1.0, (8, 2))[:2] for seed in (0, 1))
    cost = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=10.0)
    options = {"knots": 6, "dt": DT, "cost": cost, "tolerance": 1e-4, "iterations": 12}
    with dynagate.ilqr("two_joint_arm", device="numpy", **options) as opened:
        assert isinstance(opened, Ilqr)
        with pytest.warns(dynagate.RobotWarning, match="ranges of fixed point come from one problem"):
            integers = opened.on_integers(q[0], np.zeros(2), goal=goal[0], word=30)
    compute = integers._compute
    assert isinstance(compute, IntegerLoop)
    assert integers._holding is not opened._holding  # closing one of them leaves the other as it is
    own = compute.integers
    inputs = integers._problems(q, np.zeros((2, 2)), None, None, {"goal": goal})[0].inputs
    values = {port.name: np.repeat(inputs[port.name], 2 // len(inputs[port.name]), axis=0) for port in own.loop.inputs}
    computed: list[str] = []

    def counted(graph: Graph, values: Mapping[str, Any]) -> dict[str, Any]:
        computed.append(graph.name)
        return own._graph(graph, values)

    each = evaluate_loop(own.loop, values, counted)
    assert each[ITERATIONS].max() == 13
    every = len(computed)
    computed.clear()
    once = evaluate_loop(own.loop, values, counted, reuse=True)
    assert len(computed) < every / 2
    assert computed.count("rule") == 13  # which keeps the costs of all iterations
    for results in (once, own.evaluate(values)):
        for name, value in each.items():
            np.testing.assert_array_equal(results[name], value)


def test_a_goal_may_move(solver: Ilqr) -> None:
    """One goal for all knots is the same as it in each; a goal that moves draws the motion along."""
    inputs = problems(ARM, 2)
    moving = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=100.0, each=True)
    along = np.linspace(inputs["q0"], inputs["goal"], KNOTS + 1, axis=1)
    with dynagate.ilqr(ARM, knots=KNOTS, dt=DT, cost=moving, iterations=30) as opened:
        still = opened(**{**inputs, "goal": np.repeat(inputs["goal"][:, None], KNOTS + 1, axis=1)})
        drawn = opened(**{**inputs, "goal": along})
        with pytest.raises(ValueError, match=re.escape("goal has shape (2, 2); expected (2, 21, 2), or its last axes")):
            opened(**inputs)
    np.testing.assert_allclose(still.cost, solver(**inputs).cost, rtol=1e-12)
    error = drawn.q - along, drawn.qd, np.append(drawn.tau, np.zeros((2, 1, 2)), axis=1)
    rate = sum(w * (x**2).sum(axis=2) for w, x in zip((1.0, 0.1, 1e-2), error, strict=True)) * 0.5
    np.testing.assert_allclose(drawn.cost, DT * rate[:, :-1].sum(axis=1) + 100.0 * rate[:, -1], rtol=1e-9)


def test_numpy_equals_c(solver: Ilqr) -> None:
    inputs = problems(ARM, 3)
    with dynagate.ilqr(ARM, device="numpy", knots=KNOTS, dt=DT, cost=COST, iterations=30) as reference:
        expected, ours = reference(**inputs), solver(**inputs)
    for name in ("q", "qd", "tau", "cost", "costs", "gains"):
        value = getattr(expected, name)
        scale = np.nanmax(abs(value))
        np.testing.assert_allclose(getattr(ours, name), value, atol=1e-9 * scale, err_msg=name)
    assert (ours.iterations == expected.iterations).all()
    assert ours.converged.all()


def test_costs_fall_and_the_motion_is_that_of_a_rollout(solver: Ilqr) -> None:
    inputs = problems(ARM, 20, seed=3)
    solution = solver(**inputs)
    assert solution.converged.all()
    assert not solution.failed.any()
    for costs, taken, cost in zip(solution.costs, solution.iterations, solution.cost, strict=True):
        assert (np.diff(costs[: taken + 1]) <= 0.0).all()
        assert np.isnan(costs[taken + 1 :]).all()
        assert costs[taken] == cost < costs[0]
    motion = dynagate.Rollout(ARM, steps=KNOTS, dt=DT)(inputs["q0"], inputs["qd0"], solution.tau)
    np.testing.assert_allclose(solution.q, motion.q, atol=1e-9)
    np.testing.assert_allclose(solution.qd, motion.qd, atol=1e-8)
    near = motion.q[:, :-1] - inputs["goal"][:, None], motion.qd[:, :-1], 0.1 * solution.tau
    running = sum((w * x**2).sum(axis=(1, 2)) for w, x in zip((1.0, 0.1, 1.0), near, strict=True)) * 0.5 * DT
    end = (motion.q[:, -1] - inputs["goal"]) ** 2 + 0.1 * motion.qd[:, -1] ** 2
    np.testing.assert_allclose(solution.cost, running + 50.0 * end.sum(axis=1), rtol=1e-8)


def test_no_torque_nearby_is_better(solver: Ilqr) -> None:
    """The gradient of the cost by all torques, by a reverse sweep that shares nothing with the solver."""
    inputs = problems(ARM, 4, seed=5)
    solution = solver(**inputs)
    rollout = dynagate.Rollout(ARM, steps=KNOTS, dt=DT)
    motion = rollout(inputs["q0"], inputs["qd0"], solution.tau)
    weights = np.append(np.full(KNOTS, DT), 100.0)[:, None]
    by_q, by_qd = weights * (motion.q - inputs["goal"][:, None]), weights * 0.1 * motion.qd
    slope = rollout.vjp(motion, solution.tau, by_q, by_qd)["tau"] + DT * 1e-2 * solution.tau
    start = rollout(inputs["q0"], inputs["qd0"], 0.0 * solution.tau)
    by_q, by_qd = weights * (start.q - inputs["goal"][:, None]), weights * 0.1 * start.qd
    before = rollout.vjp(start, 0.0 * solution.tau, by_q, by_qd)["tau"]
    assert abs(slope).max() < 1e-4 * abs(before).max()


def test_warm_start_and_feedback(solver: Ilqr) -> None:
    inputs = problems(ARM, 4, seed=7)
    solution = solver(**inputs)
    again = solver(**inputs, warm=solution)
    assert (again.iterations <= 1).all()
    np.testing.assert_allclose(again.cost, solution.cost, rtol=1e-9)
    moved = solution.shifted(3)
    np.testing.assert_array_equal(moved.tau[:, :-3], solution.tau[:, 3:])
    np.testing.assert_array_equal(moved.gains[:, -3:], solution.gains[:, -1:].repeat(3, axis=1))
    near = {**inputs, "q0": inputs["q0"] + 0.02}
    assert (solver(**near, warm=solution).costs[:, 0] < solver(**near, tau=solution.tau).costs[:, 0]).all()
    bound = solver.bind(**inputs)
    first = bound()
    inputs["q0"] += 0.1
    assert bound() is first
    assert not np.array_equal(first.cost, solution.cost)


def test_blocks_of_rows_take_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backward pass of large robots, on a small one with a joint that nothing drives."""
    bounds = (np.array([-3.0, -1.0]), np.array([2.0, 1.0]))
    options: dict[str, Any] = {"knots": 6, "dt": DT, "cost": COST, "bounds": bounds, "iterations": 6}
    solutions = []
    for largest in (backward.LARGEST_UNROLLED, 0):
        monkeypatch.setattr(backward, "LARGEST_UNROLLED", largest)
        with dynagate.ilqr(ARM.with_passive("elbow"), device="numpy", **options) as opened:
            solutions.append(opened(**problems(ARM, 3)))
    assert (solutions[0].iterations > 1).all()
    for name in ("q", "tau", "gains", "costs"):
        first, second = (getattr(solution, name) for solution in solutions)
        np.testing.assert_allclose(second, first, atol=1e-10 * np.nanmax(abs(first)), err_msg=name)


def test_one_failed_problem_harms_no_other(solver: Ilqr) -> None:
    inputs = problems(ARM, 9)
    alone = solver(**inputs)
    wrong = {**inputs, "q0": inputs["q0"].copy(), "qd0": inputs["qd0"].copy()}
    wrong["q0"][2], wrong["qd0"][5] = np.nan, 1e200
    solution = solver(**wrong)
    assert solution.failed.tolist() == [k in (2, 5) for k in range(9)]
    assert not solution.converged[[2, 5]].any()
    assert np.isnan(solution.cost[[2, 5]]).all()
    assert np.isnan(solution.q[[2, 5]]).all()
    rest = [k for k in range(9) if k not in (2, 5)]
    np.testing.assert_array_equal(solution.tau[rest], alone.tau[rest])


@pytest.mark.parametrize("free", [0, 1])
def test_a_torque_without_a_cost(free: int) -> None:
    cost = Cost(lambda knot: [0.1 * knot.tau[1 - free]], lambda knot: [10.0 * x for x in knot.q - 0.1])
    with dynagate.ilqr(ARM, knots=5, dt=DT, cost=cost, device="numpy") as opened:
        solution = opened([0.3, 0.2], [0.0, 0.0])
    assert solution.converged
    assert solution.cost < 1e-6 * solution.costs[0]


def test_a_motion_beyond_the_limits_is_told_once() -> None:
    upper, forearm = ARM.links
    tight = replace(ARM, links=(upper, replace(forearm, joint=replace(forearm.joint, lower=-0.5, upper=0.5))))
    inputs = problems(ARM, 1)
    inputs["q0"][0, 1], inputs["goal"][0, 1] = 0.4, 1.5
    with dynagate.ilqr(tight, knots=KNOTS, dt=DT, cost=COST, device="numpy") as opened:
        with pytest.warns(dynagate.RobotWarning, match="joint 'elbow' of robot 'two_joint_arm' passes its limits"):
            opened(**inputs)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            opened(**inputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"knots": 65537},
            "knots=65,537 of two_joint_arm: a plan has 16 numbers a knot, at most 1,048,576; expected at most 65,536",
        ),
        ({"knots": 10**12}, "knots=1000000000000; expected a whole number, at most 100000"),
        ({"knots": 3, "iterations": 1001}, "iterations=1,001; expected at most 1,000, and warm= to go on"),
    ],
)
def test_a_plan_that_has_too_many_numbers_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        dynagate.ilqr(ARM, dt=DT, cost=COST, **options)


def test_a_long_plan_takes_no_stack() -> None:
    """A thread whose stack is smaller than the values of a turn."""
    with dynagate.ilqr(ARM, knots=2500, dt=1e-3, cost=COST, iterations=1, device="cpu") as opened:
        solutions: list[Any] = []
        before = threading.stack_size(256 * 1024)
        try:
            thread = threading.Thread(
                target=lambda: solutions.append(opened(np.zeros(2), np.zeros(2), goal=np.zeros(2)))
            )
            thread.start()
        finally:
            threading.stack_size(before)
        thread.join()
    assert np.isfinite(solutions[0].cost)


@pytest.mark.parametrize(
    ("name", "options"),
    [("ilqr", {"iterations": 1}), ("mppi", {"samples": 4, "temperature": 1.0, "spread": 0.1})],
)
def test_starts_beyond_the_limits_are_told_once(name: str, options: dict[str, Any]) -> None:
    """Also where the force `Limits` keeps the motion; a start that is not finite is another matter."""
    upper, forearm = ARM.links
    tight = replace(ARM, links=(upper, replace(forearm, joint=replace(forearm.joint, lower=-2.0, upper=0.5))))
    inputs = problems(ARM, 6)
    inputs["q0"][:, 1] = [0.5, np.nan, 0.4, 0.51, -2.0, 0.6]
    inputs["goal"][:, 1] = 0.0
    told = "joint 'elbow' of robot 'two_joint_arm' starts beyond its limits{}; expected starts within"
    options |= {"knots": 3, "dt": 1e-3, "cost": COST, "forces": [Limits(100.0)], "device": "numpy"}
    with getattr(dynagate, name)(tight, **options) as opened:
        assert isinstance(opened, Solver)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            opened(**{key: x[[0, 1, 2, 4]] for key, x in inputs.items()})
        with pytest.warns(
            dynagate.RobotWarning, match=re.escape(told.format(" in 2 of 6 problems, first in problem 3"))
        ):
            opened(**inputs)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            opened(**inputs)
        opened.limits.of_starts = True
        with pytest.warns(dynagate.RobotWarning, match=re.escape(told.format(""))):
            opened(**{key: x[3] for key, x in inputs.items()})


def test_bounds_hold_and_passive_joints_have_no_torque() -> None:
    bounds = (np.array([-3.0, -1.0]), np.array([2.0, 1.0]))
    inputs = problems(ARM, 6, seed=2)
    with dynagate.ilqr(
        ARM.with_passive("elbow"), knots=KNOTS, dt=DT, cost=COST, bounds=bounds, iterations=40
    ) as bounded:
        solution = bounded(**inputs)
    assert (solution.tau[..., 1] == 0.0).all()
    assert (solution.tau[..., 0] >= -3.0).all()
    assert (solution.tau[..., 0] <= 2.0).all()
    at = (solution.tau[..., 0] == -3.0) | (solution.tau[..., 0] == 2.0)
    assert at.any()
    assert not at.all()
    assert not solution.failed.any()
    assert (solution.gains[:, :, 1] == 0.0).all()
    # the slope of the cost points out of the box where a torque is at a bound, and is zero elsewhere
    rollout = dynagate.Rollout(ARM, steps=KNOTS, dt=DT)
    motion = rollout(inputs["q0"], inputs["qd0"], solution.tau)
    weights = np.append(np.full(KNOTS, DT), 100.0)[:, None]
    by_q, by_qd = weights * (motion.q - inputs["goal"][:, None]), weights * 0.1 * motion.qd
    slope = (rollout.vjp(motion, solution.tau, by_q, by_qd)["tau"] + DT * 1e-2 * solution.tau)[..., 0]
    done = solution.converged
    assert done.sum() >= 4
    scale = abs(slope[done]).max()
    assert abs(slope[done][~at[done]]).max() < 1e-3 * scale
    outward = np.where(solution.tau[..., 0] == 2.0, -1.0, 1.0)
    assert (slope[done][at[done]] * outward[done][at[done]] > -1e-6 * scale).all()


def expansion_graph(cost: Cost, robot: Robot) -> Any:
    graphs = CostGraphs(robot, cost, 0.1)
    recording = Recording("expansion", robot.name)
    each = graphs.running.expansion(recording, graphs.record(recording, last=False))
    return recording.graph({name: np.asarray(value, dtype=object) for name, value in each._asdict().items()})


@pytest.mark.parametrize("exact", [False, True])
def test_derivatives_of_costs(exact: bool) -> None:
    """By differences, and Gauss-Newton of residuals against J by differences."""
    robot = ARM.with_frame("tool", on=ARM.links[-1].name, translation=(0.0, 0.0, 0.3))

    def residuals(knot: Any) -> Any:
        place = knot.position("tool") - knot["target"]
        return [*place, knot.tau[0] * knot.q[1], 0.3 * knot.qd[0] * cos(knot.q[0])]

    def number(knot: Any) -> Any:
        return sum(r * r for r in residuals(knot)) * 0.5

    graph = expansion_graph(Cost(number if exact else residuals, inputs={"target": (3,)}), robot)
    random = np.random.default_rng(0)
    at = np.concatenate([random.normal(size=6), [0.1, 0.2, 0.3]])

    def states(x: np.ndarray) -> dict[str, np.ndarray]:
        parts = dict(zip(("q", "qd", "tau"), x[:, :6].reshape(-1, 3, 2).transpose(1, 0, 2), strict=True))
        return {**parts, "cost.target": np.tile(at[6:], (len(x), 1))}

    def values(x: np.ndarray) -> dict[str, np.ndarray]:
        return evaluate(graph, states(x))

    h = 1e-5
    shifted = at[:6] + h * np.concatenate([np.eye(6), -np.eye(6)])
    there, here = values(shifted), values(at[None, :6])
    slope = (there["value"][:6] - there["value"][6:]) / (2 * h)
    np.testing.assert_allclose(np.concatenate([here["by_x"][0], here["by_u"][0]]), slope, atol=1e-7)
    gradients = np.concatenate([there["by_x"], there["by_u"]], axis=1)
    curved = (gradients[:6] - gradients[6:]) / (2 * h)
    ours = np.block([[here["by_xx"][0], here["by_ux"][0].T], [here["by_ux"][0], here["by_uu"][0]]])
    if exact:
        np.testing.assert_allclose(ours, curved, atol=1e-6)
        return
    terms = CostGraphs(robot, Cost(residuals, inputs={"target": (3,)}), 0.1).running.graph
    results = evaluate(terms, states(shifted))["result"]
    jacobian = (results[:6] - results[6:]).T / (2 * h)
    np.testing.assert_allclose(ours, 0.1 * jacobian.T @ jacobian, atol=1e-7)
    assert abs(ours - curved).max() > 1e-3


def test_regularization_follows_the_step_length() -> None:
    """Crocoddyl's rule: over 10 above a half, times 10 up to a hundredth, within its range; not before a step."""
    options = IlqrOptions(3, StepOptions(DT), 4, 1e-9, 1e-5, 1e-1)
    (rule,) = [graph for graph in ilqr_loop(ARM, COST, options).graphs() if graph.name == "rule"]
    cases = [
        (1.0, 1e-3, 0.0, 1e-4),
        (0.5, 1e-3, 0.0, 1e-3),
        (2.0**-6, 1e-3, 0.0, 1e-3),
        (2.0**-7, 1e-3, 0.0, 1e-2),
        (2.0**-9, 1e-1, 0.0, 1e-1),
        (1.0, 1e-5, 0.0, 1e-5),
        (1.0, 1e-3, 1.0, 1e-3),
    ]
    length, before, fresh, expected = np.array(cases).T
    inputs = {port.name: np.ones((len(cases), *port.shape)) for port in rule.inputs}
    results = evaluate(rule, {**inputs, "length": length, "reg": before, "fresh": fresh})
    np.testing.assert_allclose(results["reg_now"], expected, rtol=1e-12)
    refused = evaluate(rule, {**inputs, "length": length, "reg": before, "fresh": fresh, "accepted": 0.0 * length})
    larger = np.where(fresh > 0.0, before, np.minimum(10.0 * before, 1e-1))  # however long the last step tried
    np.testing.assert_allclose(refused["reg_now"], larger, rtol=1e-12)


def test_a_cost_that_is_not_convex_is_regularized_and_told() -> None:
    """Beyond a quarter of a turn from the goal the final cost bends down: exact second derivatives are indefinite."""

    def final(knot: Any) -> Any:
        return sum((1.0 - cos(a - b)) * 20.0 for a, b in zip(knot.q, knot["goal"], strict=True))

    own = Cost(lambda knot: sum(u * u for u in knot.tau) * 1e-3, final, inputs={"goal": (2,)})
    options: dict[str, Any] = {"knots": KNOTS, "dt": DT, "cost": own, "device": "numpy", "tolerance": 1e-6}
    q0, still = np.array([[2.4, -2.2], [0.1, 0.1]]), np.zeros((2, 2))
    with dynagate.ilqr(ARM, iterations=1, **options) as opened:
        first = opened(q0, still, np.zeros((2, KNOTS, 2)), goal=np.zeros(2))
    assert first.regularization[0] > 1e-9 == first.regularization[1]
    assert not first.failed.any()
    with dynagate.ilqr(ARM, iterations=100, **options) as opened:
        last = opened(q0, still, np.zeros((2, KNOTS, 2)), goal=np.zeros(2))
    assert not last.failed.any()
    assert (last.cost < 0.1 * last.costs[:, 0]).all()


OPTIONS: dict[str, Any] = {"knots": 5, "dt": 0.01, "cost": COST}
REFUSED: list[tuple[dict[str, Any], type, str]] = [
    ({"knots": 2.5}, ValueError, "knots=2.5; expected a whole number of 1 or more"),
    ({"knots": 0}, ValueError, "knots=0; expected a whole number of 1 or more"),
    ({"dt": -0.01}, ValueError, "dt=-0.01"),
    ({"dt": "fast"}, ValueError, "dt='fast'"),
    ({"cost": 3.0}, TypeError, "cost is float; expected a dynagate.control.Cost"),
    ({"tolerance": 0.0}, ValueError, "tolerance=0.0; expected a fall of the cost"),
    ({"iterations": -1}, ValueError, "iterations=-1; expected a whole number of 1 or more"),
    ({"regularization": (1.0, 0.1)}, ValueError, "regularization=(1.0, 0.1); expected the smallest and the largest"),
    ({"bounds": np.ones(3)}, ValueError, "bounds=array([1., 1., 1.]) has 3 numbers; expected one, or 2"),
    ({"bounds": -1.0}, ValueError, "expected lowest and highest torques"),
    ({"integrator": "rk9"}, ValueError, "integrator 'rk9'"),
    ({"device": "fixed"}, ValueError, "device 'fixed' of ilqr; expected one of numpy, cpu, cuda"),
    (
        {"steps": 5},
        TypeError,
        "dynagate.ilqr() got an unexpected keyword argument 'steps' (write knots); expected one of knots",
    ),
    ({"knotz": 5}, TypeError, "unexpected keyword argument 'knotz' (did you mean 'knots'?)"),
    ({"overflow": "raise"}, TypeError, "dynagate.ilqr() got an unexpected keyword argument 'overflow'"),
]


@pytest.mark.parametrize(("changes", "error", "text"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_options_refused_before_any_work(changes: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        dynagate.ilqr(ARM, **{**OPTIONS, **changes})


def test_a_missing_option_is_named() -> None:
    with pytest.raises(TypeError, match=r"dynagate.ilqr\(\) without cost; expected robot, knots, dt, cost"):
        dynagate.ilqr(ARM, knots=5, dt=0.01)


COSTS: list[tuple[dict[str, Any], str]] = [
    ({"q": -1.0}, "q=-1.0; expected a weight of 0 or more"),
    ({}, "a quadratic cost without weights"),
    ({"place": 1.0}, "frame=None with place=1.0; expected a frame's name"),
    ({"q": 1.0, "final": -1.0}, "final=-1.0; expected a factor, 0 or more"),
]


@pytest.mark.parametrize(("weights", "text"), COSTS)
def test_costs_refused(weights: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        Cost.quadratic(**weights)


def names_in(loop: Loop) -> set[str]:
    own = {
        *loop.carry,
        *loop.carry.values(),
        *loop.per_iteration,
        *loop.kept,
        *loop.last,
        *(x.name for x in loop.inputs),
    }
    for step in loop.steps:
        own |= names_in(step) if isinstance(step, Loop) else {port.name for port in (*step.inputs, *step.outputs)}
    return own


def cost_of(names: Sequence[str]) -> Cost:
    """A cost that reads a number of each name, and one of each knot of the last name."""
    *once, each = names

    def running(knot: Knot) -> Any:
        place = sum((knot[name] * (0.1 + 0.01 * k) for k, name in enumerate(once)), knot[each][0] * 0.5)
        return [*(knot.q - place), *(0.3 * knot.qd), *(0.1 * knot.tau)]

    return Cost(running, running, {**dict.fromkeys(once, ()), each: Input((1,), each=True)})


def names_of_solvers() -> list[str]:
    """All names of values in the loops of solvers, and words of Python."""
    options: dict[str, Any] = {"knots": 3, "dt": DT, "cost": COST, "device": "numpy", "joint_bounds": True}
    found = names_in(dynagate.ilqr(ARM, bounds=True, **options).loop)
    found |= names_in(dynagate.mppi(ARM, samples=4, temperature=1.0, spread=0.1, **options).loop)
    plain = {name for name in found if "." not in name} | {
        "lambda",
        "class",
        "x0",
        "last",
        "solver",
        "goal",
        "goal_last",
    }
    return sorted(plain - {"q", "qd", "tau", "q0", "qd0", "warm", "draw", "word", "guard_bits", "self"})


def numbered(names: Sequence[str]) -> list[str]:
    return [f"number_{k}" for k in range(len(names))]


def values_by_name(names: Sequence[str]) -> dict[str, Any]:
    random = np.random.default_rng(4)
    *once, each = names
    return {**{name: random.uniform(-0.3, 0.3, 2) for name in once}, each: random.uniform(-0.3, 0.3, (2, 4, 1))}


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_inputs_of_a_cost_have_any_name(device: str) -> None:
    hostile = names_of_solvers()
    assert len(hostile) > 80
    q0, qd0 = np.random.default_rng(5).uniform(-0.3, 0.3, (2, 2, 2))
    options: dict[str, Any] = {"knots": 3, "dt": DT, "device": device}
    ilqrs, mppis = [], []
    for names in (hostile, numbered(hostile), hostile[::-1]):
        with dynagate.ilqr(ARM, cost=cost_of(names), iterations=3, joint_bounds=2.0, **options) as solver:
            ilqrs.append(solver(q0, qd0, **values_by_name(names)))
        with dynagate.mppi(ARM, cost=cost_of(names), samples=4, temperature=1.0, spread=0.1, **options) as sampler:
            mppis.append(sampler(q0, qd0, draw=0, **values_by_name(names)))
    for other in (1, 2):
        for name in ("q", "qd", "tau", "gains", "cost"):
            np.testing.assert_array_equal(getattr(ilqrs[0], name), getattr(ilqrs[other], name), err_msg=name)
        for name in ("tau", "cost", "least"):
            np.testing.assert_array_equal(getattr(mppis[0], name), getattr(mppis[other], name), err_msg=name)


def test_names_of_a_call_s_own_arguments_are_refused() -> None:
    cost = Cost(lambda knot: [knot["warm"]], inputs={"warm": ()})
    text = "the cost has an input 'warm', which a call of ilqr takes already; expected another name"
    with pytest.raises(ValueError, match=text):
        dynagate.ilqr(ARM, knots=3, dt=DT, cost=cost, device="numpy")
    with pytest.raises(ValueError, match="the cost has an input 'gain', which each call on a chip has too; expected"):
        ChipIlqr.of(ARM, Cost(lambda knot: [knot["gain"]], inputs={"gain": ()}), CHIP)


CHIP = IlqrOptions(3, StepOptions(DT), 3, 1e-6, 1e-9, 1e9)


@pytest.mark.parametrize("solver", ["ilqr", "mppi"])
def test_a_program_s_inputs_have_any_name(solver: str) -> None:
    """The formats and the instructions of a solver's program do not depend on the names of its cost's inputs."""
    hostile = [
        name for name in names_of_solvers() if name not in ("cost", "converged", "iterations", "weight", "least")
    ][::4]
    hostile += ["qs", "us_before", "us_new", "reg", "ahead", "mean", "number_before", "solver"]
    hostile = list(dict.fromkeys(hostile))
    programs = []
    for names in (hostile, numbered(hostile)):
        inputs = dict.fromkeys(names, ())

        def running(knot: Knot, names: Sequence[str] = names) -> Any:
            place = sum(knot[name] * (0.1 + 0.01 * k) for k, name in enumerate(names))
            return [*(knot.q - place), *(0.3 * knot.qd), *(0.1 * knot.tau)]

        cost = Cost(running, running, inputs)
        chip: ChipSolver = ChipIlqr.of(ARM, cost, CHIP)
        if solver == "mppi":
            chip = ChipMppi.of(ARM, cost, MppiOptions(3, StepOptions(DT), 4, 1.0, np.full(2, 0.1)))
        random, problems = np.random.default_rng(6), dict[str, Any]()
        for port in (port for port in chip.blocks.loop.inputs if port.name in chip.blocks.loop.per_iteration):
            problems[port.name] = random.uniform(-0.3, 0.3, (8, *port.shape))
        problems |= {name: np.arange(8.0) for name in ("draw", "seed") if name in problems}
        assert {*names} < {*problems}
        formatted = formatted_solver(chip, problems, Policy(27))
        angle = angles_of(formatted.graphs(), 27)
        program = loop_instructions(formatted.mapped(lambda graph, angle=angle: fused(graph, angle)))
        programs.append((tuple(graph.formats for graph in formatted.graphs()), program.blocks))
    assert programs[0] == programs[1]


def test_costs_refused_when_they_are_traced() -> None:
    for cost, error, text in [
        (Cost.quadratic(q=[1.0, 2.0, 3.0]), dynagate.RobotError, "q has 3 weights; robot 'two_joint_arm' has 2"),
        (Cost(lambda knot: knot["place"]), ValueError, "the cost reads the input 'place'; it has none"),
        (Cost(lambda knot: "far"), TypeError, "the running cost returned 'far'; expected residuals (m,), or a number"),
        (Cost(lambda knot: knot.position("hand")), dynagate.RobotError, "hand"),
    ]:
        with pytest.raises(error, match=re.escape(text)):
            CostGraphs(ARM, cost, 0.1)
    with pytest.raises(TypeError, match="running is float; expected a function of a knot, or None"):
        Cost(3.0)  # type: ignore[arg-type]


def test_calls_refused(solver: Ilqr) -> None:
    start: dict[str, Any] = {"q0": np.zeros(2), "qd0": np.zeros(2)}
    other = Solution(*(np.zeros(3) for _ in fields(Solution)))
    for inputs, text in [
        (start, "input 'goal' is missing; expected shape (..., 2)"),
        ({**start, "goal": np.zeros(3)}, "goal has shape (3,); expected (2,), or its last axes"),
        ({**start, "goal": np.zeros(2), "gaol": 1.0}, "ilqr has no input 'gaol' (did you mean 'goal'?)"),
        ({**start, "goal": np.full(2, np.nan)}, "goal is not finite"),
        ({**start, "q0": np.full(2, np.inf), "goal": np.zeros(2)}, "q0 is not finite"),
        ({**start, "goal": np.zeros(2), "tau": np.zeros((KNOTS, 2)), "warm": other}, "tau and warm"),
    ]:
        with pytest.raises(ValueError, match=re.escape(text)):
            solver(**inputs)


def run_example(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> dict[str, Any]:
    """Runs it, and returns what it writes beside its picture."""
    monkeypatch.setattr("sys.argv", [name, "--folder", str(folder), *options])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert (folder / "motion.gif").read_bytes().startswith(b"GIF")
    return json.loads((folder / "cost.json").read_text())


def assert_drawn(robot: Robot, q: np.ndarray, dt: float, name: str) -> None:
    """The picture of this name in the pages is of the motion."""
    docs = EXAMPLES.parent / "docs"
    pictures = runpy.run_path(str(docs / "draw_pictures.py"))
    drawn = pictures["motion"](robot, q, dt)
    assert not pictures["differs"](drawn, (docs / "pictures" / f"{name}.svg").read_text().rstrip())


@pytest.mark.long
def test_cart_pole_swings_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends upright, or the example fails; the page's picture is of the way there."""
    result = run_example("control_cartpole", tmp_path, monkeypatch, "--device", "cpu")
    assert result["cost"][-1] < 1e-3 < 10.0 < result["cost"][0]
    robot = Robot.from_urdf(tmp_path / "cart_pole.urdf")
    assert_drawn(robot, np.array(result["q"])[:31], 0.04, "cartpole")


@pytest.mark.long
def test_a_core_swings_the_cart_pole_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of few iterations may take other ways than those of float64; the pole stands in the end, or it fails."""
    cost = run_example("control_cartpole", tmp_path, monkeypatch)["cost"]
    assert cost[-1] < 1e-2 < 10.0 < cost[0]


def test_quaternions_move_on_their_group() -> None:
    """The slope of the cost is zero in the end, by differences; gains are those of a rollout with feedback."""
    upper, forearm = ARM.links
    shoulder = replace(upper.joint, type="spherical", axis=(0.0, 0.0, 1.0), lower=None, upper=None)
    ball = replace(ARM, links=(replace(upper, joint=shoulder), forearm))
    random = np.random.default_rng(0)
    q0 = dynagate.integrate(ball, dynagate.neutral(ball), 0.7 * random.normal(size=(3, 4)))
    goal, still = dynagate.integrate(ball, q0, 0.7 * random.normal(size=(3, 4))), np.zeros((3, 4))
    with dynagate.ilqr(ball, knots=KNOTS, dt=DT, cost=COST, iterations=60) as opened:
        solution = opened(q0, still, goal=goal)
        assert solution.converged.all()

        def slope(tau: np.ndarray, knot: int, joint: int) -> np.ndarray:
            h = np.zeros_like(tau)
            h[:, knot, joint] = 1e-5
            there, before = (opened(q0, still, tau + sign * h, goal=goal).costs[:, 0] for sign in (1.0, -1.0))
            return (there - before) / 2e-5

        for place in ((0, 0), (10, 1), (19, 2)):
            assert (abs(slope(solution.tau, *place)) < 1e-4 * abs(slope(0.0 * solution.tau, *place))).all()
        near = dynagate.integrate(ball, q0, 0.05 * random.normal(size=(3, 4)))
        again = opened(near, still, goal=goal, warm=solution)
    follow = {"gain": solution.gains, "q_ref": solution.q[:, :-1], "qd_ref": solution.qd[:, :-1]}
    held = dynagate.Rollout(ball, steps=KNOTS, dt=DT, feedback=True)(near, still, solution.tau, **follow)
    away = dynagate.difference(ball, goal[:, None], held.q)
    rate = (away**2 + 0.1 * held.qd**2).sum(axis=2) * 0.5
    first = DT * (rate[:, :-1].sum(axis=1) + 0.5e-2 * (held.tau**2).sum(axis=(1, 2))) + 100.0 * rate[:, -1]
    np.testing.assert_allclose(again.costs[:, 0], first, rtol=2e-2)  # the cost has 2 sin of half the turn
    assert (again.cost < again.costs[:, 0]).all()


@pytest.mark.long
def test_a_hopper_pushes_off_while_its_foot_holds(tmp_path: Path) -> None:
    """A floating base that nothing drives, and a contact that is active in some knots alone."""
    robot = hopper(tmp_path).with_frame("toe", "leg", (0.0, 0.02, -0.4)).with_contact("toe", damping=20.0)
    weights = [1.0, 1.0, 20.0, 5.0, 5.0, 5.0, 0.1]
    cost = Cost.quadratic(q=weights, qd=0.05, tau=1e-3, final=20.0)
    q0, still, knots = dynagate.neutral(robot), np.zeros(7), 40
    goal = q0 + 0.1 * np.eye(8)[2]
    stance = (np.arange(knots) < 25).astype(float)[:, None]
    with dynagate.ilqr(robot, knots=knots, dt=0.01, cost=cost, constrained=True, iterations=20) as opened:
        plans = [opened(q0, still, np.zeros((knots, 7)), goal=goal, active=x) for x in (stance, 0.0 * stance)]
    rollout = dynagate.Rollout(robot, steps=knots, dt=0.01, constrained=True)
    for plan, active in zip(plans, (stance, 0.0 * stance), strict=True):
        motion = rollout(q0, still, plan.tau, active=active)
        np.testing.assert_allclose(plan.q, motion.q, atol=1e-9)
        assert (plan.tau[:, :6] == 0.0).all()
        assert (np.diff(plan.costs[: plan.iterations + 1]) <= 0.0).all()
    assert plans[0].q[25, 2] > plans[1].q[25, 2] + 0.1  # one stands, the other falls
    assert plans[0].cost < plans[0].costs[0]


@pytest.mark.long
def test_hand_follows_its_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = run_example("control_reach", tmp_path, monkeypatch)["away"]
    assert away[-1] < 0.01
    assert max(away) < 0.1


@pytest.mark.long
def test_a_quadruped_trots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its motion is that of a rollout on other code; feet that stand stay, and those that swing rise; the page's
    picture is of it."""
    result = run_example("control_trot", tmp_path, monkeypatch)
    q, active = np.array(result["q"]), np.array(result["active"])
    assert result["cost"][-1] < 0.01 * result["cost"][0]
    assert q[-1, 0] > 0.15
    model = pinocchio.buildModelFromUrdf(str(robots.path("hyq")), pinocchio.JointModelFreeFlyer())
    _, order = robots.load("hyq").permutation(list(model.names)[2:])
    data = model.createData()
    feet = [model.getFrameId(name) for name in ("lf_foot", "rf_foot", "lh_foot", "rh_foot")]
    places = []
    for at in q:
        pinocchio.framesForwardKinematics(model, data, np.concatenate([at[:7], at[7:][order]]))
        places.append([data.oMf[foot].translation.copy() for foot in feet])
    ways, height = np.diff(places, axis=0), np.array(places)[:, :, 2] - np.array(places)[0, :, 2]
    assert (height.max(axis=0) > 0.025).all()
    assert height.min() > -0.003
    stood = np.concatenate([np.zeros((3, 4)), active[:-3]]) * active > 0.0  # from 30 ms after it came down
    assert np.linalg.norm(ways, axis=2)[stood].max() < 0.006
    assert_drawn(robots.load("hyq", floating_base=True), q, 0.01, "trot")


def test_forces_have_inputs_in_each_knot() -> None:
    cost, forces = Cost.quadratic(q=1.0, qd=0.1, tau=1.0, final=10.0), [Servo(4.0, 0.1)]
    q0, goal = np.array([0.1, 0.2]), np.array([0.6, -0.4])
    target = np.linspace(q0, goal, 30)
    with dynagate.ilqr(ARM, knots=30, dt=DT, cost=cost, forces=forces, device="numpy") as opened:
        solution = opened(q0, np.zeros(2), np.zeros((30, 2)), goal=goal, target=target)
    motion = dynagate.Rollout(ARM, steps=30, dt=DT, forces=forces)(q0, np.zeros(2), solution.tau, target=target)
    assert solution.converged
    assert solution.q.shape == (31, 2)
    assert solution.cost.shape == ()
    np.testing.assert_allclose(solution.q, motion.q, atol=1e-9)
    still = dynagate.Rollout(ARM, steps=30, dt=DT)(q0, np.zeros(2), solution.tau)
    assert abs(still.q - motion.q).max() > 0.1
