"""Regressors and identification: next to Pinocchio, to least squares of numpy, and to machines whose parameters are
known."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pinocchio
import pytest
from dynagate import Robot, RobotError, RobotWarning, evaluate, robots, trace
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.identification.columns import columns_of
from dynagate.identification.measured import equations, measured
from dynagate.identification.physical import divergence, of_pseudo_inertia, parameters_by_numbers, pseudo_inertia
from dynagate.robot import Mimic

from tests.oracle import pinocchio_of
from tests.robots import random_urdf

ARM = robots.load("two_joint_arm")
RUBBING = ARM.with_armature([0.1, 0.2]).with_damping([0.3, 0.1]).with_friction([0.5, 0.2])


def tree(seed: int, folder: Path, *, floating_base: bool) -> Robot:
    path = folder / "tree.urdf"
    path.write_text(random_urdf(seed))
    return Robot.from_urdf(path, floating_base=floating_base)


def random_states(robot: Robot, count: int, seed: int, size: float = 1.0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    q = dynagate.integrate(robot, dynagate.neutral(robot), size * random.uniform(-2.0, 2.0, (count, robot.nv)))
    qd, qdd = size * random.normal(size=(2, count, robot.nv))
    return {"q": q, "qd": qd, "qdd": qdd}


def motion(robot: Robot, samples: int, seed: int = 0) -> dict[str, np.ndarray]:
    """A sum of waves of joints with one degree of freedom each."""
    random, time = np.random.default_rng(seed), np.linspace(0.0, 10.0, samples)[:, None]
    q, qd, qdd = np.zeros((3, samples, robot.nv))
    for k in range(1, 5):
        w, phase, size = 0.3 * np.pi * k, random.uniform(0.0, 6.0, robot.nv), random.uniform(0.3, 0.7, robot.nv) / k
        q += size * np.sin(w * time + phase)
        qd += w * size * np.cos(w * time + phase)
        qdd -= w * w * size * np.sin(w * time + phase)
    return {"q": q, "qd": qd, "qdd": qdd}


def torques(robot: Robot, states: dict[str, np.ndarray]) -> np.ndarray:
    return evaluate(trace(robot, "inverse_dynamics"), states)["tau"]


@pytest.mark.parametrize("size", [0.0, 1e-6, 1.0])
@pytest.mark.parametrize("floating_base", [False, True])
@pytest.mark.parametrize("seed", [52, 57])
def test_regressors_are_pinocchio_s(seed: int, floating_base: bool, size: float, tmp_path: Path) -> None:
    robot = tree(seed, tmp_path, floating_base=floating_base)
    model, states = pinocchio_of(robot), random_states(robot, 3, seed, size)
    data, ids = model.createData(), [model.getJointId(link.joint.name) for link in robot.links]
    rows = [k for i in ids for k in range(model.joints[i].idx_v, model.joints[i].idx_v + model.joints[i].nv)]
    ours = evaluate(trace(robot, "inverse_dynamics_regressor"), states)["regressor"]
    energies = evaluate(trace(robot, "energy_regressor"), {name: states[name] for name in ("q", "qd")})
    for k in range(3):
        q, (qd, qdd) = pinocchio.neutral(model), np.zeros((2, model.nv))
        for i, (_, part, _) in zip(ids, robot.slices(), strict=True):
            joint, own = model.joints[i], states["q"][k][part]
            q[joint.idx_q : joint.idx_q + joint.nq] = own if joint.nq == len(own) else [np.cos(own[0]), np.sin(own[0])]
        qd[rows], qdd[rows] = states["qd"][k], states["qdd"][k]
        theirs = pinocchio.computeJointTorqueRegressor(model, data, q, qd, qdd).reshape(model.nv, -1)[rows]
        kinetic = pinocchio.computeKineticEnergyRegressor(model, data, q, qd)
        potential = pinocchio.computePotentialEnergyRegressor(model, data, q)
        for i, number in enumerate(ids):
            part = slice(10 * (number - 1), 10 * number)
            np.testing.assert_allclose(ours[k, :, i, :10], theirs[:, part], atol=1e-11 * (1.0 + np.abs(theirs).max()))
            np.testing.assert_allclose(energies["kinetic_regressor"][k, i, :10], kinetic[part], atol=1e-11)
            np.testing.assert_allclose(energies["potential_regressor"][k, i, :10], potential[part], atol=1e-10)


def with_mimic() -> Robot:
    robot = robots.load("iiwa14").with_damping(0.3).with_friction(0.4).with_armature(0.2)
    links = list(robot.links)
    links[4] = replace(links[4], joint=replace(links[4].joint, mimic=Mimic("joint_2", -0.7, 0.2)))
    return replace(robot, links=tuple(links))


@pytest.mark.parametrize("robot", [RUBBING, with_mimic(), robots.load("hyq", floating_base=True).with_friction(0.4)])
def test_torques_and_energies_are_linear_in_the_parameters(robot: Robot) -> None:
    """With armature, damping, friction, joints that mimic others, and a floating base."""
    states = random_states(robot, 5, 3)
    regressor = evaluate(trace(robot, "inverse_dynamics_regressor"), states)["regressor"]
    assert regressor.shape == (5, robot.nv, len(robot.links), 13)
    predicted = (regressor * robot.dynamic_parameters).sum(axis=(2, 3))
    np.testing.assert_allclose(predicted, torques(robot, states), rtol=1e-11, atol=1e-11)
    own = {name: states[name] for name in ("q", "qd")}
    energies = evaluate(trace(robot, "energy_regressor"), own)
    for kind, inputs in (("kinetic", own), ("potential", {"q": own["q"]})):
        expected = evaluate(trace(robot, f"{kind}_energy"), inputs)[f"{kind}_energy"]
        predicted = (energies[f"{kind}_regressor"] * robot.dynamic_parameters).sum(axis=(1, 2))
        np.testing.assert_allclose(predicted, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("device", "error"), [("cpu", 1e-12), ("fixed", 0.02)])
def test_the_regressor_on_other_devices(device: str, error: float) -> None:
    states = dynagate.Region.of(RUBBING).sample("inverse_dynamics_regressor", 50, seed=1)
    exact = evaluate(trace(RUBBING, "inverse_dynamics_regressor"), states)["regressor"]
    with dynagate.compile(RUBBING, "inverse_dynamics_regressor", device=device) as function:
        np.testing.assert_allclose(function(**states).regressor, exact, atol=error * (1.0 + np.abs(exact).max()))


def test_parameters_of_other_numbers_and_none_for_a_graph() -> None:
    """A variable parameter changes nothing in a regressor; external forces have no place there."""
    robot = ARM.with_variable("forearm.mass")
    states = random_states(ARM, 4, 1)
    for name in ("inverse_dynamics_regressor", "energy_regressor"):
        own = {key: states[key] for key in ("q", "qd", "qdd") if key != "qdd" or name.startswith("inverse")}
        plain, varied = (
            evaluate(trace(each, name), {**own, **extra})
            for each, extra in ((ARM, {}), (robot, {"forearm_mass": np.full(4, 9.0)}))
        )
        for key, value in plain.items():
            np.testing.assert_allclose(varied[key], value, atol=1e-13)
    with pytest.raises(ArgumentError, match="inverse_dynamics_regressor does not depend on external forces"):
        trace(ARM, "inverse_dynamics_regressor", external_forces=True)


def test_dynamic_parameters_there_and_back() -> None:
    robot = robots.load("iiwa14")
    assert robot.with_dynamic_parameters(robot.dynamic_parameters) == robot
    moved = RUBBING.with_dynamic_parameters(RUBBING.dynamic_parameters * 1.5)
    states = random_states(ARM, 4, 2)
    np.testing.assert_allclose(torques(moved, states), 1.5 * torques(RUBBING, states), rtol=1e-12)
    rubs = ARM.dynamic_parameters
    rubs[:, 12] = 0.4
    assert ARM.with_dynamic_parameters(rubs).friction_speed == 0.01
    assert ARM.friction_speed == 0.0


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ((0, 0), np.nan, "dynamic parameters are "),
        ((0, 0), -1.0, "link 'upper_arm' has mass -1 kg"),
        ((1, 4), 9.0, "which no body has"),
        ((1, 11), -0.1, "joint 'elbow' has damping -0.1; expected a number of 0 or more"),
    ],
)
def test_parameters_of_no_robot(place: tuple[int, int], value: float, message: str) -> None:
    rows = ARM.dynamic_parameters
    rows[place] = value
    with pytest.raises(RobotError, match=re.escape(message)):
        ARM.with_dynamic_parameters(rows)


def test_base_parameters_predict_all_torques(tmp_path: Path) -> None:
    """Of trees: any parameters with the same combinations have the same torques, and no others do."""
    robot = tree(52, tmp_path, floating_base=False)
    base = dynagate.base_parameters(robot)
    states = random_states(robot, 40, 5)
    rows = evaluate(trace(robot, "inverse_dynamics_regressor"), states)["regressor"]
    rows = rows.reshape(len(rows) * robot.nv, -1)
    assert len(base.independent) == np.linalg.matrix_rank(rows, tol=1e-8 * np.linalg.norm(rows))
    np.testing.assert_allclose(
        rows[:, list(base.independent)] @ base.matrix, rows, atol=1e-8 * np.abs(rows).max(), rtol=1e-6
    )


def test_base_parameters_of_an_arm_by_hand() -> None:
    """The shoulder carries the elbow 0.5 m away: m of the forearm counts with h and I of the upper arm."""
    base = dynagate.base_parameters("two_joint_arm", ["*"])
    assert base.combinations == (
        "upper_arm.h_x",
        "upper_arm.h_z + 0.5 forearm.m",
        "upper_arm.i_yy + 0.25 forearm.m",
        "forearm.h_x",
        "forearm.h_z",
        "forearm.i_yy",
    )
    assert {"upper_arm.m", "forearm.i_xx", "forearm.h_y"} <= set(base.without_effect)
    assert str(base).startswith("6 base parameters of 20\n")


def test_bodies_are_bodies() -> None:
    """The numbers of a body lead to its parameters, which have a divergence unless no body has them."""
    for link in robots.load("iiwa14").links:
        own = link.parameters()
        scale = parameters_by_numbers(own)
        assert np.linalg.eigvalsh(pseudo_inertia(scale @ np.array([1.0] * 4 + [0.0] * 6)))[0] > 0.0
        np.testing.assert_allclose(of_pseudo_inertia(pseudo_inertia(own)), own)
        point = np.random.default_rng(0).normal(0.0, 0.1, 10) + np.array([1.0] * 4 + [0.0] * 6)
        here = divergence(point)
        assert here is not None
        for k in range(10):
            step = np.zeros(10)
            step[k] = 1e-6
            ahead, behind = divergence(point + step), divergence(point - step)
            assert ahead is not None
            assert behind is not None
            np.testing.assert_allclose((ahead.value - behind.value) / 2e-6, here.gradient[k], atol=1e-6)
            np.testing.assert_allclose(
                (ahead.gradient - behind.gradient) / 2e-6, (here.root.T @ here.root)[k], atol=1e-5
            )
    assert divergence(np.array([1.0, 1.0, -0.1, 1.0, 0, 0, 0, 0, 0, 0])) is None


def test_iiwa_s_parameters_from_noisy_torques() -> None:
    """All parameters within four standard errors of the machine's, and torques of an unseen motion within the noise."""
    file, random = robots.load("iiwa14"), np.random.default_rng(1)
    machine = file.with_armature(0.1).with_damping(0.5).with_friction(0.4)
    rows = machine.dynamic_parameters
    rows[:, :10] *= random.uniform(0.8, 1.3, (7, 1))
    machine = machine.with_dynamic_parameters(rows)
    states = motion(file, 1500)
    tau = torques(machine, states) + random.normal(0.0, 0.3, (1500, 7))
    found = dynagate.identify(file, **states, tau=tau)
    assert found.converged
    assert not found.excitation.unexcited
    assert found.excitation.condition < 100.0
    np.testing.assert_allclose(found.residual, 0.3, rtol=0.1)
    unseen = motion(file, 300, seed=9)
    truth = torques(machine, unseen)
    after, before = (np.abs(torques(robot, unseen) - truth).max() for robot in (found.robot, file))
    assert after < 0.15
    assert before > 3.0
    assert (np.abs(found.parameters - machine.dynamic_parameters) < 4.0 * found.standard_errors).all()
    low, high = found.confidence
    assert (low < machine.dynamic_parameters).mean() > 0.95
    assert (high > machine.dynamic_parameters).mean() > 0.95
    assert "joint_4.armature" in str(found)


