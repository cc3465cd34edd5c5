"""Rollouts in closed loop: torques of the state at each step's begin, beside the rollout that is given them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Robot, Rollout, difference, integrate, neutral, robots
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.dynamics.configuration import between
from dynagate.forces import Servo
from dynagate.integrators.implicit.variational_method import VariationalIntegrator
from dynagate.robot import Joint, Link

from tests.played_card import play_card

STEPS = 6


def drone() -> Robot:
    """A body that floats with a ball joint on it."""
    inertia = ((0.06, 0.002, 0.001), (0.002, 0.05, -0.003), (0.001, -0.003, 0.04))
    links = (
        Link("trunk", -1, Joint("free", "floating"), 1.5, (0.0, 0.1, 0.0), inertia),
        Link("arm", 0, Joint("ball", "spherical", translation=(0.1, 0.0, -0.2)), 0.5, (0.0, 0.1, -0.2), inertia),
    )
    return Robot("drone", links)


def drawn(robot: Robot, batch: int = 3) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """A call's q0, qd0 and tau, and its gains and references."""
    random = np.random.default_rng(0)
    n = robot.nv
    q0 = integrate(robot, neutral(robot), 0.8 * random.normal(size=(batch, n)))
    q_ref = integrate(robot, neutral(robot), 0.8 * random.normal(size=(STEPS, n)))
    gain = 0.5 * random.normal(size=(batch, STEPS, n, 2 * n))
    call = [q0, 0.3 * random.normal(size=(batch, n)), random.normal(size=(batch, STEPS, n))]
    return call, {"gain": gain, "q_ref": q_ref, "qd_ref": 0.1 * random.normal(size=n)}


