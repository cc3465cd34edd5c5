"""Moved frames and regrouped inertias: fewer numbers, the same torques."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynagate import Robot, robots, trace
from dynagate.dynamics import Tree
from dynagate.dynamics.configuration import normalized
from dynagate.dynamics.gradients.closed_form import sparsest
from dynagate.dynamics.recursions.crba import mass_matrix
from dynagate.dynamics.recursions.poses import reference_links
from dynagate.dynamics.recursions.rnea import inverse_dynamics
from dynagate.dynamics.reduction import LARGER, Dipole, bodies, moved_frames, regrouped
from dynagate.robot.vectors import IDENTITY, vector3

from tests import tolerances
from tests.robots import random_urdf


def numbers_between_frames(robot: Robot) -> int:
    return sum(int(np.count_nonzero(link.joint.translation)) for link in robot.links if link.parent >= 0)


def random_tree(seed: int, folder: Path, *, floating_base: bool = True) -> Robot:
    """Seeds differ in their kinds of joints."""
    path = folder / "tree.urdf"
    path.write_text(random_urdf(seed))
    return Robot.from_urdf(path, damping=False, floating_base=floating_base)


def planar_arm(gravity: tuple[float, float, float]) -> Robot:
    """A slide, three joints about one direction and one across, as an arm that works on a table has them."""
    arm = robots.load("two_joint_arm").links[1]
    inertia = ((0.02, 0.001, -0.002), (0.001, 0.017, 0.003), (-0.002, 0.003, 0.018))
    kinds = [("prismatic", (0.6, 0.8, 0.0)), *[("revolute", (0.0, 0.0, 1.0))] * 3, ("revolute", (0.0, 1.0, 0.0))]
    links = []
    for k, (kind, axis) in enumerate(kinds):
        joint = replace(arm.joint, name=f"j{k}", type=kind, axis=axis, translation=(0.3, 0.1 * k, 0.05))
        links.append(replace(arm, name=f"l{k}", parent=k - 1, joint=joint, com=(0.1, -0.2, 0.05), inertia=inertia))
    return Robot("planar", tuple(links), gravity=gravity)


def assert_alike(robot: Robot, tree: Tree, seed: int) -> None:
    """M and torques, with external forces too, are those of the links as the robot has them."""
    random = np.random.default_rng(seed)
    q = normalized(robot, random.uniform(-1.0, 1.0, robot.nq)).tolist()
    qd, qdd = random.uniform(-2.0, 2.0, (2, robot.nv)).tolist()
    external = random.uniform(-3.0, 3.0, (len(robot.links), 6))
    for of in (
        lambda tree: mass_matrix(tree, q),
        lambda tree: inverse_dynamics(tree, q, qd, qdd),
        lambda tree: inverse_dynamics(tree, q, qd, qdd, external),
    ):
        found, expected = (np.array(of(t), dtype=float) for t in (tree, tree.unreduced))
        assert np.linalg.norm(found - expected) <= tolerances.IDENTITY * np.linalg.norm(expected)


def with_dipoles(robot: Robot) -> Tree:
    """The tree with all links as dipoles that can be."""
    tree = Tree(robot)
    found = tree.bodies([True] * len(robot.links))
    tree.inertias = [body.inertia() if isinstance(body, Dipole) else body for body in found]
    return tree


@pytest.mark.parametrize("of", [Tree, with_dipoles])
@pytest.mark.parametrize("floating_base", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_torques_and_mass_matrix_are_those_of_the_robot_as_given(
    seed: int, floating_base: bool, of: Callable[[Robot], Tree], tmp_path: Path
) -> None:
    robot = random_tree(seed, tmp_path, floating_base=floating_base)
    assert_alike(robot, of(robot), seed)


@pytest.mark.parametrize("of", [Tree, with_dipoles])
@pytest.mark.parametrize("gravity", [(0.0, 0.0, -9.81), (1.0, 2.0, -9.81), (0.0, 0.0, 0.0)])
def test_links_that_turn_about_one_direction(gravity: tuple[float, float, float], of: Callable[[Robot], Tree]) -> None:
    """A sliding base keeps the first moments in play; without it the first joint feels them through gravity alone."""
    robot = planar_arm(gravity)
    assert_alike(robot, of(robot), seed=1)
    inertias = Tree(robot).inertias
    assert [np.count_nonzero(np.array(body.second, dtype=float)) for body in inertias[1:4]] == [1, 1, 1]
    assert all(body.mass == body.first[2] == 0.0 and body.first[0] != 0.0 for body in inertias[1:4])
    fixed = replace(robot, links=tuple(replace(link, parent=link.parent - 1) for link in robot.links[1:]))
    assert_alike(fixed, of(fixed), seed=2)
    felt = np.count_nonzero(np.array(Tree(fixed).inertias[0].first, dtype=float))
    assert felt == (2 if gravity[0] else 0)


def test_a_dipole_is_the_body_but_for_what_its_joint_does_not_feel() -> None:
    robot = robots.load("iiwa14").aligned()
    plain, dipoles = regrouped(robot), bodies(robot, [True] * 7)
    assert [isinstance(body, Dipole) for body in dipoles] == [True] * 6 + [False]  # the last is centered on its axis
    tip, seen = plain[5], dipoles[5].inertia()
    difference = np.array(seen.second - tip.second, dtype=float)
    assert np.abs(difference).max() == abs(difference[2, 2])
    np.testing.assert_allclose(difference, np.diag([0.0, 0.0, difference[2, 2]]), atol=1e-15)
    np.testing.assert_allclose(np.array(seen.first - tip.first, dtype=float)[:2], 0.0, atol=1e-15)


def test_a_dipole_takes_no_large_numbers() -> None:
    """What couples turning with the axis may be a first moment along it, many times as large as the body's."""
    arm = robots.load("two_joint_arm")
    across = replace(arm.links[1].joint, axis=(0.0, 0.0, 1.0))
    for skew, expected in ((1e-3, True), (1e-7, False)):
        inertia = ((0.02, skew, -0.002), (skew, 0.017, 0.003), (-0.002, 0.003, 0.018))
        tip = replace(arm.links[1], joint=across, com=(0.0, 0.1, 0.03), inertia=inertia)
        robot = replace(arm, links=(arm.links[0], tip)).aligned()
        body = bodies(robot, [True, True])[1]
        assert isinstance(body, Dipole) == expected
        if isinstance(body, Dipole):
            sizes = [float(np.linalg.norm(np.array(v, dtype=float))) for v in (body.point, body.first)]
            assert sizes[0] * sizes[1] <= LARGER * np.abs(regrouped(robot)[1].second).max()


