"""Bounds of joints in solvers: kept where they can be, told where not, beside IPOPT in `test_control`."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import robots
from dynagate.control import Cost
from dynagate.control.bounded_values import MotionBounds
from dynagate.control.chip_ilqr import ChipIlqr
from dynagate.control.ilqr import IlqrOptions, ilqr_loop
from dynagate.forces.options import StepOptions
from dynagate.graph.evaluate import evaluate
from dynagate.host.ilqr import Ilqr
from dynagate.host.joint_limits import joint_bounds_of

ARM = robots.load("two_joint_arm", damping=False)
KNOTS, DT = 20, 0.02
COST = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=100.0)
LOW, HIGH = np.array([-0.8, -0.9, -6.0, -7.0]), np.array([0.7, 0.6, 6.0, 8.0])
OPTIONS: dict[str, Any] = {"knots": KNOTS, "dt": DT, "cost": COST, "iterations": 100}


def problems(count: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    q0 = random.uniform(LOW[:2], HIGH[:2], (count, 2))
    return {"q0": q0, "qd0": np.zeros((count, 2)), "goal": random.uniform(-1.0, 1.0, (count, 2))}


def cost_of(plan: Any, goal: np.ndarray) -> np.ndarray:
    rate = 0.5 * ((plan.q - goal[:, None]) ** 2 + 0.1 * plan.qd**2).sum(axis=2)
    return DT * (rate[:, :-1].sum(axis=1) + 0.5e-2 * (plan.tau**2).sum(axis=(1, 2))) + 100.0 * rate[:, -1]


def test_plans_keep_bounds_of_positions_and_speeds() -> None:
    """Their cost is that of the user alone; where free plans keep the bounds they are the plans; NaN harms no other."""
    inputs = problems(24)
    with dynagate.ilqr(ARM, **OPTIONS) as opened:
        free = opened(**inputs)
    assert (free.beyond == 0.0).all()
    inputs["q0"][5] = np.nan
    rest = np.arange(24) != 5
    with dynagate.ilqr(ARM, joint_bounds=(LOW, HIGH), **OPTIONS) as opened, warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = opened(**inputs)
        alone = opened(**{name: x[7] for name, x in inputs.items()})
    assert plan.failed.tolist() == (~rest).tolist()
    assert plan.converged[rest].all()
    assert plan.beyond.shape == (24, 4)
    assert plan.beyond[rest].max() < 2e-4
    x = np.concatenate([plan.q, plan.qd], axis=2)[:, 1:]
    np.testing.assert_array_equal(plan.beyond[rest], np.maximum(x - HIGH, LOW - x).max(axis=1)[rest].clip(0.0))
    np.testing.assert_allclose(plan.cost[rest], cost_of(plan, inputs["goal"])[rest], rtol=1e-8)
    within = np.concatenate([free.q, free.qd], axis=2)[rest]
    kept = ((within >= LOW) & (within <= HIGH)).all(axis=(1, 2))
    assert 3 < kept.sum() < 20
    np.testing.assert_allclose(plan.cost[rest][kept], free.cost[rest][kept], rtol=1e-8)
    assert (plan.cost[rest][~kept] > free.cost[rest][~kept]).all()
    np.testing.assert_allclose(alone.cost, plan.cost[7], rtol=1e-6)
    motion = dynagate.Rollout(ARM, steps=KNOTS, dt=DT)(inputs["q0"][rest], inputs["qd0"][rest], plan.tau[rest])
    np.testing.assert_allclose(plan.q[rest], motion.q, atol=1e-9)


def test_no_torque_within_the_bounds_is_better() -> None:
    """A goal beyond: the joint stops at its bound, and is pushed there. With a bound that is looser by little the cost
    falls by as much as the multiplier says, and by less with the next one."""
    inputs = {"q0": np.array([0.1, 0.2]), "qd0": np.zeros(2), "goal": np.array([1.2, -0.3])}
    costs = []
    for high in (0.7, 0.71, 0.72):
        bounds = (np.array([-2.0, -2.0]), np.array([high, 2.0]))
        short = OPTIONS | {"knots": 8}
        with dynagate.ilqr(ARM, joint_bounds=bounds, device="numpy", **short) as opened:
            plan = opened(**inputs)
        assert plan.converged
        assert abs(plan.q[-1, 0] - high) < 1e-4
        costs.append(float(plan.cost))
    first, second = -np.diff(costs)
    assert first > second > 0.9 * first > 0.0


def test_a_shift_becomes_what_is_beyond() -> None:
    """Where it is renewed, over as much as the weight grew; the cost is that with the new ones."""
    options = IlqrOptions(
        3, StepOptions(DT), 4, 1e-9, 1e-9, 1e9, kept=MotionBounds.of_joints(ARM, joint_bounds_of(ARM, (LOW, HIGH)))
    )
    (graph,) = [each for each in ilqr_loop(ARM, COST, options).graphs() if each.name == "shifted"]
    inputs = {port.name: np.zeros((2, *port.shape)) for port in graph.inputs}
    inputs["qs_new"][:, 0], inputs["bound_shift"][:, 0] = 0.9, 0.1
    numbers = {"scale": 0.1, "weight_new": 2.0, "cost_last": 5.0}
    inputs |= {name: np.full(2, value) for name, value in numbers.items()} | {"renewed": np.array([1.0, 0.0])}
    result = evaluate(graph, inputs)
    np.testing.assert_allclose(result["shift_new"], [[0.03, 0.0, 0.0, 0.0], [0.1, 0.0, 0.0, 0.0]], atol=1e-15)
    np.testing.assert_allclose(result["cost_new"], 5.0 + (np.array([0.23, 0.3]) / 1.5) ** 2, rtol=1e-12)


def test_a_start_beyond_comes_back_along_a_line() -> None:
    inputs = {"q0": np.array([1.0, 0.1]), "qd0": np.zeros(2), "goal": np.array([0.9, 0.3])}
    with dynagate.ilqr(ARM, joint_bounds=(LOW, HIGH), device="numpy", **OPTIONS) as opened:
        plan = opened(**inputs)
    assert plan.converged
    line = HIGH[0] + (1.0 - HIGH[0]) * np.linspace(1.0, 0.0, KNOTS + 1)
    assert (plan.q[:, 0] < line + 1e-4).all()
    assert plan.q[-1, 0] > HIGH[0] - 1e-4
    assert plan.beyond[0] == pytest.approx(plan.q[1:, 0].max() - HIGH[0])
    assert 0.2 < plan.beyond[0] < 0.3


def test_bounds_that_no_torque_keeps_are_told() -> None:
    """A joint that falls, with too little torque to hold it."""
    inputs = {"q0": np.array([[1.5, 0.0], [0.1, 0.0]]), "qd0": np.array([[3.0, 0.0], [0.0, 0.0]])}
    goal, bounds = np.array([[1.5, 0.0], [0.0, 0.0]]), (np.array([-1.6, -3.0]), np.array([1.6, 3.0]))
    options = OPTIONS | {"iterations": 20}
    with dynagate.ilqr(ARM, bounds=5.0, joint_bounds=bounds, device="numpy", **options) as opened:
        plan = opened(**inputs, goal=goal)
    assert plan.converged.tolist() == [False, True]
    assert plan.beyond[0, 0] > 0.01
    assert plan.beyond[1].max() < 1e-4
    assert np.isfinite(plan.cost).all()


def test_limits_of_the_robot_and_numbers() -> None:
    upper, forearm = ARM.links
    joint = replace(forearm.joint, lower=-0.5, upper=0.4, velocity=3.0)
    robot = replace(ARM, links=(upper, replace(forearm, joint=joint)))
    joints = joint_bounds_of(robot, True)
    assert joints is not None
    assert 1 in joints.places
    k = joints.places.tolist().index(1)
    assert (joints.low[k], joints.high[k]) == (-0.5, 0.4)
    k = joints.places.tolist().index(3)
    assert (joints.low[k], joints.high[k]) == (-3.0, 3.0)
    one = joint_bounds_of(robot, 2.0)
    assert one is not None
    assert (one.places.tolist(), one.low.tolist(), one.high.tolist()) == ([0, 1], [-2.0, -2.0], [2.0, 2.0])
    some = joint_bounds_of(robot, (np.array([-np.inf, -1.0]), np.array([np.inf, np.inf, 5.0, np.inf])))
    assert some is not None
    assert (some.places.tolist(), some.high.tolist()) == ([1, 2], [np.inf, 5.0])
    assert joint_bounds_of(robot, np.inf) is None
    ball = replace(upper.joint, type="spherical", axis=(0.0, 0.0, 1.0), lower=None, upper=None)
    jointed = replace(ARM, links=(replace(upper, joint=ball), forearm))
    told = joint_bounds_of(jointed, True)
    assert told is None or (told.places >= 3).all()
    with pytest.raises(ValueError, match="joint_bounds of 'shoulder', whose position is no number; expected infinity"):
        joint_bounds_of(jointed, 2.0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"joint_bounds": np.ones(3)}, "joint_bounds=array([1., 1., 1.]) has 3 numbers; expected one, or 2 or 4"),
        ({"joint_bounds": (1.0, -1.0)}, "joint_bounds of [1.0, 1.0, -inf, -inf] to [-1.0, -1.0, inf, inf]; expected"),
        ({"joint_bounds": np.nan}, "joint_bounds=nan; expected positions, or positions and speeds, infinite for none"),
        ({"within": 0.0, "joint_bounds": 1.0}, "within=0.0; expected a part of a joint's range"),
    ],
)
def test_options_refused_before_any_work(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        dynagate.ilqr(ARM, **OPTIONS, **options)


def test_fixed_point_refuses_them_by_name() -> None:
    with dynagate.ilqr(ARM, joint_bounds=2.0, device="numpy", **OPTIONS) as opened:
        assert isinstance(opened, Ilqr)
        with pytest.raises(ValueError, match="joint_bounds in fixed point; expected none, and the force Limits"):
            opened.on_integers(**problems(4))
        with pytest.raises(ValueError, match="joint_bounds in fixed point; expected none, and the force Limits"):
            ChipIlqr.of(ARM, COST, opened.options)


@pytest.mark.parametrize("device", ["cpu", "numpy"])
def test_samples_beyond_weigh_nothing(device: str) -> None:
    """All samples that count keep the bounds; of a start beyond, those count that are least so."""
    options: dict[str, Any] = {"samples": 128, "temperature": 1.0, "spread": [6.0, 2.0], "nodes": 4, "seed": 3}
    bounds = (np.array([-2.0, -2.0]), np.array([0.35, 2.0]))
    q0, goal = np.array([[0.3, 0.1], [0.5, 0.1]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    reached = {}
    for name, joint_bounds in (("free", None), ("kept", bounds)):
        with dynagate.mppi(
            ARM, knots=KNOTS, dt=DT, cost=COST, joint_bounds=joint_bounds, device=device, **options
        ) as opened:
            tau, still = np.zeros((2, KNOTS, 2)), np.zeros((2, 2))
            for k in range(6):
                result = opened(q0, still, tau, draw=k, goal=goal)
                tau = result.tau
            assert not result.failed.any()
            reached[name] = dynagate.Rollout(ARM, steps=KNOTS, dt=DT)(q0, still, tau).q
    assert reached["free"][0, :, 0].max() > 0.45
    assert reached["kept"][0, :, 0].max() < 0.36
    assert reached["kept"][1, :, 0].max() < reached["free"][1, :, 0].max()
