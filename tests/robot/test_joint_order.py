"""The order of joints, and the permutation to another library's."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Region, Robot, RobotError, evaluate, integrate, robots, trace
from dynagate.base.errors import ArgumentTypeError
from dynagate.robot import Mimic

OURS = tuple(f"{leg}_{joint}" for leg in ("lf", "rf", "lh", "rh") for joint in ("haa", "hfe", "kfe"))
PINOCCHIOS = tuple(f"{leg}_{joint}" for leg in ("lf", "lh", "rf", "rh") for joint in ("haa", "hfe", "kfe"))


def test_the_order_is_the_files() -> None:
    hyq = robots.load("hyq")
    assert hyq.joint_names == OURS
    assert robots.load("hyq", floating_base=True).joint_names == ("root_joint", *OURS)
    q_index, v_index = hyq.permutation(PINOCCHIOS)
    assert [OURS[i] for i in q_index] == list(PINOCCHIOS)
    assert (v_index.tolist(), v_index.dtype.kind) == ([0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11], "i")
    assert [PINOCCHIOS[i] for i in np.argsort(q_index)] == list(OURS)


@pytest.mark.parametrize("floating", [False, True])
def test_permuted_vectors_are_pinocchios(floating: bool) -> None:
    pinocchio = pytest.importorskip("pinocchio")
    path = str(robots.path("hyq"))
    free = [pinocchio.JointModelFreeFlyer()] if floating else []
    model = pinocchio.buildModelFromUrdf(path, *free)
    robot = robots.load("hyq", floating_base=floating, damping=False)
    q_index, v_index = robot.permutation(list(model.names)[1:])
    state = Region.of(robot, velocity=2.0).sample("inverse_dynamics", 1, seed=3)
    tau = evaluate(trace(robot, "inverse_dynamics"), state)["tau"][0]
    q, v, a = state["q"][0][q_index], state["qd"][0][v_index], state["qdd"][0][v_index]
    theirs = pinocchio.rnea(model, model.createData(), q, v, a)
    np.testing.assert_allclose(tau[v_index], theirs, atol=1e-10 * np.abs(theirs).max())
    np.testing.assert_allclose(tau, theirs[np.argsort(v_index)], atol=1e-10 * np.abs(theirs).max())
    moved = integrate(robot, state["q"], state["qd"])[0]
    np.testing.assert_allclose(moved[q_index], pinocchio.integrate(model, q, v), atol=1e-12)


def test_quaternions_with_w_first(tmp_path: Path) -> None:
    """A base that follows the arm in the other library's order; MuJoCo's qpos."""
    hyq = robots.load("hyq", floating_base=True)
    names = [*PINOCCHIOS[:3], "root_joint", *PINOCCHIOS[3:]]
    q_index, v_index = hyq.permutation(names, w_first=True)
    assert q_index[:11].tolist() == [7, 8, 9, 0, 1, 2, 6, 3, 4, 5, 13]
    assert v_index[:10].tolist() == [6, 7, 8, 0, 1, 2, 3, 4, 5, 12]
    assert sorted(q_index) == list(range(19))


def test_joints_that_mimic_have_no_numbers() -> None:
    upper, forearm = robots.load("two_joint_arm").links
    follower = replace(forearm, joint=replace(forearm.joint, mimic=Mimic("shoulder")))
    robot = Robot("scissors", (upper, follower))
    assert robot.joint_names == ("shoulder", "elbow")
    for names in (["elbow", "shoulder"], ["shoulder"]):
        assert [index.tolist() for index in robot.permutation(names)] == [[0], [0]]


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (["shoulder", "wrist"], RobotError, "it has no joint 'wrist'; expected shoulder, elbow"),
    (["universe", "elbow", "shoulder"], RobotError, "it has no joint 'universe'; expected shoulder, elbow"),
    (["shoulder"], RobotError, "the order lacks 'elbow'; expected shoulder, elbow"),
    (["elbow", "shoulder", "elbow"], RobotError, "the order lists twice 'elbow'; expected shoulder, elbow"),
    ("elbow", ArgumentTypeError, "names='elbow'; expected the names of joints, one text each"),
    (None, ArgumentTypeError, "names=None; expected the names of joints, one text each"),
    ([0, 1], ArgumentTypeError, "names=[0, 1]; expected the names of joints, one text each"),
]


@pytest.mark.parametrize(("names", "kind", "message"), REFUSED)
def test_refused(names: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        robots.load("two_joint_arm").permutation(names)


def test_two_joints_of_a_name() -> None:
    upper, forearm = robots.load("two_joint_arm").links
    robot = Robot("twins", (upper, replace(forearm, joint=replace(forearm.joint, name="shoulder"))))
    with pytest.raises(RobotError, match="several joints have the name 'shoulder'"):
        robot.permutation(["shoulder"])
