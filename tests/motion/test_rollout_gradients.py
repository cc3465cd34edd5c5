"""The reverse sweep of rollouts against the complex step through all their steps, on robots of other people."""

from __future__ import annotations

import pytest
from dynagate import Robot

from tests.robots import DATA
from tests.rollout_gradients import check_gradient

ROBOTS = {
    "ur_description/urdf/ur3_robot.urdf": False,
    "finger_edu_description/robots/finger_edu.urdf": False,
    "hector_description/robots/quadrotor_base.urdf": True,
}
"""File -> whether the base floats."""


@pytest.mark.parametrize(
    ("integrator", "name"),
    [
        *(("semi_implicit_euler", name) for name in ROBOTS),
        *(pytest.param("rk2", name, marks=() if ROBOTS[name] else pytest.mark.long) for name in ROBOTS),
    ],
)
def test_gradient_is_the_complex_step_of_the_cost(name: str, integrator: str) -> None:
    robot = Robot.from_urdf(DATA / name, floating_base=ROBOTS[name], ignore_friction=True)
    check_gradient(robot, integrator=integrator)
