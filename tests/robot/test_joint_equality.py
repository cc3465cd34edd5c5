"""Joints that a polynomial ties, against a joint that mimics, dense algebra and complex steps; loops read from MJCF."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import Region, Robot, RobotError
from dynagate.base.errors import ArgumentTypeError
from dynagate.dynamics.configuration import integrate
from dynagate.graph.reference_gradient import STEP
from dynagate.robot import Mimic

from tests.constrained_robots import (
    FORWARD,
    assert_close,
    body,
    by_dense_algebra,
    differences,
    one_foot,
    run,
    weighted,
    with_stances,
)
from tests.samples import states

FOLLOWER, LEADER = "c_joint", "a_joint"


def chain() -> Robot:
    links = (body(name, k - 1, "revolute") for k, name in enumerate("abcd"))
    return Robot("chain", tuple(replace(link, joint=replace(link.joint, lower=-1.0, upper=1.0)) for link in links))


def tied(polynomial: tuple[float, ...], **options: Any) -> Robot:
    return (
        chain()
        .with_contact("d", "plane", normal=(1.0, 0.0, 0.0))
        .with_joint_equality(FOLLOWER, LEADER, polynomial, **options)
    )


def test_a_polynomial_by_dense_algebra() -> None:
    robot = tied((0.1, -0.7, 0.4, 0.3, -0.2), stiffness=5.0, damping=2.0, compliance=0.1)
    state = with_stances(robot, states(robot, 2, seed=3))
    state["active"][:] = 1.0
    own = replace(robot, constraints=(replace(robot.constraints[-1], stiffness=1.0, damping=0.0),))
    moved = integrate(robot, state["q"], 1j * STEP * state["qd"])
    rate = run(own, "constraint_drift", {"q": moved, "qd": 0.0 * state["qd"]})["constraint_drift"].imag / STEP
    j = run(own, "contact_jacobian", state)["contact_jacobian"]
    assert_close({"rate": np.einsum("bij,bj->bi", j, state["qd"])}, {"rate": rate}, 1e-12)
    assert_close(run(robot, FORWARD, state), by_dense_algebra(robot, state), 1e-9)
    assert_close(run(robot, f"{FORWARD}_vjp", state), weighted(state, differences(robot, state)), 1e-9)


def test_a_straight_line_is_a_joint_that_mimics() -> None:
    """The equality's torque is what the gear gives, so that nothing else differs."""
    robot = chain().with_joint_equality(FOLLOWER, LEADER, (0.2, -1.5))
    a, b, c, d = robot.links
    c = replace(c, joint=replace(c.joint, mimic=Mimic(LEADER, -1.5, 0.2)))
    geared = Robot("geared", (a, b, c, d))
    state = states(geared, 3, seed=2)
    expected = run(geared, "forward_dynamics", state)["qdd"]
    full = {name: np.insert(x, 2, 0.0, axis=1) for name, x in state.items() if name in ("q", "qd", "tau")}
    full["q"][:, 2], full["qd"][:, 2] = 0.2 - 1.5 * full["q"][:, 0], -1.5 * full["qd"][:, 0]
    got = run(robot, FORWARD, {**full, "active": np.ones((3, 1))})["qdd"]
    assert_close(
        {"qdd": got[:, [0, 1, 3]], "follower": got[:, 2]}, {"qdd": expected, "follower": -1.5 * got[:, 0]}, 1e-10
    )


def test_states_near_an_equality_keep_it() -> None:
    robot = tied((0.05, 0.3, 0.2))
    q = Region.of(robot, velocity=2.0).sample(FORWARD, 32, 1)["q"]
    np.testing.assert_allclose(q[:, 2], 0.05 + 0.3 * q[:, 0] + 0.2 * q[:, 0] ** 2, atol=1e-8)
    endless = replace(robot.links[0].joint, type="continuous", lower=None, upper=None)
    robot = replace(robot, links=(replace(robot.links[0], joint=endless), *robot.links[1:]))
    assert replace(robot, constraints=()).is_periodic(endless)
    assert not robot.is_periodic(endless)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("knee", "foot"), "equality of joint 'knee' with 'foot': robot 'hopper' has no joint 'foot'; expected one of"),
        (("base",), "equality of joint 'base': 'base' is floating; expected one of "),
        (("knee", "knee"), "equality of joint 'knee' with 'knee' of robot 'hopper' is of one joint; expected two"),
        (
            ("knee", "", (0.0, 1.0)),
            "has polynomial (0.0, 1.0); expected one number, without another joint, that",
        ),
        (("knee", "", ()), "'knee' has polynomial (); expected one number, without another joint, that are finite"),
        (("knee", "", (np.nan,)), "has polynomial (nan,); expected a sequence of finite numbers"),
    ],
)
def test_equalities_that_are_none(given: tuple[Any, ...], message: str, tmp_path: Path) -> None:
    robot = named(tmp_path)
    with pytest.raises(RobotError) as error:
        robot.with_joint_equality(*given)
    assert message in str(error.value)


def named(folder: Path) -> Robot:
    """A hopper, whose joints are called base and knee."""
    robot = one_foot(folder)
    names = ("base", "knee")
    links = [replace(link, joint=replace(link.joint, name=name)) for link, name in zip(robot.links, names, strict=True)]
    return replace(robot, name="hopper", links=tuple(links))


def test_more_that_is_none(tmp_path: Path) -> None:
    robot = named(tmp_path)
    with pytest.raises(ArgumentTypeError, match="polynomial='ab'; expected numbers, the constant one first"):
        robot.with_joint_equality("knee", polynomial="ab")  # type: ignore[arg-type]
    held = robot.with_joint_equality("knee", polynomial=[0.3])
    with pytest.raises(RobotError, match="has two constraints that are equality of joint 'knee'; expected one"):
        held.with_joint_equality("knee", polynomial=[0.2])
    own = replace(robot.constraints[0], polynomial=(1.0,))
    with pytest.raises(RobotError, match="is of kind 'point' and has a polynomial; expected one of joints"):
        replace(robot, constraints=(own,))
