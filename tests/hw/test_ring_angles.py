"""Angles of rollouts on chip that come back between -π and π, and those of robots whose joints mimic others."""

from __future__ import annotations

import dynagate
import numpy as np
import pytest
from dynagate import Region, Robot, Rollout
from dynagate.robot import Joint, Link, Mimic

INERTIA = ((0.02, 0.0, 0.0), (0.0, 0.02, 0.0), (0.0, 0.0, 0.02))
FAST = {"velocity": 6.0, "effort": 50.0}
ALMOST = 3.13
"""rad; a turn ends at π."""


def robot(*joints: Joint) -> Robot:
    """A body at each joint, all of them on the base, without gravity."""
    links = (Link(f"body_{k}", -1, joint, 1.0, (0.1, 0.0, 0.0), INERTIA) for k, joint in enumerate(joints))
    return Robot("bodies", tuple(links), gravity=(0.0, 0.0, 0.0))


def spin(name: str, mimic: Mimic | None = None) -> Joint:
    return Joint(name, "continuous", axis=(0.0, 0.0, 1.0), mimic=mimic, **FAST)


def slide(name: str, mimic: Mimic | None = None) -> Joint:
    return Joint(name, "prismatic", axis=(1.0, 0.0, 0.0), lower=-5.0, upper=5.0, mimic=mimic, **FAST)


def moved(moving: Robot, q: list[float], qd: list[float], device: str = "fixed") -> dynagate.Trajectories:
    """Five steps of 10 ms without torques."""
    options = {"region": Region.of(moving, velocity=6.0, acceleration=20.0)} if device == "fixed" else {}
    rollout = Rollout(moving, steps=5, dt=0.01, device=device, **options)
    return rollout(np.array(q), np.array(qd), np.zeros((5, len(q))))


@pytest.mark.parametrize("way", [1.0, -1.0])
def test_angles_come_back_at_both_ends(way: float) -> None:
    result = moved(robot(spin("a")), [way * ALMOST], [way * 3.0])
    expected = np.mod(way * (ALMOST + 0.03 * np.arange(6)) + np.pi, 2.0 * np.pi) - np.pi
    np.testing.assert_allclose(result.q[:, 0], expected, atol=1e-5)
    assert result.diverged == -1


def test_a_joint_behind_one_that_mimics_keeps_its_coordinate() -> None:
    """3.13 m and 3 m/s: the slide goes on, beyond π."""
    moving = robot(spin("a"), spin("b", Mimic("a", -1.0, 0.0)), slide("c"))
    for device in ("numpy", "fixed"):
        result = moved(moving, [0.0, ALMOST], [0.0, 3.0], device)
        np.testing.assert_allclose(result.q[:, 1], ALMOST + 0.03 * np.arange(6), atol=1e-5)


def test_the_last_joint_may_mimic() -> None:
    result = moved(robot(spin("a"), spin("b", Mimic("a", -1.0, 0.0))), [ALMOST], [3.0])
    assert result.q[-1, 0] == pytest.approx(ALMOST + 0.15 - 2.0 * np.pi, abs=1e-5)


@pytest.mark.parametrize(
    ("follower", "periodic"),
    [
        (spin("b", Mimic("a", -2.0, 0.1)), True),
        (spin("b", Mimic("a", 0.5, 0.0)), False),
        (slide("b", Mimic("a", 0.1, 0.0)), False),
        (Joint("b", "revolute", mimic=Mimic("a", 1.0, 0.0), lower=-4.0, upper=4.0, **FAST), False),
    ],
)
def test_a_turn_must_bring_back_what_mimics_the_joint(follower: Joint, periodic: bool) -> None:
    """Else the angle goes on, as in software."""
    moving = robot(spin("a"), follower)
    assert moving.is_periodic(moving.links[0].joint) == periodic
    result, exact = moved(moving, [ALMOST], [3.0]), moved(moving, [ALMOST], [3.0], "numpy")
    turned = 2.0 * np.pi * (np.arange(6) > 0) * periodic
    np.testing.assert_allclose(result.q[:, 0], exact.q[:, 0] - turned, atol=1e-4)
