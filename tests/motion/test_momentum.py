"""Momentum and energy of bodies in free flight, by plain numpy from the states of rollouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dynagate import Robot, Rollout, difference, evaluate, integrate, robots, trace
from dynagate.integrators import Plane, Point, RigidContact
from dynagate.robot import Joint, Link

MASS = 2.0
INERTIA = ((0.02, 0.003, 0.0), (0.003, 0.03, -0.002), (0.0, -0.002, 0.04))
ROUND = ((0.004, 0.0, 0.0), (0.0, 0.004, 0.0), (0.0, 0.0, 0.004))
START = np.array([0.0, 0.0, 50.0, 0.5, 0.5, -0.5, 0.5])
ARMS = {
    "contacts": {"contacts": RigidContact((Point("body", (0.0, 0.0, 0.1)),))},
    "semi_implicit_euler": {"integrator": "semi_implicit_euler"},
    "euler": {"integrator": "euler"},
}


def body(com: tuple[float, float, float], inertia: Any = INERTIA, gravity: float = 0.0) -> Robot:
    link = Link("body", -1, Joint("free", "floating"), MASS, com, inertia)
    return Robot("body", (link,), gravity=(0.0, 0.0, -gravity))


def rotation(quaternion: np.ndarray) -> np.ndarray:
    x, y, z, w = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def kept(q: np.ndarray, v: np.ndarray, com: Any, inertia: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Linear momentum, angular momentum about the origin, center of mass and kinetic energy, in base axes."""
    turn, center = rotation(q[3:]), np.array(com)
    fast = v[:3] + np.cross(v[3:], center)
    linear, place = MASS * turn @ fast, q[:3] + turn @ center
    angular = turn @ np.array(inertia) @ v[3:] + np.cross(place, linear)
    return linear, angular, place, 0.5 * (MASS * fast @ fast + v[3:] @ np.array(inertia) @ v[3:])


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("com", [(0.0, 0.0, 0.0), (0.1, -0.05, 0.2)])
def test_momentum_in_free_flight_is_exact(name: str, com: tuple[float, float, float]) -> None:
    """A fast body in large steps. The energy of semi-implicit steps stays within the square of a turn."""
    dt, steps, v0 = 5e-3, 200, np.array([3.0, -1.0, 2.0, 5.0, 30.0, 4.0])
    motion = Rollout(body(com), steps=steps, dt=dt, device="numpy", **ARMS[name])(START, v0, np.zeros((steps, 6)))
    states = [kept(q, v, com, INERTIA) for q, v in zip(motion.q, motion.qd, strict=True)]
    linear, angular, place, energy = (np.array(each) for each in zip(*states, strict=True))
    assert motion.converged.all()
    np.testing.assert_allclose(linear, linear[:1] + 0.0 * linear, atol=1e-11)
    np.testing.assert_allclose(angular, angular[:1] + 0.0 * angular, atol=1e-10)
    times = dt * np.arange(steps + 1)[:, None]
    np.testing.assert_allclose(place, place[:1] + times * linear[:1] / MASS, atol=1e-11)
    if name != "euler":
        assert np.abs(energy / energy[0] - 1.0).max() < 1e-3


