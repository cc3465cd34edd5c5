"""MuJoCo as a second opinion of rollouts: same robot, same steps, no contacts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dynagate import Rollout, neutral, robots
from dynagate.base.errors import Error
from dynagate.bench.mujoco_peer import MujocoRollout, model_text
from dynagate.forces import GroundSphere
from dynagate.integrators import JointPD, Point, RigidContact

from tests.jointed_bodies import pendulum
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
    with pytest.raises(ValueError, match=r"joint '.*' is spherical; expected one of revolute, continuous, prismatic"):
        model_text(pendulum(), 0.01)
    ground = RigidContact([Point("trunk", (0.0, 0.0, 0.0))], (GroundSphere((0.0, 0.0, -1.0), 1.0),))
    with pytest.raises(ValueError, match=r"GroundSphere.* in MuJoCo; expected a Plane"):
        model_text(robots.load("hyq", floating_base=True), 0.01, contacts=ground)


def test_a_floating_base_with_position_gains() -> None:
    """The first step from rest. The linear velocity of the base is in the axes of the world there."""
    hyq = robots.load("hyq", floating_base=True)
    q, qd = neutral(hyq)[None], np.zeros((1, hyq.nv))
    target = np.random.default_rng(0).uniform(-1.5, 1.5, (1, 1, 12))
    gains = np.linspace(50.0, 200.0, 12), np.linspace(1.0, 3.0, 12)
    inputs = {"joint_target": target, "joint_stiffness": gains[0], "joint_damping": gains[1]}
    law = JointPD(tuple(hyq.effort.tolist()))
    ours = Rollout(hyq, steps=1, dt=1e-3, feedback=law)(q, qd, np.zeros((1, 1, hyq.nv)), **inputs)
    there, rates = MujocoRollout(hyq, 1e-3, gains=gains)(q, qd, target)
    np.testing.assert_allclose(ours.q[:, 1:], there, atol=1e-9)
    np.testing.assert_allclose(ours.qd[:, 1:, 3:], rates[..., 3:], rtol=1e-9, atol=1e-9)


def test_inertia_that_it_refuses() -> None:
    arm = robots.load("two_joint_arm")
    link = replace(arm.links[1], inertia=((1e-3, 0.0, 0.0), (0.0, 1e-3, 0.0), (0.0, 0.0, -1e-3)))
    wrong = replace(arm, links=(arm.links[0], link))
    with pytest.raises(Error, match="MuJoCo does not take the robot 'two_joint_arm': .*inertia"):
        MujocoRollout(wrong, 0.01)
