"""Rigid ground together with forces, variable parameters and joint limits: a leg on a floating trunk."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Robot, RobotWarning, Rollout, difference, neutral
from dynagate.base.errors import ArgumentError
from dynagate.forces import CompliantContact, Contact, Damping, Friction, Limits, Point, Servo
from dynagate.forces.contact import ContactError
from dynagate.integrators import RigidContact

from tests.jointed_bodies import HIP, LEG
from tests.rebuilt import rebuilt

DT, STEPS = 2e-3, 12
FOOT = Point("shank", (0.0, 0.0, -0.2))
GROUND = RigidContact(
    [FOOT, Point("trunk", (0.1, 0.1, -0.05)), Point("trunk", (-0.1, 0.0, -0.05))],
    friction=0.6,
    tolerance=1e-10,
    sweeps=3000,
    compliance=1e-3,
)
FORCES = (Servo(20.0, 0.5), Friction(0.2), Limits(50.0), Damping(0.05))

Arrays = dict[str, np.ndarray]


@cache
def rolling(
    robot: Robot, steps: int = STEPS, forces: tuple[Any, ...] = (), *, implicit_damping: bool = False
) -> Rollout:
    options: dict[str, Any] = {"forces": forces, "implicit_damping": implicit_damping, "device": "numpy"}
    return Rollout(robot, steps=steps, dt=DT, contacts=GROUND, **options)


def drawn() -> Arrays:
    """A leg that lands on its foot, one that lies on its trunk, one at rest in the air, and one beyond a limit."""
    random = np.random.default_rng(3)
    q0 = np.tile(neutral(LEG), (4, 1))
    q0[:, 2], q0[:, 7], q0[:, 8] = [0.395, 0.05, 1.0, 0.3], [0.5, 0.5, 0.5, 1.6], -1.0
    qd0, tau = 0.3 * random.normal(size=(4, 8)), np.zeros((4, STEPS, 8))
    qd0[2], tau[..., 6:] = 0.0, 0.5 * random.normal(size=(4, STEPS, 2))
    return {"q0": q0, "qd0": qd0, "tau": tau}


def slopes(rollout: Rollout, call: Arrays, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivative of a cost along a direction of an argument, by `vjp` and by central differences."""
    random = np.random.default_rng(5)
    weights = random.normal(size=(2, 4, STEPS + 1, 8))
    motion = rollout(**call)
    direction = random.normal(size=call[name].shape) * np.maximum(np.abs(call[name]), 0.1)
    given = {each: value for each, value in call.items() if each not in ("q0", "qd0")}
    by = rollout.vjp(motion, given.pop("tau"), *weights, **given)[name]
    costs = []
    for sign in (1.0, -1.0):
        moved = rollout(**{**call, name: call[name] + sign * 1e-6 * direction})
        away = difference(LEG, motion.q, moved.q)
        costs.append((away * weights[0] + moved.qd * weights[1]).sum(axis=(1, 2)))
    return (by * direction).reshape(4, -1).sum(axis=1), (costs[0] - costs[1]) / 2e-6


def test_forces_act_as_torques_of_single_steps() -> None:
    call, target = drawn(), np.zeros((4, STEPS, 8))
    target[..., 6:] = np.random.default_rng(4).uniform(-1.0, 1.0, (4, STEPS, 2))
    motion = rolling(LEG, forces=FORCES)(**call, target=target)
    assert motion.converged.all()
    assert motion.impulse is not None
    assert (np.abs(motion.impulse).max(axis=(1, 2, 3)) > 0.0).tolist() == [True, True, False, False]
    q, qd = call["q0"], call["qd0"]
    for k in range(STEPS):
        angle, rate, torque = q[:, 7:], qd[:, 6:], call["tau"][:, k].copy()
        depth = np.maximum(angle - LEG.upper[7:], 0.0)  # no leg comes to a lower limit
        torque[:, 6:] += 20.0 * (target[:, k, 6:] - angle) - 0.5 * rate - 0.05 * rate
        torque[:, 6:] -= 0.2 * rate / np.sqrt(rate**2 + Friction().speed ** 2)
        torque[:, 6:] -= 50.0 * depth * np.maximum(1.0 + Limits(50.0).dissipation * rate, 0.0)
        step = rolling(LEG, steps=1)(q, qd, torque[:, None])
        q, qd = step.q[:, -1], step.qd[:, -1]
        np.testing.assert_allclose(motion.q[:, k + 1], q, atol=1e-8)
        np.testing.assert_allclose(motion.qd[:, k + 1], qd, atol=1e-6)
    compiled = Rollout(LEG, steps=STEPS, dt=DT, contacts=GROUND, forces=FORCES)
    np.testing.assert_allclose(compiled(**call, target=target).qd, motion.qd, atol=1e-10)


