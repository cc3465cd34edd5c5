"""Position-based rollouts on spherical and floating joints, and of order 3: their steps against derivatives of the
discrete energy, in numpy alone, and their order beside an explicit method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dynagate import Robot, Rollout, robots
from dynagate.base.errors import ArgumentError
from dynagate.dynamics.configuration import difference, integrate, neutral
from dynagate.forces import Damping, Drag, Force, Friction, Servo
from dynagate.integrators.implicit.position_based_method import PositionBasedIntegrator
from dynagate.robot import Joint
from scipy.spatial.transform import Rotation

from examples.papers.position_based.integrator import PositionBased
from tests.jointed_bodies import body, forces_on, pendulum, start, tumbler, with_joint

TIGHT = {"tolerance": 1e-11}


def poses(robot: Robot, q: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """R and p of every link, by scipy's rotations."""
    result: list[tuple[np.ndarray, np.ndarray]] = []
    for link, part, _ in robot.slices():
        joint, own = link.joint, q[part]
        turn, slide = np.eye(3), np.zeros(3)
        if joint.type in ("spherical", "floating"):
            turn, slide = Rotation.from_quat(own[-4:]).as_matrix(), own[:-4] if len(own) == 7 else slide
        elif joint.type == "prismatic":
            slide = own[0] * np.array(joint.axis)
        elif joint.type in ("revolute", "continuous"):
            turn = Rotation.from_rotvec(own[0] * np.array(joint.axis)).as_matrix()
        r, p = result[link.parent] if link.parent >= 0 else (np.eye(3), np.zeros(3))
        fixed = r @ np.array(joint.rotation)
        result.append((fixed @ turn, p + r @ np.array(joint.translation) + fixed @ slide))
    return result


def energy(robot: Robot, before: np.ndarray, here: np.ndarray, after: np.ndarray, dt: float) -> float:
    """Equation 5: ∫ |P(after) - 2 P(here) + P(before)|² dm / 2dt², less the work of gravity."""
    total = 0.0
    each = zip(robot.links, *(poses(robot, q) for q in (before, here, after)), strict=True)
    for link, (r0, p0), (r1, p1), (r2, p2) in each:
        turn, shift = r2 - 2.0 * r1 + r0, p2 - 2.0 * p1 + p0
        second, first = np.array(link.second_moment()), link.mass * np.array(link.com)
        square = np.trace(turn @ second @ turn.T) + 2.0 * shift @ turn @ first + link.mass * shift @ shift
        total += 0.5 * square / dt**2 - np.array(robot.gravity) @ (link.mass * p2 + r2 @ first)
    return total


def forces_left(robot: Robot, q: np.ndarray, dt: float) -> tuple[np.ndarray, float]:
    """The slope of the energy at the last of three configurations along each velocity, and the largest of its terms."""
    h, left, size = 1e-4, np.zeros(robot.nv), 0.0
    for d, unit in enumerate(np.eye(robot.nv)):
        values = [energy(robot, q[0], q[1], integrate(robot, q[2], s * h * unit), dt) for s in (-2, -1, 1, 2)]
        left[d] = (8.0 * (values[2] - values[1]) - (values[3] - values[0])) / (12.0 * h)
        size = max(size, abs(energy(robot, q[0], q[0], integrate(robot, q[2], h * unit), dt) - values[2]) / h)
    return left, size


def check_steps(robot: Robot, dt: float, seed: int = 0) -> None:
    """A short motion under constant torques is that of the discrete energy."""
    random = np.random.default_rng(seed)
    q0 = integrate(robot, neutral(robot), 0.5 * random.normal(size=robot.nv))
    qd0, tau = random.normal(size=robot.nv), random.normal(size=robot.nv)
    rollout = Rollout(robot, steps=3, dt=dt, integrator=PositionBasedIntegrator(**TIGHT), device="numpy")
    got = rollout(q0, qd0, np.tile(tau, (3, 1)))
    assert got.converged.all()
    left, size = forces_left(robot, got.q[1:], dt)
    damping = np.concatenate([[link.joint.damping] * link.joint.nv for link in robot.links])
    np.testing.assert_allclose(left, tau - damping * got.qd[-1], atol=1e-10 * size)
    assert np.abs(left).max() > 1e-8 * size
    np.testing.assert_allclose(difference(robot, got.q[-2], got.q[-1]), dt * got.qd[-1], atol=1e-13)


def test_steps_are_those_of_the_energy() -> None:
    check_steps(pendulum(), 0.02)


@pytest.mark.long
def test_steps_of_bodies_that_float_are_those_of_the_energy() -> None:
    check_steps(tumbler(satellite=True), 0.02)