def test_without_a_prior_it_is_least_squares() -> None:
    """Of numpy, where all links have bodies of that; the estimate of base parameters and their errors."""
    states, random = motion(ARM, 300), np.random.default_rng(2)
    tau = torques(RUBBING, states) + random.normal(0.0, 0.05, (300, 2))
    found = dynagate.identify(RUBBING, **states, tau=tau, noise=0.05, prior=1e4)
    base = dynagate.base_parameters(RUBBING)
    rows = evaluate(trace(RUBBING, "inverse_dynamics_regressor"), states)["regressor"].reshape(600, 26)
    own = rows[:, list(base.independent)]
    expected = np.linalg.lstsq(own, tau.ravel(), rcond=None)[0]
    np.testing.assert_allclose(base.matrix @ found.parameters.ravel(), expected, atol=1e-6)
    errors = 0.05 * np.sqrt(np.diag(np.linalg.inv(own.T @ own)))
    alone = [k for k, row in enumerate(base.matrix) if (row != 0.0).sum() == 1]
    assert len(alone) >= 5
    got = found.standard_errors.ravel()[list(base.independent)]
    np.testing.assert_allclose(got[alone], errors[alone], rtol=1e-3)


def test_estimates_are_bodies_and_never_push() -> None:
    """With noise that would make a mass or a friction negative."""
    states, random = motion(ARM, 40), np.random.default_rng(3)
    tau = torques(ARM, states) + random.normal(0.0, 5.0, (40, 2))
    found = dynagate.identify(ARM, **states, tau=-tau, prior=100.0)
    assert (found.parameters[:, 10:] >= 0.0).all()
    for row in found.parameters:
        assert np.linalg.eigvalsh(pseudo_inertia(row[:10]))[0] > 0.0