@pytest.mark.parametrize("method", ["semi_implicit_euler", "euler"])
def test_the_function_step_is_a_step_of_a_rollout(method: str) -> None:
    robot, dt, v0 = body((0.1, -0.05, 0.2), gravity=9.81), 2e-3, np.array([3.0, -1.0, 2.0, 5.0, 30.0, 4.0])
    motion = Rollout(robot, steps=1, dt=dt, device="numpy", integrator=method)(START, v0, np.ones((1, 6)))
    graph = trace(robot, "step", dt=dt, integrator=method)
    state = evaluate(graph, {"q": START[None], "qd": v0[None], "tau": np.ones((1, 6))})
    np.testing.assert_allclose(state["q_next"][0], motion.q[-1], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(state["qd_next"][0], motion.qd[-1], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("method", ["semi_implicit_euler", "euler"])
def test_derivatives_of_a_step_are_its_differences(method: str) -> None:
    robot, dt, v0 = body((0.1, -0.05, 0.2), gravity=9.81), 5e-3, np.array([3.0, -1.0, 2.0, 5.0, 30.0, 4.0])
    linear = Rollout(robot, steps=1, dt=dt, device="numpy", integrator=method, linearize=True)
    out = linear(START, v0, np.ones((1, 6)))
    assert out.a is not None
    for k, way in enumerate(1e-6 * np.eye(6)):
        for part in range(2):
            ends = []
            for sign in (1.0, -1.0):
                q0 = integrate(robot, START, sign * way) if part == 0 else START
                moved = linear(q0, v0 + sign * part * way, np.ones((1, 6)))
                ends.append(np.concatenate([difference(robot, out.q[-1], moved.q[-1]), moved.qd[-1]]))
            np.testing.assert_allclose(out.a[0, :, k + 6 * part], (ends[0] - ends[1]) / 2e-6, atol=2e-6)


def test_a_spinning_robot_with_joints_gains_no_momentum() -> None:
    """Its linear momentum is of first order in dt, and stays near the true one however long the robot spins."""
    hyq = robots.load("hyq", floating_base=True)
    graph, worst = trace(hyq, "center_of_mass_velocity"), []
    for dt in (1e-3, 5e-4):
        steps, q0, v0 = round(0.3 / dt), np.zeros(19), np.zeros(18)
        q0[6], v0[:6] = 1.0, [3.0, 0.0, 0.0, 0.0, 0.0, 20.0]
        hold = np.zeros((18, 36))
        hold[6:, 6:18], hold[6:, 24:] = -100.0 * np.eye(12), -2.0 * np.eye(12)
        run = Rollout(hyq, steps=steps, dt=dt, feedback=True)
        out = run(q0, v0, np.zeros((steps, 18)), gain=hold, q_ref=q0, qd_ref=np.zeros(18))
        speed = evaluate(graph, {"q": out.q, "qd": out.qd})["center_of_mass_velocity"]
        falls = np.arange(steps + 1) * dt * -9.81
        worst.append(np.abs(speed - speed[0] - falls[:, None] * [0.0, 0.0, 1.0]).max())
    assert worst[1] < 0.6 * worst[0] < 0.3


def test_a_rolling_ball_keeps_its_speed_and_a_box_gains_no_energy() -> None:
    ball = body((0.0, 0.0, 0.0), ROUND, 9.81)
    ground = RigidContact((Point("body", (0.0, 0.0, 0.0), 0.1),), (Plane(),), friction=0.5)
    roll = Rollout(ball, steps=500, dt=1e-3, contacts=ground)
    start = np.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])
    out = roll(start, np.array([3.0, 0.0, 0.0, 0.0, 30.0, 0.0]), np.zeros((500, 6)))
    np.testing.assert_allclose(out.q[-1, 0], 1.5, rtol=1e-2)
    np.testing.assert_allclose([np.linalg.norm(v[:3]) for v in out.qd], 3.0, rtol=1e-2)
    corner = [Point("body", (x, y, z)) for x in (-0.15, 0.15) for y in (-0.1, 0.1) for z in (-0.05, 0.05)]
    random = np.random.default_rng(3)
    q0, qd0 = np.zeros((6, 7)), random.uniform(-3.0, 3.0, (6, 6)) * [1, 1, 1, 5, 5, 5]
    q0[:, 2], q0[:, 3:] = 0.5, random.normal(size=(6, 4))
    q0[:, 3:] /= np.linalg.norm(q0[:, 3:], axis=1, keepdims=True)
    box, com = body((0.0, 0.0, 0.0), gravity=9.81), (0.0, 0.0, 0.0)
    thrown = Rollout(box, steps=600, dt=1e-3, contacts=RigidContact(corner, friction=0.5))(
        q0, qd0, np.zeros((6, 600, 6))
    )
    for q, v in zip(thrown.q, thrown.qd, strict=True):
        energy = np.array([kept(*state, com, INERTIA)[3] for state in zip(q, v, strict=True)])
        total = energy + MASS * 9.81 * q[:, 2]
        assert (total - np.minimum.accumulate(total)).max() < 1e-3 * total[0]
