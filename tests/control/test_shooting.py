"""Multiple shooting in iLQR: gaps close, the optimum is that of single shooting, and what is refused."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Robot, robots
from dynagate.base.errors import ArgumentError
from dynagate.control import Constraint, Cost, backward, sin
from dynagate.forces import Lag

KNOTS, DT = 20, 0.025
ARM = robots.load("two_joint_arm", damping=False)
COST = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=100.0)
OPTIONS: dict[str, Any] = {"knots": KNOTS, "dt": DT, "cost": COST, "shooting": "multiple"}
START, GOAL = np.array([0.1, 0.2]), np.array([1.5, 0.4])


def guess(batch: int = 3) -> np.ndarray:
    """Return states that no torques lead through."""
    return np.random.default_rng(3).normal(size=(batch, KNOTS + 1, 4))


def test_one_step_solves_a_linear_problem_from_any_states(tmp_path: Path) -> None:
    """The first step of a sliding mass is a full one, to the optimum that least squares give."""
    path = tmp_path / "cart.urdf"
    path.write_text(
        '<robot name="cart"><link name="rail"/><link name="cart"><inertial><mass value="2"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="x" type="prismatic">'
        '<parent link="rail"/><child link="cart"/><limit lower="-9" upper="9" effort="9" velocity="9"/></joint></robot>'
    )
    knots, dt, mass, goal = 8, 0.1, 2.0, 0.7
    # each state is its free motion plus the torques' part, linear in the torques
    q, qd = [np.append(np.zeros(knots), 0.3)], [np.append(np.zeros(knots), -0.2)]
    for k in range(knots):
        speed = qd[-1] + dt / mass * np.eye(knots + 1)[k] * np.append(np.ones(knots), 0.0)
        q, qd = [*q, q[-1] + dt * speed], [*qd, speed]
    off = np.eye(knots + 1)[knots]
    rows = [math.sqrt(dt) * (x - goal * off) for x in q[:-1]] + [math.sqrt(0.1 * dt) * x for x in qd[:-1]]
    rows += [math.sqrt(0.01 * dt) * x for x in np.eye(knots, knots + 1)]
    rows += [10.0 * (q[-1] - goal * off), math.sqrt(10.0) * qd[-1]]
    matrix = np.array(rows)
    tau, (twice,), *_ = np.linalg.lstsq(matrix[:, :-1], -matrix[:, -1], rcond=None)
    states = np.random.default_rng(1).normal(size=(knots + 1, 2))
    options: dict[str, Any] = {"knots": knots, "dt": dt, "cost": COST, "device": "numpy", "shooting": "multiple"}
    plan = dynagate.ilqr(Robot.from_file(path), **options)([0.3], [-0.2], goal=[goal], states=states)
    assert plan.gap == 0.0
    np.testing.assert_allclose(plan.costs[1], 0.5 * twice, rtol=1e-7)
    np.testing.assert_allclose(plan.tau[:, 0], tau, atol=1e-6)


@pytest.mark.parametrize("blocks", [False, True])
def test_gaps_close_at_the_optimum_of_single_shooting(blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if blocks:
        monkeypatch.setattr(backward, "LARGEST_UNROLLED", 0)
    call: dict[str, Any] = {"q0": np.tile(START, (3, 1)), "qd0": np.zeros((3, 2)), "goal": GOAL}
    single = dynagate.ilqr(ARM, device="numpy", **{**OPTIONS, "shooting": "single"})(**call)
    plans = [dynagate.ilqr(ARM, device=device, **OPTIONS)(**call, states=guess()) for device in ("numpy", "cpu")]
    for plan in plans:
        assert plan.converged.all()
        assert (plan.gap <= 1e-9).all()
        np.testing.assert_allclose(plan.cost, single.cost, rtol=1e-8)
        np.testing.assert_allclose(plan.q, single.q, atol=1e-4)
        moved = dynagate.Rollout(ARM, steps=KNOTS, dt=DT, device="numpy")(call["q0"], call["qd0"], plan.tau)
        np.testing.assert_allclose(moved.q, plan.q, atol=1e-9)
    np.testing.assert_allclose(plans[0].gains, plans[1].gains, atol=1e-6)
    assert plans[0].iterations.tolist() == plans[1].iterations.tolist()


def test_without_states_it_is_single_shooting() -> None:
    call: dict[str, Any] = {"q0": START, "qd0": np.zeros(2), "goal": GOAL}
    single = dynagate.ilqr(ARM, device="numpy", **{**OPTIONS, "shooting": "single"})(**call)
    solver = dynagate.ilqr(ARM, device="numpy", **OPTIONS)
    plan = solver(**call)
    np.testing.assert_array_equal(plan.costs, single.costs)
    warm = solver(**call, warm=solver(**call, states=guess(1)[0]))
    assert warm.iterations == 1
    np.testing.assert_allclose(warm.cost, single.cost, rtol=1e-9)


def swing() -> Cost:
    """Return the cost to end upright and at rest."""

    def running(knot: Any) -> Any:
        return [0.1 * x for x in (*knot.qd, *knot.tau)]

    def final(knot: Any) -> Any:
        return [*(60.0 * sin(q * 0.5) for q in knot.q), *(10.0 * x for x in knot.qd)]

    return Cost(running, final)


@pytest.mark.filterwarnings("ignore:.*limits:dynagate.RobotWarning")
def test_a_double_pendulum_swings_up_from_states_on_a_line() -> None:
    """The hanging rest is a saddle that single shooting stays at. States that lead up lead away from it."""
    knots, bounds = 60, np.array([12.0, 4.0])
    along = np.linspace(0.0, 1.0, knots + 1)[:, None]
    states = np.concatenate([math.pi * (1.0 - along), 0.0 * along, 0.0 * along - 2.6, 0.0 * along], axis=1)
    options: dict[str, Any] = {"knots": knots, "dt": 0.02, "cost": swing(), "bounds": bounds, "iterations": 300}
    single = dynagate.ilqr(ARM, **options)
    hanging = np.array([math.pi, 0.0])
    plan = dynagate.ilqr(ARM, shooting="multiple", **options)(hanging, np.zeros(2), states=states)
    stuck, near = single(hanging, np.zeros(2)), single(hanging - [1e-3, 0.0], np.zeros(2))
    assert stuck.cost > 1e3
    assert plan.converged
    assert plan.gap <= 1e-9
    np.testing.assert_allclose(plan.cost, near.cost, rtol=1e-3)
    again = single(hanging, np.zeros(2), plan.tau)
    np.testing.assert_allclose(again.cost, plan.cost, rtol=1e-6)
    assert np.abs(plan.tau).max() <= bounds[0]


@pytest.mark.long
def test_gaps_of_quaternions_actuators_and_constraints_close() -> None:
    upper, forearm = ARM.links
    shoulder = replace(upper.joint, type="spherical", axis=(0.0, 0.0, 1.0), lower=None, upper=None)
    ball = replace(ARM, links=(replace(upper, joint=shoulder), forearm))
    random, knots = np.random.default_rng(0), 6
    q = dynagate.integrate(ball, dynagate.neutral(ball), 0.5 * random.normal(size=(knots + 1, 4)))
    states = np.concatenate([q, random.normal(size=(knots + 1, 4))], axis=1)
    call: dict[str, Any] = {"q0": q[0], "qd0": np.zeros(4), "goal": q[1]}
    options = {**OPTIONS, "knots": knots, "dt": 0.05, "device": "numpy", "iterations": 100}
    plan = dynagate.ilqr(ball, **options)(**call, states=states)
    single = dynagate.ilqr(ball, **{**options, "shooting": "single"})(**call)
    assert plan.converged
    np.testing.assert_allclose(plan.cost, single.cost, rtol=1e-8)

    still = Constraint(lambda knot: knot.qd, equal=True, at="end")
    options |= {"forces": [Lag(0.05)], "constraints": [still], "iterations": 300}
    call = {"q0": START, "qd0": np.zeros(2), "goal": GOAL}
    plan = dynagate.ilqr(ARM, **options)(**call, states=0.3 * guess(1)[0, : knots + 1])
    single = dynagate.ilqr(ARM, **{**options, "shooting": "single"})(**call)
    assert plan.converged
    assert plan.gap == 0.0
    assert plan.violation.max() < 2e-5
    np.testing.assert_allclose(plan.cost, single.cost, rtol=1e-5)


def test_what_is_refused() -> None:
    solver = dynagate.ilqr(ARM, device="numpy", **OPTIONS)
    call: dict[str, Any] = {"q0": START, "qd0": np.zeros(2), "goal": GOAL}
    plan, states = solver(**call), guess(1)[0]
    bad = states.copy()
    bad[2, 1] = np.nan
    for more, text in (
        ({"states": states[1:]}, "states has shape (20, 4); expected (21, 4)"),
        ({"states": bad}, "states"),
        ({"states": states, "warm": plan}, "states and warm are both given"),
    ):
        with pytest.raises(ArgumentError, match=re.escape(text)):
            solver(**call, **more)
    single = dynagate.ilqr(ARM, device="numpy", **{**OPTIONS, "shooting": "single"})
    with pytest.raises(ArgumentError, match="states= of a solver with shooting='single'"):
        single(**call, states=states)
    with pytest.raises(ArgumentError, match="shooting='multiple' in fixed point"):
        solver.on_integers(**call)
    with pytest.raises(ArgumentError, match="shooting='several'; expected 'single' or 'multiple'"):
        dynagate.ilqr(ARM, device="numpy", **{**OPTIONS, "shooting": "several"})
