"""Robots with feet and with loops that nobody tuned to, against Pinocchio: all stances, derivatives, closed chains."""

from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio
import pytest
from dynagate import Region, Robot, evaluate, trace
from dynagate.robot import Joint, Link
from dynagate.robot.vectors import Vector3

from tests.constrained_robots import (
    FORWARD,
    KINDS,
    LOCAL,
    assert_close,
    by_dense_algebra,
    by_lcaba,
    by_pinocchio,
    entries_of,
    four_bar,
    place,
    quadruped,
    run,
    settled,
    with_stances,
)
from tests.oracle import pinocchio_of
from tests.robots import DATA, MEASURED
from tests.samples import State, states

ROOT = Path(__file__).parents[2]
LEGGED = {
    "a1_description/urdf/a1.urdf": r"\w\w_foot",
    "anymal_b_simple_description/robots/anymal-kinova.urdf": r"\w\w_FOOT",
    "anymal_c_simple_description/urdf/anymal.urdf": r"\w\w_FOOT",
    "b1_description/urdf/b1.urdf": r"\w\w_foot",
    "bolt_description/robots/bolt.urdf": r"F\w_FOOT",
    "g1_description/urdf/g1_29dof_rev_1_0.urdf": r"\w+_ankle_roll_link",
    "go1_description/urdf/go1.urdf": r"\w\w_foot",
    "go2_description/urdf/go2.urdf": r"\w\w_foot",
    "laikago_description/urdf/laikago.urdf": r"\w\w_foot",
    "simple_humanoid_description/urdf/simple_humanoid.urdf": r"[lr]_ankle",
    "solo_description/robots/solo12.urdf": r"\w\w_FOOT",
    "aliengo.urdf": r"\w\w_foot",
    "atlas.urdf": r"[lr]_foot",
}
"""File -> the names of its feet."""
READING: dict[str, Any] = {
    "damping": False,
    "ignore_friction": True,
    "allow_unphysical": True,
    "round_rotations": 1e-3,
}
QUICK = ("bolt_description/robots/bolt.urdf", "solo_description/robots/solo12.urdf")


def standing(name: str) -> Robot:
    """The robot with a contact at each foot: points, and whole soles where there are two."""
    path = DATA / name if "/" in name else MEASURED / name
    robot = Robot.from_urdf(path, floating_base=True, **READING)
    places = [link.name for link in robot.links] + [frame.name for frame in robot.frames]
    feet = [place for place in places if re.fullmatch(LEGGED[name], place)]
    assert len(feet) in (2, 4), places
    for foot in feet:
        robot = robot.with_contact(foot, "fixed" if len(feet) == 2 and "bolt" not in name else "point")
    return robot


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in LEGGED]
)
def test_all_stances_are_pinocchios(name: str) -> None:
    robot = standing(name)
    count = 2 ** len(robot.constraints)
    state = with_stances(robot, states(robot, count, seed=1))
    state["q"] = Region.of(robot, velocity=2.0).sample("inverse_dynamics", count, 1)["q"]
    state = settled(robot, state)
    state["tau"] = run(robot, "inverse_dynamics", state)["tau"]
    assert_close(run(robot, FORWARD, state), by_pinocchio(robot, state), 1e-12)


@pytest.mark.long
def test_derivatives_are_pinocchios() -> None:
    """∂q̈ by q, q̇ and τ of a quadruped in all stances."""
    robot = quadruped()
    state = with_stances(robot, states(robot, 16, seed=3))
    got = run(robot, f"{FORWARD}_gradient", state)
    model = pinocchio_of(robot)
    data = model.createData()
    ids = [model.getJointId(link.joint.name) for link in robot.links]
    p, v = entries_of(model, ids)
    for k, active in enumerate(state["active"]):
        q, qd, tau = np.zeros(model.nq), np.zeros(model.nv), np.zeros(model.nv)
        q[p], qd[v], tau[v] = state["q"][k], state["qd"][k], state["tau"][k]
        models = []
        for own in (own for own, on in zip(robot.constraints, active, strict=True) if on):
            models.append(pinocchio.RigidConstraintModel(KINDS["point"], model, *place(robot, ids, own.frame), LOCAL))
            models[-1].setBaumgarteCorrectorParameters(pinocchio.BaumgarteCorrectorParameters(0.0, 0.0))
        datas = [own.createData() for own in models]
        settings = pinocchio.ProximalSettings(1e-14, 0.0, 1)
        pinocchio.initConstraintDynamics(model, data, models, datas)
        pinocchio.constraintDynamics(model, data, q, qd, tau, models, datas, settings)
        pinocchio.computeConstraintDynamicsDerivatives(model, data, models, datas, settings)
        for name, matrix in (("q", data.ddq_dq), ("qd", data.ddq_dv), ("tau", data.ddq_dtau)):
            expected = np.array(matrix)[np.ix_(v, v)]
            error = np.abs(got[f"dqdd_d{name}"][k] - expected).max()
            assert error <= 1e-10 * max(1.0, np.abs(expected).max()), name


