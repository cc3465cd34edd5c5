"""Trajectories of a batch that begin where something is not finite: flagged, and no other is harmed."""

from __future__ import annotations

from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Robot, Rollout, robots

ARM = robots.load("two_joint_arm")


def starts(robot: Robot, batch: tuple[int, ...], steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    q = np.tile(dynagate.neutral(robot), (*batch, 1))
    return q, random.uniform(-0.5, 0.5, (*batch, robot.nv)), random.uniform(-0.5, 0.5, (*batch, steps, robot.nv))


@pytest.mark.parametrize("device", ["cpu", "numpy", "fixed"])
@pytest.mark.parametrize("linearize", [False, True])
def test_a_lost_one_is_flagged_and_harms_no_other(device: Any, linearize: bool) -> None:
    rollout = Rollout(ARM, steps=3, dt=0.01, device=device, linearize=linearize)
    q, qd, tau = starts(ARM, (2, 3), 3)
    whole = rollout(q, qd, tau)
    q[0, 2, 1], qd[1, 0, 0], tau[1, 0] = np.nan, -np.inf, np.nan
    motion = rollout(q, qd, tau)
    lost = np.array([[False, False, True], [True, False, False]])
    assert (motion.diverged == np.where(lost, 0, whole.diverged)).all()
    for name in ("q", "qd", "a", "b") if linearize else ("q", "qd"):
        assert np.isnan(getattr(motion, name)[lost]).all()
        assert np.array_equal(getattr(motion, name)[~lost], getattr(whole, name)[~lost], equal_nan=True)
    assert (rollout(q * np.nan, qd, tau).diverged == 0).all()
    after = rollout(motion.q[:, :, -1], motion.qd[:, :, -1], tau)  # on it goes, without them
    assert ((after.diverged == 0) == (lost | (motion.diverged >= 0))).all()


def test_quaternions_of_lost_ones_are_not_asked_for_their_length() -> None:
    """Of one, and of all."""
    floating = robots.load("hyq", floating_base=True)
    q, qd, tau = starts(floating, (4,), 2)
    q[2] = np.nan
    motion = Rollout(floating, steps=2, dt=0.01, device="numpy")(q, qd, tau)
    assert motion.diverged.tolist() == [-1, -1, 0, -1]
    assert Rollout(floating, steps=2, dt=0.01, device="numpy")(q * np.nan, qd, tau).diverged.tolist() == [0] * 4


def test_what_is_a_mistake_names_the_sample() -> None:
    """A single state, and torques of a sound one."""
    rollout = Rollout(ARM, steps=1, dt=0.02)
    q, qd, tau = starts(ARM, (9,), 1)
    bad = tau.copy()
    bad[5, 0, 1] = np.nan
    with pytest.raises(dynagate.Error, match=r"input 'tau' is nan at \(5, 0, 1\); expected finite numbers"):
        rollout(q, qd, bad)
    with pytest.raises(dynagate.Error, match=r"input 'tau' is nan at \(1, 2, 0, 1\); expected finite numbers"):
        rollout(q.reshape(3, 3, 2), qd.reshape(3, 3, 2), bad.reshape(3, 3, 1, 2))
    with pytest.raises(dynagate.Error, match=r"input 'qd0' is nan at \(1,\); expected finite numbers"):
        rollout(q[0], np.array([0.0, np.nan]), tau[0])
