"""MuJoCo as a second opinion of rollouts: same robot, same steps, no contacts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dynagate import Rollout, robots
from dynagate.base.errors import Error
from dynagate.bench.mujoco_peer import MujocoRollout, model_text

from tests.small_loops import states_of


@pytest.mark.parametrize("name", ["two_joint_arm", "iiwa14"])
def test_steps_are_mujocos(name: str) -> None:
    robot = robots.load(name)
    inputs = states_of(robot, 5, 20)
    ours = Rollout(robot, steps=20, dt=0.01, device="numpy")(*inputs)
    q, qd = MujocoRollout(robot, 0.01)(*inputs)
    np.testing.assert_allclose(ours.q[:, 1:], q, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(ours.qd[:, 1:], qd, rtol=0.0, atol=1e-11)


def test_a_joint_that_its_model_does_not_take() -> None:
    with pytest.raises(ValueError, match=r"joint '.*' is floating; expected one of revolute, continuous, prismatic"):
        model_text(robots.load("hyq", floating_base=True), 0.01)


def test_inertia_that_it_refuses() -> None:
    arm = robots.load("two_joint_arm")
    link = replace(arm.links[1], inertia=((1e-3, 0.0, 0.0), (0.0, 1e-3, 0.0), (0.0, 0.0, -1e-3)))
    wrong = replace(arm, links=(arm.links[0], link))
    with pytest.raises(Error, match="MuJoCo does not take the robot 'two_joint_arm': .*inertia"):
        MujocoRollout(wrong, 0.01)
