"""Solvers with actuators: plans and costs equal loops in numpy whose actuators are written again."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Robot
from dynagate.control import Cost, backward
from dynagate.forces import DCMotor, Delay, Lag, SeriesElastic
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate

KNOTS, DT = 6, 0.01
ROBOT = """<robot name="crane">
<link name="base"/>
<link name="boom"><inertial><origin xyz="0.3 0 0.1"/><mass value="2"/>
<inertia ixx="0.02" iyy="0.06" izz="0.05" ixy="0.003" ixz="0" iyz="0.001"/></inertial></link>
<link name="load"><inertial><origin xyz="0 0.05 -0.2"/><mass value="0.8"/>
<inertia ixx="0.01" iyy="0.012" izz="0.004" ixy="0" ixz="0.001" iyz="0"/></inertial></link>
<joint name="turn" type="continuous"><parent link="base"/><child link="boom"/><axis xyz="0.3 0.9 0.1"/></joint>
<joint name="slide" type="prismatic"><parent link="boom"/><child link="load"/><origin xyz="0.5 0 0" rpy="0.2 0.1 0"/>
<axis xyz="0.6 0 0.8"/><limit lower="-2" upper="2" effort="90" velocity="9"/></joint>
</robot>"""
STATES = ("delayed", "lag", "deflection", "motor_speed")
CHAIN = [Delay(1), Lag(0.02), SeriesElastic(40.0, 0.02, 0.1)]


@pytest.fixture
def robot(tmp_path: Path) -> Robot:
    path = tmp_path / "crane.urdf"
    path.write_text(ROBOT)
    return Robot.from_file(path)


COST = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=20.0)


def start_of(robot: Robot) -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    return {"q0": random.uniform(-0.4, 0.4, robot.nq), "qd0": random.uniform(-0.3, 0.3, robot.nv)}


def begun(robot: Robot) -> dict[str, np.ndarray]:
    """Return states of the actuators before the first knot."""
    random = np.random.default_rng(6)
    return {name: random.uniform(-0.05, 0.05, robot.nv) for name in STATES}


def moved(robot: Robot, tau: np.ndarray, states: dict[str, np.ndarray]) -> list[tuple[np.ndarray, ...]]:
    """Return q, q̇ and the states of the chain before each knot and after the last one, by a loop in numpy."""
    q, qd = start_of(robot).values()
    queue, lag, x, w = (states[name] for name in STATES)
    share, motion = 1.0 - math.exp(-DT / 0.02), []
    for k in range(len(tau) + 1):
        motion.append((q, qd, np.concatenate([queue, lag, x, w])))
        if k == len(tau):
            break
        command, given, late = tau[k], lag, queue
        queue, lag = command, lag + share * (late - lag)
        x = x + DT * (w - qd)
        torque = 40.0 * x + 0.1 * (w - qd)
        w = w + DT / 0.02 * (given - torque)
        qdd = evaluate(trace(robot, "forward_dynamics"), {"q": q[None], "qd": qd[None], "tau": torque[None]})["qdd"][0]
        qd = qd + DT * qdd
        q = q + DT * qd
    return motion


def cost(robot: Robot, motion: list[tuple[np.ndarray, ...]], tau: np.ndarray, goal: np.ndarray) -> float:
    def state(q: np.ndarray, qd: np.ndarray) -> float:
        return float((q - goal) @ (q - goal) + 0.1 * qd @ qd)

    running = sum(state(q, qd) + 1e-2 * u @ u for (q, qd, _), u in zip(motion, tau, strict=False))
    return 0.5 * DT * running + 0.5 * 20.0 * state(*motion[-1][:2])


GOAL = np.array([0.2, -0.1])


def test_a_plan_moves_as_the_loop_and_no_torque_lowers_its_cost(robot: Robot) -> None:
    solver = dynagate.ilqr(robot, knots=KNOTS, dt=DT, cost=COST, forces=CHAIN, device="numpy")
    goal, states = GOAL, begun(robot)
    plan = solver(**start_of(robot), goal=goal, **states)
    assert plan.converged
    motion = moved(robot, plan.tau, states)
    for k, (q, qd, own) in enumerate(motion):
        np.testing.assert_allclose(plan.q[k], q, atol=1e-9)
        np.testing.assert_allclose(plan.qd[k], qd, atol=1e-8)
        if k < KNOTS:
            np.testing.assert_allclose(plan.actuators[k], own, atol=1e-8)
    assert plan.gains.shape == (KNOTS, robot.nv, 2 * robot.nv + plan.actuators.shape[1])
    for way in np.random.default_rng(4).normal(size=(4, KNOTS, robot.nv)):
        ends = [plan.tau + s * 1e-3 * way for s in (-1.0, 0.0, 1.0)]
        low, best, high = (cost(robot, moved(robot, tau, states), tau, goal) for tau in ends)
        curvature = (low - 2.0 * best + high) / 1e-6
        assert curvature > 0.0
        assert abs(high - low) / 2e-3 < 1e-3 * curvature


@pytest.mark.parametrize("blocks", [False, True])
def test_blocks_and_compiled_code_give_the_plan_of_the_reference(
    robot: Robot, blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of matrices and C give the plan of the reference, in as few iterations as exact derivatives need."""
    if blocks:
        monkeypatch.setattr(backward, "LARGEST_UNROLLED", 0)
    options: dict[str, Any] = {"knots": KNOTS, "dt": DT, "cost": COST, "forces": CHAIN}
    plan = dynagate.ilqr(robot, device="numpy", **options)(**start_of(robot), goal=GOAL, **begun(robot))
    compiled = dynagate.ilqr(robot, **options)(**start_of(robot), goal=GOAL, **begun(robot))
    for name in ("tau", "gains", "actuators", "q", "cost"):
        scale = max(1.0, np.abs(getattr(plan, name)).max())
        np.testing.assert_allclose(getattr(compiled, name), getattr(plan, name), atol=1e-6 * scale)
    assert plan.converged
    assert plan.iterations < 12


