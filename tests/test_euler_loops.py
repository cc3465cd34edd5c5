"""Newton-Euler's bias forces over links, with damping: what the loops compute is what the traced step computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from dynagate import Rollout, robots
from dynagate.integrators.euler_loops import semi_implicit_euler
from dynagate.integrators.links import links_of


def test_loops_of_a_damped_arm_are_its_rollout() -> None:
    arm = robots.load("two_joint_arm")
    damped = [replace(x, joint=replace(x.joint, damping=0.4 + 0.3 * k)) for k, x in enumerate(arm.links)]
    arm = replace(arm, links=tuple(damped))
    q, qd = np.array([0.3, -0.8]), np.array([2.0, -3.0])
    expected = Rollout(arm, steps=20, dt=0.005, device="numpy")(q, qd, np.zeros((20, 2)))
    semi_implicit_euler(links_of(arm), q, qd, 0.005, np.empty(20))
    np.testing.assert_allclose(q, expected.q[-1], atol=1e-12)
    np.testing.assert_allclose(qd, expected.qd[-1], atol=1e-11)