def ankle() -> Robot:
    """A foot on a universal joint, which two cranks at the shin move by rods: universal joints above, loops below."""
    inertia = ((0.002, 0.0, 0.0), (0.0, 0.003, 0.0), (0.0, 0.0, 0.002))
    x, y = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)

    def link(name: str, parent: int, axis: Vector3, at: Vector3, mass: float) -> Link:
        joint = Joint(name, "revolute", translation=at, axis=axis, lower=-0.5, upper=0.5, velocity=4.0)
        return Link(name, parent, joint, mass, (0.01, 0.0, -0.02), inertia)

    links = [link("pitch", -1, y, (0.0, 0.0, -0.4), 0.1), link("foot", 0, x, (0.0, 0.0, 0.0), 0.9)]
    for side, across in (("left", 0.05), ("right", -0.05)):
        first = len(links)
        links += [
            link(f"{side}_crank", -1, y, (-0.05, across, -0.1), 0.2),
            link(f"{side}_swing", first, y, (-0.06, 0.0, 0.0), 0.05),
            link(f"{side}_rod", first + 1, x, (0.0, 0.0, 0.0), 0.1),
        ]
    robot = Robot("ankle", tuple(links))
    for side, across in (("left", 0.05), ("right", -0.05)):
        robot = robot.with_frame(f"{side}_tip", f"{side}_rod", (0.0, 0.0, -0.3))
        robot = robot.with_frame(f"{side}_ear", "foot", (-0.11, across, 0.0))
        robot = robot.with_loop(f"{side}_tip", f"{side}_ear")
    return robot.with_passive("pitch", "foot", "left_swing", "left_rod", "right_swing", "right_rod")


def moving(robot: Robot, count: int) -> State:
    state = Region.of(robot, velocity=3.0).sample(FORWARD, count, 1)
    return settled(robot, {**state, "active": np.ones_like(state["active"])})


def test_a_parallel_ankle_is_pinocchios() -> None:
    robot = ankle()
    state = moving(robot, 8)
    result = run(robot, FORWARD, state)
    assert_close(result, by_pinocchio(robot, state), 1e-8)
    state["qdd"] = result["qdd"]
    back = run(robot, "constrained_inverse_dynamics", state)
    undriven = np.abs(back["tau"][:, robot.undriven]).max()
    assert undriven < 1e-5 * np.abs(state["tau"]).max()  # two motors and six others: the loops give what these lack


def test_closed_loops_are_those_of_lcaba() -> None:
    """Pinocchio's articulated bodies with loops, whose proximal steps end at 1e-8 of the accelerations."""
    robot = ankle()
    state = moving(robot, 4)
    got = run(robot, FORWARD, state)["qdd"]
    for found, expected in zip(by_lcaba(robot, state, (1e-12, 1e-6, 50)), got, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_a_four_bar_is_pinocchios() -> None:
    robot = four_bar()
    state = moving(robot, 8)
    result = run(robot, FORWARD, state)
    assert_close(result, {"qdd": by_dense_algebra(robot, state)["qdd"]}, 1e-6)
    free = run(replace(robot, constraints=()), "forward_dynamics", state)["qdd"]
    assert np.abs(result["qdd"] - free).max() > 0.1 * np.abs(free).max()


def test_a_region_holds_loops_closed_and_feet_still() -> None:
    for robot in (ankle(), quadruped()):
        region = Region.of(robot, velocity=2.0)
        state = region.sample(FORWARD, 64, 2)
        assert state["q"].shape == (64, robot.nq)
        low, high = np.array(region.lower), np.array(region.upper)
        single = np.ones(robot.nq, dtype=bool)
        for part in robot.quaternions():
            single[part] = False
        assert ((state["q"] >= low - 1e-9) & (state["q"] <= high + 1e-9))[:, single].all()
        on = np.repeat(state["active"], [own.rows for own in robot.constraints], axis=1)
        j = evaluate(trace(robot, "contact_jacobian"), {"q": state["q"]})["contact_jacobian"]
        free = Region.of(replace(robot, constraints=()), velocity=2.0).sample("inverse_dynamics", 64, 2)["qd"]
        held, loose = (np.abs(np.einsum("bij,bj->bi", j, qd) * on).max() for qd in (state["qd"], free))
        assert held < 0.15 * loose
        again = region.sample(FORWARD, 64, 2)
        assert all(np.array_equal(again[name], state[name]) for name in state)
    state = Region.of(ankle(), velocity=2.0).sample(FORWARD, 64, 2)
    ends = [evaluate(trace(ankle(), f"frame_pose_left_{end}"), {"q": state["q"]}) for end in ("tip", "ear")]
    assert np.abs(ends[0]["frame_position"] - ends[1]["frame_position"]).max() < 1e-6


def test_a_loop_that_never_closes() -> None:
    far = ankle().with_frame("far", "foot", (0.0, 0.0, -3.0)).with_loop("left_crank", "far")
    with pytest.raises(ValueError, match="loop from 'left_crank' to 'far' of robot 'ankle' closes at none of"):
        Region.of(far, velocity=2.0).sample(FORWARD, 8, 1)


def test_a_standing_robot_carries_itself() -> None:
    """In the region of a stance the joints' torques and not the trunk's carry the weight, wherever feet can."""
    robot = quadruped()
    state = Region.of(robot, velocity=2.0).sample(FORWARD, 256, 1, kind="rest")
    many = state["active"].sum(axis=1) >= 3
    force = run(robot, FORWARD, state)["force"].reshape(256, 4, 3).sum(axis=1)[many, 2]
    weight = 9.81 * sum(link.mass for link in robot.links)
    assert 0.7 * weight < np.median(force) < 1.3 * weight


@pytest.mark.parametrize("name", ["contact.svg", "loop.svg"])
def test_pictures_are_what_their_code_draws(name: str) -> None:
    space = runpy.run_path(str(ROOT / "docs" / "constraints_pictures.py"))
    assert space["PICTURES"][name]() == (ROOT / "docs" / name).read_text()
