"""Models for MPC libraries: their derivatives, the same solutions as the libraries' own models, refusals."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import casadi
import crocoddyl
import dynagate
import numpy as np
import pytest
from dynagate import robots
from dynagate.mpc.actions import ActionModel, StepDerivatives, TerminalModel
from dynagate.mpc.casadi import casadi_function
from dynagate.mpc.state import State

from tests.robots import hopper

EXAMPLES = Path(__file__).parents[2] / "examples" / "bridges"
ARM = robots.load("two_joint_arm")


def test_crocoddyl_reaches_as_with_its_own_model() -> None:
    space = runpy.run_path(str(EXAMPLES / "crocoddyl_reach.py"))
    np.testing.assert_allclose(space["solver"].cost, space["own"].cost, rtol=1e-8)
    np.testing.assert_allclose(np.array(space["solver"].xs), np.array(space["own"].xs), atol=1e-6)


def test_ipopt_reaches_as_with_casadis_own_expressions() -> None:
    space = runpy.run_path(str(EXAMPLES / "casadi_reach.py"))
    np.testing.assert_allclose(space["ours"][0], space["peer"][0], rtol=1e-8)
    assert space["ours"][1] == space["peer"][1]


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_derivatives_of_action_models(integrator: str) -> None:
    """Crocoddyl's own differences."""
    model = ActionModel(
        StepDerivatives(ARM, 0.02, integrator=integrator), np.ones(4), np.ones(4), np.ones(2), hold=[0.5, 0.1]
    )
    differences = crocoddyl.ActionModelNumDiff(model, True)
    data, others = model.createData(), differences.createData()
    x, u = np.array([0.1, 0.2, 0.3, 0.4]), np.array([1.0, -0.5])
    for each, at in ((model, data), (differences, others)):
        each.calc(at, x, u)
        each.calcDiff(at, x, u)
    for name in ("Fx", "Fu", "Lx", "Lu"):
        np.testing.assert_allclose(getattr(data, name), getattr(others, name), atol=1e-4, err_msg=name)


def test_derivatives_of_casadi_functions() -> None:
    f = casadi_function(ARM, "forward_dynamics")
    symbols = [casadi.MX.sym(name, 2) for name in ("q", "qd", "tau")]
    state = np.random.default_rng(0).normal(size=(3, 2))
    whole = casadi.hessian(casadi.sum1(f(*symbols)), casadi.vertcat(*symbols))[0]
    first, second = (
        casadi.Function("f", symbols, [each])(*state).full()
        for each in (casadi.jacobian(f(*symbols), symbols[0]), whole)
    )
    named: dict[str, Any] = dict(zip(("q", "qd", "tau"), state, strict=True))
    with dynagate.compile(ARM, "forward_dynamics_gradient") as accelerator:
        np.testing.assert_allclose(first, accelerator(**named).dqdd_dq, rtol=1e-9)
    with dynagate.compile(ARM, "forward_dynamics_second_order") as accelerator:
        expected = accelerator(**named, lam_qdd=np.ones(2))
    np.testing.assert_allclose(second[:2, :2], expected.d2_dq_dq, rtol=1e-9)
    np.testing.assert_allclose(second, second.T, rtol=1e-9, atol=1e-12)


def on_a_foot(folder: Path) -> dynagate.Robot:
    return hopper(folder).with_frame("toe", "leg", (0.0, 0.02, -0.4)).with_contact("toe", damping=20.0)


def test_derivatives_of_states_with_quaternions(tmp_path: Path) -> None:
    """Crocoddyl's own differences, at states that are apart by large turns."""
    state = State(hopper(tmp_path))
    differences = crocoddyl.StateNumDiff(state)
    x0, x1 = state.rand(), state.rand()
    dx = state.diff(x0, x1)
    np.testing.assert_allclose(state.diff(x0, state.integrate(x0, dx)), dx, atol=1e-12)
    for ours, other in (
        (state.Jdiff(x0, x1), differences.Jdiff(x0, x1)),
        (state.Jintegrate(x0, 0.5 * dx), differences.Jintegrate(x0, 0.5 * dx)),
    ):
        for part, expected in zip(ours, other, strict=True):
            np.testing.assert_allclose(part, expected, atol=1e-5)


def test_action_models_of_a_robot_on_its_foot(tmp_path: Path) -> None:
    """Derivatives on a floating base with a contact, and a solver that lets the body sink while the toe stays."""
    robot = on_a_foot(tmp_path)
    step = StepDerivatives(robot, 0.01, constrained=True)
    assert step.nu == robot.nv - 6
    start = np.concatenate([dynagate.neutral(robot), np.zeros(robot.nv)])
    weights = np.ones(2 * robot.nv)
    model = ActionModel(step, step.state.rand(), weights, 1e-3 * np.ones(step.nu), active=[1.0])
    differences = crocoddyl.ActionModelNumDiff(model, True)
    data, others = model.createData(), differences.createData()
    x, u = step.state.rand(), np.linspace(-1.0, 1.0, step.nu)
    for each, at in ((model, data), (differences, others)):
        each.calc(at, x, u)
        each.calcDiff(at, x, u)
    for name in ("Fx", "Fu", "Lx", "Lu"):
        expected = getattr(others, name)
        np.testing.assert_allclose(getattr(data, name), expected, atol=1e-4 * np.abs(expected).max(), err_msg=name)
    bent = start.copy()
    bent[robot.nq - 1] = 0.3
    knots = [ActionModel(step, bent, 0.1 * weights, 1e-3 * np.ones(step.nu)) for _ in range(10)]
    problem = crocoddyl.ShootingProblem(start, knots, TerminalModel(step, bent, 10.0 * weights))
    solver = crocoddyl.SolverFDDP(problem)
    idle = [np.zeros(step.nu)] * 10
    fallen = problem.rollout(idle)
    before = problem.calc(fallen, idle)
    solver.solve(fallen, idle, 30)
    assert solver.cost < 0.9 * before
    toe = [dynagate.evaluate(dynagate.trace(robot, "frame_pose_toe"), {"q": x[None, : robot.nq]}) for x in solver.xs]
    places = np.array([each["frame_position"][0] for each in toe])
    assert np.abs(places - places[0]).max() < 1e-3


ONES = (np.ones(4), np.ones(4), np.ones(2))
REFUSED: list[tuple[Any, type, str]] = [
    (lambda: StepDerivatives("hyq", 0.01, integrator="rk9"), ValueError, "integrator 'rk9'; expected one of"),
    (lambda: StepDerivatives(ARM, None), ValueError, "dt=None for a step; expected a constant time step"),  # type: ignore[arg-type]
    (lambda: StepDerivatives(ARM, 0.01, constrained=True), dynagate.RobotError, "has no contacts and no loops"),
    (
        lambda: ActionModel(StepDerivatives(ARM, 0.01), *ONES, active=[1.0]),
        ValueError,
        "active has shape (1,); expected (0,)",
    ),
    (
        lambda: casadi_function(robots.load("hyq", floating_base=True), "link_positions"),
        dynagate.RobotError,
        "robot 'hyq' has quaternions",
    ),
    (
        lambda: TerminalModel(StepDerivatives(ARM, 0.01), np.zeros(2), np.ones(4)),
        ValueError,
        "target has shape (2,); expected (4,)",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_refused_by_name(call: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()
