"""Moved frames and regrouped inertias: fewer numbers, the same torques."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynagate import Robot, robots
from dynagate.algorithms import Tree
from dynagate.algorithms.inverse_dynamics import inverse_dynamics
from dynagate.algorithms.mass_matrix import mass_matrix
from dynagate.algorithms.reduction import moved_frames, regrouped
from dynagate.configuration import normalised
from dynagate.robot import vector3

from tests import tolerances
from tests.robots import random_urdf


def numbers_between_frames(robot: Robot) -> int:
    return sum(int(np.count_nonzero(link.joint.translation)) for link in robot.links if link.parent >= 0)


def random_tree(seed: int, folder: Path) -> Robot:
    """Seeds differ in their kinds of joints; on a floating base."""
    path = folder / "tree.urdf"
    path.write_text(random_urdf(seed))
    return Robot.from_urdf(path, damping=False, floating_base=True)


@pytest.mark.parametrize("seed", range(12))
def test_torques_and_mass_matrix_are_those_of_the_robot_as_given(seed: int, tmp_path: Path) -> None:
    robot = random_tree(seed, tmp_path)
    random = np.random.default_rng(seed)
    q = normalised(robot, random.uniform(-1.0, 1.0, robot.nq)).tolist()
    qd, qdd = random.uniform(-2.0, 2.0, (2, robot.nv)).tolist()
    external = random.uniform(-3.0, 3.0, (len(robot.links), 6))
    tree = Tree(robot)
    for of in (
        lambda tree: mass_matrix(tree, q),
        lambda tree: inverse_dynamics(tree, q, qd, qdd),
        lambda tree: inverse_dynamics(tree, q, qd, qdd, external),
    ):
        found, expected = (np.array(of(t), dtype=float) for t in (tree, tree.as_given))
        assert np.linalg.norm(found - expected) <= tolerances.IDENTITY * np.linalg.norm(expected)


def test_a_turning_link_keeps_what_its_joint_feels() -> None:
    inertias = regrouped(robots.load("iiwa14").aligned())
    assert all(i.mass == i.first[2] == i.second[2, 2] == 0.0 for i in inertias)
    assert all(i.second[0, 0] > 0.0 for i in inertias)


def test_frames_move_to_where_axes_meet() -> None:
    """iiwa14: shoulder, elbow and wrist, of which two are at a distance from the one before."""
    robot = robots.load("iiwa14").aligned()
    moved, by = moved_frames(robot)
    assert (numbers_between_frames(robot), numbers_between_frames(moved)) == (6, 2)
    np.testing.assert_allclose(by, [0.2025, 0.0, -0.2045, 0.0, -0.1845, 0.0, -0.081], atol=1e-12)
    for link, given, metres in zip(moved.links, robot.links, by, strict=True):
        np.testing.assert_allclose(link.com, np.array(given.com) - [0.0, 0.0, metres], atol=1e-15)


def test_frames_stay_where_moving_them_gains_nothing() -> None:
    robot = robots.load("hyq").aligned()
    assert moved_frames(robot)[1] == [0.0] * 12


def test_frames_do_not_move_far_to_where_axes_meet() -> None:
    arm = robots.load("two_joint_arm").aligned()
    elbow = arm.links[1]
    tilt = 0.1
    turn = ((1.0, 0.0, 0.0), (0.0, np.cos(tilt), -np.sin(tilt)), (0.0, np.sin(tilt), np.cos(tilt)))
    joint = replace(elbow.joint, rotation=turn, translation=vector3((0.0, 0.3, 0.2)))
    tilted = replace(arm, links=(arm.links[0], replace(elbow, joint=joint)))
    assert max(map(abs, moved_frames(tilted)[1])) < 1.0