def test_exact_torques_are_found_exactly() -> None:
    states = motion(ARM, 200)
    found = dynagate.identify(ARM.with_armature(0.05), **states, tau=torques(RUBBING, states))
    assert found.residual.max() < 1e-6
    base = dynagate.base_parameters(ARM)
    values = base.matrix @ found.parameters.ravel()
    np.testing.assert_allclose(values, base.matrix @ RUBBING.dynamic_parameters.ravel(), atol=1e-5)


def test_what_a_motion_does_not_excite_is_named() -> None:
    states = motion(ARM, 100)
    states["q"][:, 1], states["qd"][:, 1], states["qdd"][:, 1] = 0.3, 0.0, 0.0  # the elbow stands still
    told = dynagate.excitation(ARM, **states)
    assert np.isinf(told.condition)
    assert {"elbow.friction", "elbow.damping"} <= set(told.unexcited)
    assert "shoulder.damping" not in told.unexcited
    with pytest.warns(RobotWarning, match=r"does not excite .*elbow.*Move all joints with different speeds"):
        found = dynagate.identify(ARM, **states, tau=torques(ARM, states))
    assert found.excitation.unexcited == told.unexcited
    kept = dynagate.identify(ARM, **motion(ARM, 100), tau=torques(ARM, motion(ARM, 100)), parameters=["elbow.damping"])
    assert np.isfinite(kept.standard_errors).sum() == 1
    assert (np.delete(kept.parameters.ravel(), 24) == np.delete(ARM.dynamic_parameters.ravel(), 24)).all()