@pytest.mark.parametrize("name", ["qd0", "tau"])
def test_gradients_with_forces_are_differences(name: str) -> None:
    call = {**drawn(), "target": np.full((4, STEPS, 8), -0.5)}
    by, differences = slopes(rolling(LEG, forces=FORCES), call, name)
    np.testing.assert_allclose(by, differences, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("implicit_damping", [pytest.param(False, marks=pytest.mark.long), True])
def test_variable_parameters_are_those_of_a_rebuilt_robot(implicit_damping: bool) -> None:
    names = ("*.mass", "shank.com", "knee.damping", "hip.armature", "*.friction", "knee.position", "gravity")
    varied = LEG.with_variable(*names)
    random, call = np.random.default_rng(6), drawn()
    values = {
        name: np.asarray(value) * (1.0 + 0.2 * random.uniform(-1.0, 1.0, np.shape(value)))
        for name, value in varied.parameters.items()
    }
    values["friction"] = np.array([0.1, 0.2])
    values["hip_armature"] = np.array(0.01)
    moving = rolling(varied, implicit_damping=implicit_damping)
    motion = moving(**call, **values)
    other = rebuilt(varied, values)
    plain = rolling(other, implicit_damping=implicit_damping)(**call)
    np.testing.assert_allclose(motion.qd, plain.qd, atol=1e-9)
    assert np.abs(motion.qd - rolling(LEG)(**call).qd).max() > 1e-3
    each = {name: np.broadcast_to(value, (4, *value.shape)) for name, value in values.items()}
    for name in values:
        by, differences = slopes(moving, {**call, **each}, name)
        assert np.abs(by).max() > 1e-4, name
        np.testing.assert_allclose(by, differences, rtol=1e-4, atol=1e-5, err_msg=name)


LAWS: dict[str, Callable[[float], dict[str, Any]]] = {
    "rigid": lambda friction: {"contacts": replace(GROUND, friction=friction)},
    "compliant": lambda friction: {"forces": [CompliantContact([FOOT], friction=friction)]},
    "paper": lambda friction: {"forces": [Contact([FOOT], friction=1e3 * friction)]},
}


@pytest.mark.parametrize("law", LAWS)
def test_friction_of_the_ground_as_an_input_is_that_of_the_law(law: str) -> None:
    """A foot in the ground that slides, one that is held by friction, and one without friction."""
    call = {name: array[:3] for name, array in drawn().items()}
    call["q0"][:, 2:3], call["q0"][:, 7:] = 0.39, [0.5, -1.0]
    call["qd0"][:, 3:] = 0.0
    call["qd0"][:, 0] = [1.0, 0.05, 1.0]
    friction, scale = np.array([0.3, 0.9, 0.0]), 1e3 if law == "paper" else 1.0
    options: dict[str, Any] = {"steps": STEPS, "dt": DT, "device": "numpy"}
    varied = Rollout(LEG.with_variable("ground.friction"), **options, **LAWS[law](0.5))
    given = {**call, "ground_friction": scale * friction}
    motion = varied(**given)
    for k, each in enumerate(friction):
        own = Rollout(LEG, **options, **LAWS[law](each))(*(array[k] for array in call.values()))
        np.testing.assert_array_equal(motion.q[k], own.q)
    compiled = Rollout(LEG.with_variable("ground.friction"), STEPS, DT, **LAWS[law](0.5))
    np.testing.assert_allclose(compiled(**given).qd, motion.qd, atol=1e-10)
    weights = np.random.default_rng(2).normal(size=(2, 3, STEPS + 1, 8))
    by = varied.vjp(motion, call["tau"], *weights, ground_friction=given["ground_friction"])["ground_friction"]
    costs = []
    for sign in (1.0, -1.0):
        step = sign * 1e-6 * scale * (friction > 0.0)
        moved = varied(**{**given, "ground_friction": given["ground_friction"] + step})
        away = difference(LEG, motion.q, moved.q)
        costs.append((away * weights[0] + moved.qd * weights[1]).sum(axis=(1, 2)))
    differences = (costs[0] - costs[1]) / 2e-6
    assert abs(differences[0]) > 1e-5
    np.testing.assert_allclose(scale * by[:2], differences[:2], rtol=1e-4, atol=1e-5)


def test_friction_of_a_joint_that_is_called_ground_is_its_own() -> None:
    links = (replace(LEG.links[0], joint=replace(LEG.links[0].joint, name="base")),)
    links += (replace(LEG.links[1], joint=replace(HIP, name="ground")), LEG.links[2])
    assert Robot("leg", links).with_variable("ground.friction").variables[0].owners == (1,)
    assert LEG.with_variable("ground.friction").parameters == {"ground_friction": 0.8}
    rollout = Rollout(LEG.with_variable("ground.friction"), 1, DT, contacts=GROUND, device="numpy")
    with pytest.raises(ValueError, match=r"ground_friction' is -0.1.*expected a number of 0 or more"):
        rollout(neutral(LEG), np.zeros(8), np.zeros((1, 8)), ground_friction=-0.1)


def test_a_motion_beyond_limits_is_warned_of_with_advice_that_works() -> None:
    state = drawn()["q0"][2], np.array([0.0] * 6 + [200.0, 0.0]), np.zeros((STEPS, 8))
    for options in ({"contacts": GROUND}, {"integrator": "variational"}):
        with pytest.warns(RobotWarning, match="passes its limits") as caught:
            Rollout(LEG, steps=STEPS, dt=DT, device="numpy", **options)(*state)
        (text,) = (str(each.message) for each in caught if "passes its limits" in str(each.message))
        assert ("Stops" in text) == ("contacts" in options)
        assert "forces=[Limits(stiffness)]" in text


def test_names_in_place_of_points_and_contacts() -> None:
    names: Any = ["foot"]
    with pytest.raises(ContactError, match=re.escape("such as Point(link, position) with the name of a link")):
        RigidContact(names)
    with pytest.raises(ArgumentError, match=re.escape("with points such as Point(link, position)")):
        Rollout(LEG, steps=2, dt=DT, contacts=names)
    framed = LEG.with_frame("foot", "shank", (0.0, 0.0, -0.2))
    with pytest.raises(ContactError, match=re.escape("; the frame 'foot' is Point('shank', (0, 0, -0.2))")):
        Rollout(framed, steps=2, dt=DT, contacts=RigidContact([Point("foot", (0.0, 0.0, 0.0))]))


def test_targets_of_a_floating_robot_have_a_number_for_each_velocity() -> None:
    ends = "expected 8, one for each velocity; those of floating and ball joints are ignored"
    with pytest.raises(dynagate.Error, match=f"servo has 2 numbers as target; {ends}"):
        rolling(LEG, forces=(Servo(20.0, target=(0.5, -1.0)),))
    with pytest.raises(ArgumentError, match=f"target has 2 numbers; {ends}"):
        rolling(LEG, forces=(Servo(20.0),))(**drawn(), target=[0.5, -1.0])
    target = np.array([np.nan] * 6 + [0.5, -1.0])
    target[:6] = 7.0
    far, near = (rolling(LEG, forces=(Servo(20.0),))(**drawn(), target=x) for x in (target, [0.0] * 6 + [0.5, -1.0]))
    np.testing.assert_array_equal(far.q, near.q)