def elbow_arm() -> Robot:
    """One joint up, three across it and along one another, two more across: as many arms are built."""
    robot = robots.load("iiwa14")
    turn = robot.links[1].joint.rotation
    links = []
    for link, rotation in zip(robot.links, (IDENTITY, turn, IDENTITY, IDENTITY, turn, turn), strict=False):
        joint = replace(
            link.joint, rotation=rotation, translation=(0.3, 0.0, 0.1) if rotation == IDENTITY else (0, 0, 0.1)
        )
        links.append(replace(link, joint=joint))
    return replace(robot, links=tuple(links))


@pytest.mark.parametrize(
    ("robot", "link", "middle"),
    [(robots.load("iiwa14"), 2, 2), (robots.load("hyq"), 0, 0), (elbow_arm(), 0, 2)],
    ids=["iiwa14", "hyq", "elbow"],
)
def test_the_sparsest_frame_is_the_middle_one_or_one_nearer_to_the_base(robot: Robot, link: int, middle: int) -> None:
    assert (sparsest(Tree(robot))[0], reference_links(Tree(robot), "middle")[0]) == (link, middle)
    counts = [
        trace(robot, "inverse_dynamics_gradient", frame=f).counts().products for f in ("sparsest", link, "middle")
    ]
    assert counts[0] == counts[1] <= counts[2]
    assert counts[0] < 0.9 * counts[2] or link == middle


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
    for link, given, meters in zip(moved.links, robot.links, by, strict=True):
        np.testing.assert_allclose(link.com, np.array(given.com) - [0.0, 0.0, meters], atol=1e-15)


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
