"""What integrators say of robots that they cannot move, and of motions that they do not keep within limits."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from dynagate import Robot, RobotError, RobotWarning, robots
from dynagate.forces import Point
from dynagate.robot.vectors import matrix3

from examples.papers.position_based.complementarity import StewartTrinkle
from examples.papers.position_based.integrator import PositionBased
from examples.papers.position_based.newton_euler import NewtonEuler
from examples.papers.variational.integrator import Variational

pytestmark = pytest.mark.long  # Numba compiles for half a minute

MAKE = {
    "Variational": lambda robot: Variational(robot, dt=0.005),
    "PositionBased": lambda robot: PositionBased(robot, 0.005),
    "NewtonEuler": lambda robot: NewtonEuler(robot, 0.005),
    "StewartTrinkle": lambda robot: StewartTrinkle(robot, 0.005, [Point(robot.links[-1].name, (0.0, 0.0, 5.0))]),
}


@pytest.mark.parametrize("name", MAKE)
def test_massless_links_are_named(name: str) -> None:
    arm = robots.load("two_joint_arm")
    empty = replace(arm.links[1], mass=0.0, com=(0.0, 0.0, 0.0), inertia=matrix3(np.zeros((3, 3))))
    with pytest.raises(RobotError, match="can move without moving any mass, so the mass matrix of .* has no inverse"):
        MAKE[name](replace(arm, links=(arm.links[0], empty)))


def limited(lower: float | None, upper: float | None) -> Robot:
    arm = robots.load("two_joint_arm")
    first = replace(arm.links[0], joint=replace(arm.links[0].joint, lower=None, upper=None))
    last = replace(arm.links[1], joint=replace(arm.links[1].joint, lower=lower, upper=upper))
    return replace(arm, links=(first, last))


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize(("limits", "speed"), [((-0.5, 0.5), 8.0), ((-0.5, 0.5), -8.0), ((None, 0.5), 8.0)])
def test_limits_that_are_passed_are_named(name: str, limits: tuple[float | None, float | None], speed: float) -> None:
    robot = limited(*limits)
    elbow = robot.links[1].joint.name
    with pytest.warns(RobotWarning, match=rf"^joint '{elbow}' of robot 'two_joint_arm' passes its limits, which this"):
        MAKE[name](robot).run([0.0, 0.0], [0.0, speed], 40)


@pytest.mark.parametrize("name", MAKE)
def test_a_motion_within_limits_is_not_warned_of(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MAKE[name](limited(-0.5, 0.5)).run([0.0, 0.0], [0.0, 0.0], 2)
        MAKE[name](limited(-0.5, 0.5)).run([0.0, 0.7], [0.0, 8.0], 2)  # it begins beyond