def motion(robot: Robot, order: int, steps: int, forces: list[Force], device: str) -> Any:
    """After 0.2 s; of order 0 by rk4."""
    q0, qd0 = start(robot)
    method = PositionBasedIntegrator(order=order) if order else "rk4"
    rollout = Rollout(robot, steps=steps, dt=0.2 / steps, integrator=method, forces=forces, every=steps, device=device)
    got = rollout(q0, qd0, np.full((steps, robot.nv), 0.3))
    assert got.converged.all()
    return got


def orders(robot: Robot, order: int, steps: int, forces: list[Force], device: str) -> list[float]:
    """Of the configuration and the velocity after 0.2 s, as the step is halved."""
    exact, errors = motion(robot, 0, 400, forces, "cpu"), []
    for count in (steps, 2 * steps):
        got = motion(robot, order, count, forces, device)
        errors.append([np.abs(difference(robot, got.q[-1], exact.q[-1])).max(), np.abs(got.qd - exact.qd)[-1].max()])
    assert errors[0][0] < 0.05
    return np.log2(np.array(errors[0]) / errors[1]).tolist()


@pytest.mark.long
@pytest.mark.parametrize("order", [2, 3])
def test_order_on_a_ball_under_forces(order: int) -> None:
    """With a rotor and a damper at the ball. Halved again, the step shows 1.89 and 1.96, then 1.95 and 1.98."""
    robot = pendulum(0.02)
    forces = [Friction(0.2, 0.5), Servo(20.0, 0.5, joints=("to_lower",), target=(0.2,) * 4), Drag((30.0, 50.0))]
    of_q, of_qd = orders(robot, order, 10, forces, "numpy")
    assert of_q == pytest.approx(order - 1, abs=0.3)
    assert of_qd == pytest.approx(order - 1, abs=0.35)


@pytest.mark.long
@pytest.mark.parametrize("order", [2, 3])
def test_order_on_bodies_that_float(order: int) -> None:
    of_q, of_qd = orders(tumbler(), order, 40, forces_on(tumbler()), "cpu")
    assert of_qd == pytest.approx(order - 1, abs=0.2)
    assert of_q > order - 1.2


@pytest.mark.long
def test_large_steps_of_bodies_that_float_converge() -> None:
    robot = tumbler()
    q0, qd0 = start(robot)
    speeds = np.array([0.5, 1.0, 2.0, 4.0])[:, None] * qd0
    got = Rollout(robot, steps=100, dt=0.1, integrator="position_based")([q0] * 4, speeds, np.zeros((4, 100, robot.nv)))
    assert got.converged.all()


@pytest.mark.long
@pytest.mark.parametrize("name", ["arm", "pendulum"])
def test_equal_to_the_paper_s_loops(name: str) -> None:
    """Order 3 of joints with one number, order 2 of a ball, without forces, which the loops of order 3 refuse."""
    robot = robots.load("two_joint_arm") if name == "arm" else _free(pendulum())
    order = 3 if name == "arm" else 2
    q0, qd0 = start(robot)
    tau = np.full((8, robot.nv), 0.1 if name == "arm" else 0.0)
    expected = PositionBased(robot, 0.004, order=order, tolerance=1e-10).run(q0, qd0, 8, tau=tau)
    method = PositionBasedIntegrator(order=order, tolerance=1e-10)
    got = Rollout(robot, steps=8, dt=0.004, integrator=method, device="numpy")(q0, qd0, tau)
    np.testing.assert_allclose(got.q, expected.q, atol=1e-11)


def _free(robot: Robot) -> Robot:
    """Without its damper."""
    first, *others = robot.links
    return Robot(robot.name, (with_joint(first, Joint("to_upper", "spherical", axis=(0.0, 0.0, 1.0))), *others))


def test_what_order_3_refuses() -> None:
    with pytest.raises(ArgumentError, match=r"order 4; expected 2 or 3 \(higher ones are unstable\)"):
        PositionBasedIntegrator(order=4)
    with pytest.raises(ArgumentError, match="search 'lm' at order 3, which has no energy; expected None"):
        PositionBasedIntegrator(order=3, search="lm")
    joint = Joint("free", "floating", axis=(0.0, 0.0, 1.0), armature=0.1)
    rotor = Robot("rotor", (with_joint(body("trunk", -1, "floating"), joint),))
    with pytest.raises(ArgumentError, match=r"joint 'free' of robot 'rotor' is floating and has armature 0.1; positio"):
        Rollout(rotor, steps=1, dt=0.01, integrator=PositionBasedIntegrator(order=3))


def test_damping_of_a_ball_takes_energy() -> None:
    """Equal to a force of the same number."""
    still = _free(pendulum())
    ends = [
        motion(robot, 2, 10, forces, "numpy")
        for robot, forces in ((pendulum(), []), (still, [Damping([0.2] * 3 + [0.0])]))
    ]
    np.testing.assert_allclose(ends[0].q, ends[1].q, atol=1e-9)