def test_a_floating_robot_with_mimics_is_identified(tmp_path: Path) -> None:
    """Its measured base wrench stands in for torques; any leading axes."""
    robot = with_mimic()
    states = motion(robot, 400)
    found = dynagate.identify(
        robot,
        **{name: x.reshape(4, 100, -1) for name, x in states.items()},
        tau=torques(robot, states).reshape(4, 100, 6),
    )
    assert found.residual.max() < 1e-6
    floating = tree(57, tmp_path, floating_base=True)
    own = random_states(floating, 300, 4)
    truth = torques(floating, own)
    names = [link.name for link in floating.links if link.mass]
    result = dynagate.identify(floating, **own, tau=truth, parameters=names[:2], noise=0.1)
    assert result.residual.max() < 1e-3


def test_a_payload_is_least_squares_after_each_sample() -> None:
    states, noise = motion(RUBBING, 80), 0.05
    heavy = RUBBING.with_payload("forearm", 0.7, (0.02, 0.01, 0.2), np.diag([0.004, 0.005, 0.003]))
    carried = heavy.links[1].parameters() - RUBBING.links[1].parameters()
    tau = torques(heavy, states) + np.random.default_rng(4).normal(0.0, noise, (80, 2))
    with dynagate.payload_estimator(RUBBING, "forearm", noise=noise, size=2.0) as estimator:
        found = estimator(**states, tau=tau)
        first = estimator(**{name: x[:30] for name, x in states.items()}, tau=tau[:30])
        rest = estimator(**{name: x[30:] for name, x in states.items()}, tau=tau[30:], before=first)
    np.testing.assert_allclose(rest.parameters[-1], found.parameters[-1], atol=1e-12)
    slow = dynagate.payload_estimator(RUBBING, "forearm", noise=noise, size=2.0, device="numpy")(**states, tau=tau)
    np.testing.assert_allclose(slow.parameters, found.parameters, atol=1e-9)
    rows = evaluate(trace(RUBBING, "inverse_dynamics_regressor"), states)["regressor"][:, :, 1, :10]
    rest_of = tau - torques(RUBBING, states)
    sizes = 2.0 * np.array([1.0] + [0.1] * 3 + [0.01] * 6)
    for count in (1, 7, 80):
        matrix = np.vstack([rows[:count].reshape(-1, 10) / noise, np.diag(1.0 / sizes)])
        right = np.append(rest_of[:count].ravel() / noise, np.zeros(10))
        expected = np.linalg.lstsq(matrix, right, rcond=None)[0]
        np.testing.assert_allclose(found.parameters[count - 1], expected, atol=1e-8)
        errors = np.sqrt(np.diag(np.linalg.inv(matrix.T @ matrix)))
        np.testing.assert_allclose(found.standard_errors[count - 1], errors, rtol=1e-6)
    assert (np.abs(found.parameters[-1] - carried) < 4.0 * found.standard_errors[-1]).all()