@pytest.mark.parametrize(
    ("method", "device"),
    [("rk2", "numpy"), ("variational", "numpy"), ("variational", "cpu"), ("position_based", "cpu"), ("rk2", "cuda")],
)
def test_torques_follow_states(method: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_card(monkeypatch, tmp_path)
    turning = method != "position_based" and device == "numpy"
    robot = drone() if turning else robots.load("two_joint_arm")
    call, closed = drawn(robot)
    forces = [Servo(2.0, 0.1, target=(0.1,) * robot.nv)]
    options: dict[str, Any] = {"steps": STEPS, "dt": 0.01, "integrator": method, "forces": forces}
    got = Rollout(robot, **options, device=device, feedback=True)(*call, **closed)
    away = [difference(robot, closed["q_ref"], got.q[:, :-1]), got.qd[:, :-1] - closed["qd_ref"]]
    expected = call[2] + np.einsum("bkij,bkj->bki", closed["gain"], np.concatenate(away, axis=-1))
    np.testing.assert_allclose(got.tau, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    opened = Rollout(robot, **options, device="numpy")(call[0], call[1], got.tau)
    np.testing.assert_allclose(got.q, opened.q, rtol=0, atol=1e-11)
    assert opened.tau is None


def test_differences_over_any_scalar_are_those_of_numpy() -> None:
    robot, random = drone(), np.random.default_rng(1)
    for size in (1e-9, 1e-3, 0.3, 1.0, 3.1):
        q = integrate(robot, neutral(robot), random.normal(size=robot.nv))
        v = random.normal(size=robot.nv)
        for part in (slice(3, 6), slice(6, 9)):
            v[part] *= size / np.linalg.norm(v[part])
        after = integrate(robot, q, v)
        after[-4:] *= -1.0  # the same turn
        got = np.array(between(robot, q.tolist(), after.tolist()), dtype=float)
        np.testing.assert_allclose(got, v, rtol=0, atol=1e-14)


def test_torques_stay_within_the_largest_and_steps_are_linear() -> None:
    robot = robots.load("two_joint_arm")
    call, closed = drawn(robot)
    closed["gain"] = 30.0 * closed["gain"]
    bounded = Rollout(robot, steps=STEPS, dt=0.01, feedback=[3.0, 2.0], linearize=True)
    got = bounded(*call, **closed)
    assert np.abs(got.tau).max(axis=(0, 1)).tolist() == [3.0, 2.0]
    expected = Rollout(robot, steps=STEPS, dt=0.01, linearize=True)(call[0], call[1], got.tau)
    np.testing.assert_allclose(got.a, expected.a, atol=1e-12)
    np.testing.assert_allclose(got.b, expected.b, atol=1e-12)
    again = bounded.bind(*call, **closed)
    assert (again().tau == got.tau).all()


@pytest.mark.parametrize("method", ["semi_implicit_euler", VariationalIntegrator(tolerance=1e-12)])
def test_gradients_of_torques_in_closed_loop(method: Any) -> None:
    """By the start, torques, gains and references, of a motion whose torques meet their bounds."""
    robot, h = drone() if method == "semi_implicit_euler" else robots.load("two_joint_arm"), 1e-4
    call, closed = drawn(robot)
    rollout = Rollout(robot, steps=STEPS, dt=0.01, feedback=[1.5] * robot.nv, device="numpy", integrator=method)
    closed["qd_ref"] = np.broadcast_to(closed["qd_ref"], (STEPS, robot.nv))
    motion, random = rollout(*call, **closed), np.random.default_rng(2)
    assert 0.02 < (np.abs(motion.tau) == 1.5).mean() < 0.9
    cost = random.normal(size=(2, 3, STEPS + 1, robot.nv))
    gradient = rollout.vjp(motion, call[2], *cost, **closed)
    assert gradient.keys() == {"q0", "qd0", "tau", "gain", "q_ref", "qd_ref"}
    given = {**dict(zip(("q0", "qd0", "tau"), call, strict=True)), **closed}
    for name, value in gradient.items():
        along = random.normal(size=value.shape[-given[name].ndim :])
        along = along if name in ("q0", "qd0", "tau", "gain") else along[..., : robot.nv]

        def costs(size: float, name: str = name, along: np.ndarray = along) -> np.ndarray:
            start = given[name]
            moved = integrate(robot, start, size * along) if name in ("q0", "q_ref") else start + size * along
            got = rollout(**{**given, name: moved})
            return (cost[0] * difference(robot, motion.q, got.q) + cost[1] * (got.qd - motion.qd)).sum(axis=(1, 2))

        slope = (8.0 * (costs(h) - costs(-h)) - (costs(2 * h) - costs(-2 * h))) / (12.0 * h)
        got = (value * along).reshape(3, -1).sum(axis=1)
        np.testing.assert_allclose(got, slope, rtol=1e-6, atol=1e-7, err_msg=name)


def test_largest_torques_may_be_arrays() -> None:
    robot = robots.load("two_joint_arm")
    call, closed = drawn(robot)
    options: dict[str, Any] = {"steps": STEPS, "dt": 0.01, "device": "numpy"}
    most = np.array([0.5, 0.25])
    bounded = Rollout(robot, feedback=most, **options)
    most[:] = 9.0
    expected = Rollout(robot, feedback=[0.5, 0.25], **options)(*call, **closed)
    np.testing.assert_array_equal(bounded(*call, **closed).tau, expected.tau)
    assert np.abs(expected.tau).max(axis=(0, 1)).tolist() == [0.5, 0.25]
    for one in (np.array(0.5), np.float32(0.5)):
        Rollout(robot, feedback=one, **options)
    for wrong in (np.ones(3), np.ones((2, 1)), np.array([1.0, np.nan]), np.array([True, False]), np.zeros(2)):
        with pytest.raises(ArgumentError, match="feedback="):
            Rollout(robot, feedback=wrong, **options)


def test_what_feedback_refuses() -> None:
    robot = robots.load("two_joint_arm")
    call, closed = drawn(robot)
    for options, message in (
        ({"feedback": 0.0}, "feedback=0.0; expected True, or the largest torques, above 0"),
        ({"feedback": (1.0, 2.0, 3.0)}, r"feedback=\(1.0, 2.0, 3.0\) has 3 numbers; expected one, or 2"),
        ({"feedback": True, "every": 3}, "feedback with every=3; expected every=1: torques are those of every step"),
        ({"feedback": True, "device": "fixed"}, "device 'fixed' takes no feedback=; expected 'cpu', 'cuda' or 'numpy'"),
    ):
        with pytest.raises(ArgumentError, match=message):
            Rollout(robot, **{"steps": STEPS, "dt": 0.01, "device": "numpy", **options})  # type: ignore[arg-type]
    rollout = Rollout(robot, steps=STEPS, dt=0.01, feedback=True, device="numpy")
    with pytest.raises(ArgumentError, match="a call without gain; a rollout with feedback expects gain, q_ref, qd_ref"):
        rollout(*call)
    with pytest.raises(ArgumentError, match=r"gain has shape \(2, 2\); expected \(3, 6, 2, 4\)"):
        rollout(*call, **{**closed, "gain": np.eye(2)})
    with pytest.raises(ArgumentError, match="input 'gain' is no force's"):
        Rollout(robot, steps=STEPS, dt=0.01, device="numpy")(*call, **closed)


def test_options_are_checked() -> None:
    for options, error, message in (
        ({"steps": 3}, ArgumentTypeError, r"Rollout\(\) without dt; expected robot, steps, dt"),
        (
            {"steps": 3, "dt": 0.1, "method": "rk4"},
            ArgumentTypeError,
            r"keyword argument 'method' \(write integrator\)",
        ),
        ({"steps": 3, "dt": 0.1, "integrater": "rk4"}, ArgumentTypeError, r"'integrater' \(did you mean 'integrator'"),
        ({"steps": 0, "dt": 0.1}, ArgumentError, "steps=0; expected a whole number of 1 or more"),
        (
            {"steps": 3, "dt": 0.1, "device": "sim"},
            ArgumentError,
            r"write dynagate.open\(dynagate.build\(robot, 'rollout'",
        ),
    ):
        with pytest.raises(error, match=message):
            Rollout("two_joint_arm", **options)  # type: ignore[arg-type]
