"""Spherical and floating joints that turn by any angle in a step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dynagate import Region, Robot, Rollout, integrate, neutral
from dynagate.dynamics.configuration import advance

from tests.robots import floating

ANGLES = [0.0, 1e-160, 1e-9, 0.3, 0.4999, 0.5001, 1.5, 3.0, np.pi, 4.0, 2.0 * np.pi, 20.0, 4.0 * np.pi, 1e5]


def moving(robot: Robot, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """A configuration (nq,), and a velocity (nv,) whose turn in a second is this angle, rad."""
    random = np.random.default_rng(1)
    v = random.normal(size=robot.nv)
    v[3:6] *= angle / np.linalg.norm(v[3:6])
    return integrate(robot, neutral(robot), random.normal(size=robot.nv)), v


@pytest.mark.parametrize("angle", ANGLES)
def test_advance_is_integrate(angle: float, tmp_path: Path) -> None:
    robot = floating(tmp_path)
    q, v = moving(robot, angle)
    np.testing.assert_allclose(advance(robot, q.tolist(), v.tolist()).astype(float), integrate(robot, q, v), atol=2e-15)


def ball(folder: Path) -> Robot:
    """A sphere that floats."""
    path = folder / "ball.urdf"
    path.write_text(
        "<robot name='ball'><link name='ball'><inertial><mass value='1'/>"
        "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial></link></robot>"
    )
    return Robot.from_urdf(path, floating_base=True)


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_a_step_of_many_turns(integrator: str, device: str, tmp_path: Path) -> None:
    """2,000 rad/s for 10 ms are 20 rad."""
    robot = ball(tmp_path)
    qd = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 2000.0])
    rollout = Rollout(robot, steps=1, dt=0.01, integrator=integrator, device=device)
    result = rollout(neutral(robot), qd, np.zeros((1, 6)))
    np.testing.assert_allclose(result.q[-1, 3:], [0.0, 0.0, np.sin(10.0), np.cos(10.0)], atol=1e-14)
    assert result.diverged == -1


def test_integers_of_turns_to_both_sides_of_the_choice(tmp_path: Path) -> None:
    robot = ball(tmp_path)
    region = Region.of(robot, velocity=4.0)
    q, qd, tau = (x[:100] for x in region.sample("forward_dynamics", 100, 3).values())
    turns = 0.2 * np.linalg.norm(qd[:, 3:], axis=1)
    assert turns.min() < 0.3
    assert turns.max() > 1.0
    exact, chip = (
        Rollout(robot, steps=1, dt=0.2, integrator="euler", device=device, **options)(q, qd, tau[:, None])
        for device, options in (("numpy", {}), ("fixed", {"region": region}))
    )
    sound = chip.diverged < 0
    assert sound.sum() > 90
    np.testing.assert_allclose(chip.q[sound], exact.q[sound], atol=1e-5)


@pytest.mark.parametrize("speed", [20.0, 80.0, 700.0])
def test_derivatives_of_a_step_at_any_turn(speed: float, tmp_path: Path) -> None:
    """a of a rollout against differences along velocities, with turns of 0.2, 0.8 and 7 rad."""
    robot = floating(tmp_path)
    q, v = moving(robot, speed)
    v[6:] *= 0.1
    rollout = Rollout(robot, steps=1, dt=0.01, integrator="euler", linearize=True, device="numpy")
    tau, small = np.zeros((1, robot.nv)), 1e-6
    a = rollout(q, v, tau).a[0]
    for k in range(3, 6):
        bump = small * np.eye(robot.nv)[k]
        ends = [rollout(q, v + sign * bump, tau).q[-1] for sign in (-1.0, 1.0)]
        along = integrate(robot, rollout(q, v, tau).q[-1], a[: robot.nv, robot.nv + k] * small)
        np.testing.assert_allclose(
            (ends[1] - ends[0]) / (2.0 * small), (along - rollout(q, v, tau).q[-1]) / small, atol=1e-7
        )