def test_a_payload_that_is_put_down_is_forgotten() -> None:
    states = motion(ARM, 400)
    heavy = ARM.with_payload("forearm", 0.7, (0.0, 0.0, 0.2), np.diag([0.004, 0.005, 0.003]))
    tau = np.concatenate([torques(heavy, states)[:200], torques(ARM, states)[200:]])
    estimators = [dynagate.payload_estimator(ARM, "forearm", forgetting=x, device="numpy") for x in (1.0, 0.95)]
    kept, forgot = (estimator(**states, tau=tau).parameters[-1] for estimator in estimators)
    assert abs(forgot[3]) < 0.01
    assert abs(kept[3]) > 0.03


STATE = {name: np.zeros((3, 2)) for name in ("q", "qd", "qdd", "tau")}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"tau": np.zeros((3, 3))}, ArgumentError, "input 'tau' has shape (3, 3)"),
        ({"q": np.full((3, 2), np.nan)}, ArgumentError, "q is not finite in sample 0"),
        ({"qd": np.array([[0.0, np.inf]] * 3)}, ArgumentError, "qd is not finite in sample 0"),
        ({"q": np.zeros((0, 2))}, ArgumentError, "q has shape (0, 2), no samples; expected one or more"),
        ({"tau": np.zeros((3, 2)) * 1j}, ArgumentTypeError, "tau"),
        ({"tau": "torques"}, ArgumentTypeError, "tau"),
        ({"prior": 0.0}, ArgumentError, "identify() has prior 0"),
        ({"prior": np.nan}, ArgumentError, "identify() has prior "),
        ({"prior": True}, ArgumentError, "identify() has prior True"),
        ({"noise": -1.0}, ArgumentError, "identify() has noise -1"),
        ({"noise": [0.1, 0.1, 0.1]}, ArgumentError, "identify() has noise "),
        ({"parameters": []}, ArgumentError, "parameters=[]; expected names such as '*'"),
        ({"parameters": ["forearm.mass"]}, ArgumentError, "parameter 'forearm.mass'; expected links"),
        ({"parameters": ["gravity"]}, ArgumentError, "parameter 'gravity'; expected links"),
        ({"parameters": ["hand"]}, RobotError, "hand"),
        ({"parameters": ["*", "forearm"]}, RobotError, "forearm"),
        ({"robot": 7}, ArgumentTypeError, "robot"),
    ],
)
def test_arguments_that_are_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    if isinstance(change.get("q"), np.ndarray) and not len(change["q"]):
        change = {name: np.zeros((0, 2)) for name in STATE}
    with pytest.raises(error, match=re.escape(message)):
        dynagate.identify(**{"robot": ARM, **STATE, **change})


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"link": "hand"}, RobotError, "has no moving link 'hand'; expected one of upper_arm, forearm"),
        ({"link": 3}, ArgumentError, "link=3; expected a name"),
        ({"noise": 0.0}, ArgumentError, "payload_estimator() has noise 0"),
        ({"forgetting": 1.5}, ArgumentError, "payload_estimator() has forgetting 1.5"),
        ({"size": np.inf}, ArgumentError, "payload_estimator() has size inf"),
        (
            {"robot": ARM.with_variable("forearm")},
            ArgumentError,
            "has variable parameters; expected a robot of constants",
        ),
    ],
)
def test_estimators_that_are_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        dynagate.payload_estimator(**{"robot": ARM, "link": "forearm", "device": "numpy", **change})


def test_a_robot_at_rest_without_torques() -> None:
    """Nothing to learn but that nothing acts: no division by zero, and a warning."""
    with pytest.warns(RobotWarning, match="does not excite"):
        found = dynagate.identify(ARM, **STATE)
    assert np.isfinite(found.parameters).all()


def test_triangles_have_the_same_squares() -> None:
    columns = columns_of(ARM, ["*"])
    states = measured(ARM, **random_states(ARM, 2100, 6), tau=np.random.default_rng(0).normal(size=(2100, 2)))
    found = equations(columns, states)
    rows = evaluate(trace(ARM, "inverse_dynamics_regressor"), {k: states[k] for k in ("q", "qd", "qdd")})["regressor"]
    values = columns.values * 1.3
    errors = states["tau"] - rows.reshape(2100, 2, 26)[:, :, list(columns.places)] @ values
    fixed = ARM.dynamic_parameters.ravel().copy()
    fixed[list(columns.places)] = 0.0
    errors -= rows.reshape(2100, 2, 26) @ fixed
    np.testing.assert_allclose(found.residual(values), np.sqrt((errors**2).mean(axis=0)), rtol=1e-10)
