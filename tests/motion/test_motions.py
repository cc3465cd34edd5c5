"""Methods of rollouts behind one face: explicit, variational and position-based, under any forces, on every device."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Robot, RobotWarning, Rollout, Trajectories, robots
from dynagate.base.errors import ArgumentError
from dynagate.forces import (
    CompliantContact,
    Contact,
    Damping,
    Drag,
    Force,
    Friction,
    Limits,
    Plane,
    Point,
    Servo,
    Stops,
)
from dynagate.integrators.implicit.position_based_method import PositionBasedIntegrator
from dynagate.integrators.implicit.variational_method import VariationalIntegrator
from dynagate.integrators.limits import SELDOM
from dynagate.integrators.methods import METHODS
from dynagate.integrators.motion import Integrator

from examples.papers.position_based.integrator import PositionBased
from examples.papers.variational.integrator import Variational
from tests.played_card import play_card

STEPS = 12


@pytest.fixture(scope="module")
def arm() -> Robot:
    return robots.load("two_joint_arm")


def start(robot: Robot, batch: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    q0, qd0 = 0.3 * random.normal(size=(2, batch, robot.nv))
    return q0, qd0, 0.1 * random.normal(size=(batch, STEPS, robot.nv))


def forces_on(robot: Robot) -> list[Force]:
    return [
        Limits(50.0),
        Friction(0.3, 0.05),
        Drag((3.0, 5.0)),
        Servo(3.0, 1.0),
        CompliantContact([Point(robot.links[-1].name, (0.0, 0.0, 0.3))], [Plane((0.0, 0.0, 1.0), 0.1)], 50.0),
        Damping(0.2),
    ]


@pytest.mark.long
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_variational_rollouts_are_the_integrators(device: str, arm: Robot) -> None:
    q0, qd0, tau = start(arm)
    expected = Variational(arm, dt=0.005).run(q0, qd0, STEPS, tau=tau.swapaxes(0, 1))
    got = Rollout(arm, steps=STEPS, dt=0.005, integrator="variational", device=device)(q0, qd0, tau)
    np.testing.assert_allclose(got.q, expected.q, atol=1e-13)
    np.testing.assert_allclose(got.qd[:, 1:], expected.qd, atol=1e-12)
    assert (got.qd[:, 0] == qd0).all()
    assert got.converged.all()
    assert got.converged.shape == (3, STEPS)
    assert (got.iterations == expected.iterations).all()
    np.testing.assert_allclose(got.residual, expected.residuals / 1e-8, atol=1e-3)
    few = Rollout(arm, steps=STEPS, dt=0.005, integrator="variational", device=device, every=4)(q0, qd0, tau)
    assert (few.q == got.q[:, ::4]).all()
    assert few.converged.shape == (3, 3)


@pytest.mark.long
@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("kind", ["free", "servo", "contact"])
def test_position_based_rollouts_are_the_integrators(kind: str, device: str, arm: Robot) -> None:
    robot = arm
    servo = Servo(3.0, 1.0) if kind == "servo" else None
    foot = [Point(robot.links[-1].name, (0.0, 0.0, 0.3))]
    contact = Contact(foot, [Plane((0.0, 0.0, 1.0), 0.6)], 1e3, 1e3) if kind == "contact" else None
    q0, qd0, tau = start(robot)
    target = {"target": np.linspace(-0.2, 0.2, robot.nv)} if servo else {}
    one = PositionBased(robot, dt=0.02, servo=servo, contact=contact)
    expected = one.run(q0, qd0, STEPS, tau=tau, **target)
    forces = [force for force in (servo, contact) if force]
    rollout = Rollout(robot, steps=STEPS, dt=0.02, integrator="position_based", device=device, forces=forces)
    got = rollout(q0, qd0, tau, **target)
    np.testing.assert_allclose(got.q, expected.q, atol=1e-11)
    np.testing.assert_allclose(got.qd[:, 1:], np.diff(got.q, axis=1) / 0.02, atol=1e-10)
    assert got.converged.all() == expected.converged.all()


@pytest.mark.parametrize(
    ("method", "order"),
    [
        ("variational", 2),
        pytest.param("position_based", 1, marks=pytest.mark.long),
        (PositionBasedIntegrator(order=3), 1.63),
    ],
)
def test_methods_agree_under_all_forces_as_steps_shrink(method: str | Integrator, order: float, arm: Robot) -> None:
    """Friction and contact have kinks, by which order 3 tends to 2 from below."""
    q0, qd0, _ = start(arm)
    errors = []
    for steps in (25, 50):
        fine = Rollout(arm, steps=8 * steps, dt=0.025 / steps, integrator="rk4", forces=forces_on(arm), every=8 * steps)
        exact = fine(q0, qd0, np.zeros((3, 8 * steps, 2)), target=np.zeros(2)).q[:, -1]
        rollout = Rollout(arm, steps=steps, dt=0.2 / steps, integrator=method, forces=forces_on(arm))
        got = rollout(q0, qd0, np.zeros((3, steps, 2)), target=np.zeros(2))
        assert got.converged.all()
        errors.append(np.abs(got.q[:, -1] - exact).max())
    assert errors[0] < 2e-3
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)


def test_the_whole_hessian_solves_large_steps() -> None:
    """`lm` alone leaves some, and takes many iterations; both find the same motion where both converge."""
    robot, steps = robots.load("two_joint_arm"), 40
    random = np.random.default_rng(0)
    q0, qd0 = random.uniform(-1.0, 1.0, (64, 2)), random.normal(size=(64, 2))

    def rolled(dt: float, device: str = "cpu", **options: Any) -> Trajectories:
        method = PositionBasedIntegrator(**options)
        return Rollout(robot, steps=steps, dt=dt, integrator=method, device=device)(q0, qd0, np.zeros((64, steps, 2)))

    assert rolled(0.1).converged.all()
    assert not rolled(0.1, search="lm").converged.all()
    assert not rolled(0.1, search="lm", iterations=8).converged.mean() > 0.9
    assert rolled(0.1, iterations=8).converged.mean() > 0.99
    few = rolled(0.02, "numpy", search="lm-full", tolerance=1e-10)
    np.testing.assert_allclose(few.q, rolled(0.02, tolerance=1e-10).q, atol=1e-8)


@pytest.mark.parametrize("method", ["rk2", "variational", "position_based"])
def test_on_a_card(method: str, arm: Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_card(monkeypatch, tmp_path)
    q0, qd0, tau = start(arm)
    forces = [Servo(3.0, 1.0), Friction(0.3, 0.05)]
    both = [
        Rollout(arm, steps=STEPS, dt=0.005, integrator=method, forces=forces, device=device)(q0, qd0, tau, target=q0[0])
        for device in ("cuda", "numpy")
    ]
    np.testing.assert_allclose(both[0].q, both[1].q, atol=1e-11)
    assert (both[0].converged == both[1].converged).all()


def test_a_step_that_does_not_converge_is_told(arm: Robot) -> None:
    q0, qd0, tau = start(arm)
    qd0[1] = 400.0  # rad/s: beyond what a step turns
    got = Rollout(arm, steps=STEPS, dt=0.01, integrator="variational")(q0, qd0, tau)
    assert got.converged.any(axis=1).tolist() == got.converged.all(axis=1).tolist() == [True, False, True]
    assert np.isnan(got.q[1]).all(axis=1).tolist() == [False, *[True] * STEPS]
    assert got.diverged.tolist() == [-1, 1, -1]
    stuck = Rollout(arm, steps=STEPS, dt=0.1, integrator=PositionBasedIntegrator(iterations=1))(q0, qd0, tau)
    assert not stuck.converged.all()
    assert np.isfinite(stuck.q).all()
    assert "steps not converged" in repr(stuck)


def test_limits_as_a_force_hold_in_every_method(arm: Robot) -> None:
    high = arm.reach(arm.links[0].joint)[1]
    assert high is not None
    q0, qd0, tau = np.array([high - 0.01, 0.0]), np.array([1.0, 0.0]), np.zeros((200, 2))
    for method in ("semi_implicit_euler", "rk4", "variational", "position_based"):
        held = Rollout(arm, steps=200, dt=1e-3, integrator=method, forces=[Limits(1e4)])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            over = held(q0, qd0, tau).q[:, 0].max() - high
        assert 0.0 < over < 0.01, method


@pytest.mark.parametrize("method", ["semi_implicit_euler", "variational", "position_based"])
def test_limits_that_nothing_holds_are_said_once(method: str, arm: Robot) -> None:
    high = arm.reach(arm.links[0].joint)[1]
    assert high is not None
    rollout = Rollout(arm, steps=40, dt=1e-3, integrator=method)
    past = np.array([high - 0.01, 0.0]), np.array([1.0, 0.0]), np.zeros((40, 2))
    stops = r"forces=\[Stops\(\)\] or " if method == "semi_implicit_euler" else ""  # the others refuse them
    with pytest.warns(RobotWarning, match=rf"passes its limits.* keep; {stops}forces=\[Limits\(stiffness\)\] does"):
        rollout(*past)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rollout(*past)


@pytest.mark.parametrize("device", ["cpu", "numpy"])
def test_torques_beyond_efforts_are_said_once(device: str, arm: Robot) -> None:
    """And a motion that passes its limits only in a later call, among many small ones."""
    rollout = Rollout(arm, steps=4, dt=1e-3, device=device)
    most = np.tile(arm.effort, (4, 1))

    def often(tau: np.ndarray, q: float = 0.0) -> None:
        for _ in range(SELDOM + 1):
            rollout([q, 0.0], [1.0, 0.0], tau)

    high = arm.upper[0] - 0.001
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        often(0.999 * most)
    with pytest.warns(
        RobotWarning, match=r"joint 'shoulder' and 1 more of robot 'two_joint_arm' is given more than its"
    ):
        often(1.001 * most)
    with pytest.warns(RobotWarning, match="joint 'shoulder' of robot 'two_joint_arm' passes its limits"):
        often(most, high)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        often(1.001 * most, high)


def test_open_gives_any_method(arm: Robot) -> None:
    q0, qd0, tau = start(arm)
    for method in METHODS:
        opened = dynagate.Rollout(arm, integrator=method, steps=STEPS, dt=0.005, forces=[Damping(0.1)], device="numpy")
        assert opened(q0, qd0, tau).converged.all(), method


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"integrator": "rk5"},
            ArgumentError,
            r"integrator 'rk5'.*; expected one of euler, .*variational, position_based",
        ),
        (
            {"integrator": "variational", "forces": [Stops()]},
            ArgumentError,
            r"integrator 'variational' takes no forces.Stops; expected forces=\[dynagate.forces.Limits\(stiffness\)\]",
        ),
        (
            {"integrator": dynagate.PositionBasedIntegrator(order=3), "linearize": True},
            ArgumentError,
            "linearize of steps that begin with 'away' of the step before; expected steps that begin with q and",
        ),
        ({"integrator": "variational", "dt": None}, ArgumentError, "takes no dt=None; expected a constant time step"),
        (
            {"integrator": "variational", "dtype": "float32"},
            ArgumentError,
            "dtype float32 with integrator 'variational'; expected float64 to solve in",
        ),
        (
            {"integrator": "variational", "device": "fixed"},
            ArgumentError,
            "device 'fixed' takes no integrator 'variational': it solves equations; expected one of euler",
        ),
    ],
)
def test_what_methods_refuse(options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Rollout("two_joint_arm", **{"steps": 2, "dt": 0.01, **options})


def test_what_methods_refuse_of_robots_and_numbers(arm: Robot) -> None:
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: VariationalIntegrator(guess=5), "guess 5; expected 1, 2, 3 or 4"),
        (lambda: VariationalIntegrator(iterations=0), "iterations=0; expected a whole number of 1 or more"),
        (
            lambda: VariationalIntegrator(tolerance=0.0),
            "integrator 'variational' has tolerance 0.0; expected a finite",
        ),
        (
            lambda: PositionBasedIntegrator(tolerance=-1.0),
            "'position_based' has tolerance -1.0; expected a finite",
        ),
        (lambda: PositionBasedIntegrator(search="lbfgs"), "search 'lbfgs'; expected one of lm, lm-full, or None"),  # type: ignore[arg-type]
        (lambda: PositionBasedIntegrator(iterations=0), "iterations is 0; expected a whole number, 1 or more"),
    ]
    for make, message in cases:
        with pytest.raises(ValueError, match=message):
            make()