def test_a_warm_start_keeps_the_states_and_gains_of_a_plan(robot: Robot) -> None:
    solver = dynagate.ilqr(robot, knots=KNOTS, dt=DT, cost=COST, forces=CHAIN, device="numpy")
    call = {**start_of(robot), "goal": GOAL, **begun(robot)}
    plan = solver(**call)
    again = solver(**call, warm=plan)
    np.testing.assert_allclose(again.costs[0], plan.cost, rtol=1e-12)
    near = {**call, "lag": call["lag"] + 0.3, "motor_speed": call["motor_speed"] - 0.2}
    with_gains, without = solver(**near, warm=plan), solver(**near, tau=plan.tau)
    assert with_gains.costs[0] < without.costs[0]
    np.testing.assert_allclose(with_gains.cost, without.cost, rtol=1e-6)
    assert plan.shifted(2).actuators.tolist() == [*plan.actuators[2:].tolist(), *[plan.actuators[-1].tolist()] * 2]


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_the_guess_among_samples_costs_as_the_loop(robot: Robot, device: Any) -> None:
    sampling: dict[str, Any] = {"temperature": 1.0, "spread": 0.5, "samples": 1, "device": device}
    sampler = dynagate.mppi(robot, knots=KNOTS, dt=DT, cost=COST, forces=CHAIN, **sampling)
    tau, goal, states = np.random.default_rng(9).normal(size=(KNOTS, robot.nv)), GOAL, begun(robot)
    plan = sampler(**start_of(robot), tau=tau, goal=goal, **states)
    np.testing.assert_allclose(plan.least, cost(robot, moved(robot, tau, states), tau, goal), rtol=1e-9)
    rest = sampler(**start_of(robot), tau=tau, goal=goal)
    none = {name: 0.0 * value for name, value in states.items()}
    np.testing.assert_allclose(rest.least, cost(robot, moved(robot, tau, none), tau, goal), rtol=1e-9)


def test_actuators_that_solvers_refuse() -> None:
    options: dict[str, Any] = {"knots": 3, "dt": DT, "cost": Cost.quadratic(q=1.0), "device": "numpy"}
    arm = "two_joint_arm"
    solver = dynagate.ilqr(arm, forces=[DCMotor(0.1, 1.0)], **options)
    with pytest.raises(ValueError, match="the actuator DCMotor of a solver in fixed point; expected no actuators, or"):
        solver.on_integers(np.zeros(2), np.zeros(2), goal=np.ones(2))
    named = Cost(lambda knot: knot.q - knot["lag"], inputs={"lag": (2,)})
    with pytest.raises(ValueError, match="the cost and the steps both take an input 'lag'"):
        dynagate.ilqr(arm, forces=[Lag(0.1)], **{**options, "cost": named})
    with pytest.raises(ValueError, match="makes SeriesElastic unstable"):
        dynagate.mppi(arm, forces=[SeriesElastic(1e4, 1e-4)], temperature=1.0, spread=1.0, **options)
    lagged = dynagate.ilqr(arm, forces=[Lag(0.1)], **options)
    with pytest.raises(ValueError, match="lag has shape"):
        lagged(np.zeros(2), np.zeros(2), goal=np.zeros(2), lag=np.zeros(3))
    with pytest.raises(ValueError, match="ilqr has no input 'lagg'"):
        lagged(np.zeros(2), np.zeros(2), goal=np.zeros(2), lagg=np.zeros(2))
