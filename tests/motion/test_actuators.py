"""Actuators: the motion of each equals a loop in numpy with the law written again, and its derivatives differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynagate import JointPD, Robot, Rollout, difference, robots
from dynagate.base.errors import ArgumentError
from dynagate.dynamics.configuration import integrate, normalized
from dynagate.forces import (
    Actuator,
    Damping,
    DCMotor,
    Delay,
    ForceError,
    Lag,
    LearnedActuator,
    MotorCurve,
    PositionServo,
    Ramp,
    SeriesElastic,
    Servo,
    as_text,
    of_text,
)

from tests.mimic_hand import hand
from tests.mimic_hand import read_hand as read
from tests.robots import floating_robot

Arrays = dict[str, np.ndarray]
DT, STEPS, COUNT = 5e-3, 6, 3

RANDOM = np.random.default_rng(8)
NETWORK = [RANDOM.normal(size=shape) for shape in ((4, 6), (3, 4), (1, 3))]
BIASES = [RANDOM.normal(size=size) for size in (4, 3, 1)]


@pytest.fixture(params=["arm", "floating", "mimic"])
def robot(request: pytest.FixtureRequest, tmp_path: Path) -> Robot:
    made: dict[str, Callable[[], Robot]] = {
        "arm": lambda: robots.load("two_joint_arm").with_damping(0.1),
        "floating": lambda: floating_robot(4, tmp_path),
        "mimic": lambda: read(hand(), tmp_path),
    }
    return made[request.param]()


Law = Callable[..., np.ndarray]
"""Commands, position errors and speeds of the joints (batch, joints) to torques. A law keeps its own states."""


def delay(steps: int) -> Law:
    queue: list[np.ndarray] = []

    def law(u: np.ndarray, error: np.ndarray, rate: np.ndarray) -> np.ndarray:
        queue.append(u)
        return queue[-1 - steps] if len(queue) > steps else np.zeros_like(u)

    return law


def ramp() -> Law:
    total: list[np.ndarray] = []

    def law(u: np.ndarray, error: np.ndarray, rate: np.ndarray) -> np.ndarray:
        total.append((total[-1] if total else 0.0) + DT * u)
        return total[-1]

    return law


def lag(time: float) -> Law:
    y: list[np.ndarray] = []

    def law(u: np.ndarray, error: np.ndarray, rate: np.ndarray) -> np.ndarray:
        now = y[-1] if y else np.zeros_like(u)
        y.append(u - (u - now) * math.exp(-DT / time))
        return now

    return law


def curve(stall: float, no_load: float, largest: float) -> Law:
    def law(u: np.ndarray, error: np.ndarray, rate: np.ndarray) -> np.ndarray:
        most = np.clip(stall * (1.0 - rate / no_load), 0.0, largest)
        least = np.clip(-stall * (1.0 + rate / no_load), -largest, 0.0)
        return np.clip(u, least, most)

    return law


def motor(k: float, r: float, volts: float, amperes: float, ratio: float, inductance: float = 0.0) -> Law:
    currents: list[np.ndarray] = []

    def law(u: np.ndarray, error: np.ndarray, rate: np.ndarray) -> np.ndarray:
        volt = np.clip(u * r / k / ratio, -volts, volts)
        settled = (volt - k * ratio * rate) / r
        if not inductance:
            return k * ratio * np.clip(settled, -amperes, amperes)
        now = currents[-1] if currents else np.zeros_like(u)
        after = settled + (now - settled) * math.exp(-DT * r / inductance)
        currents.append(np.clip(after, -amperes, amperes))
        return k * ratio * now

    return law


def spring(k: float, inertia: float, damping: float, friction: float, play: float, rounding: float) -> Law:
    states: list[tuple[Any, Any]] = [(0.0, 0.0)]

    def law(u: np.ndarray, error: np.ndarray, rate: np.ndarray) -> np.ndarray:
        x, w = states[-1]
        x = x + DT * (w - rate)
        s = x + 0.5 * np.hypot(x - play / 2, rounding) - 0.5 * np.hypot(x + play / 2, rounding)
        torque = k * (s if play else x) + damping * (w - rate)
        states.append((x, w + DT / inertia * (u - torque - friction * w)))
        return np.asarray(torque)

    return law


def network(history: int, activation: Callable[[np.ndarray], np.ndarray]) -> Law:
    errors: list[np.ndarray] = []
    rates: list[np.ndarray] = []

    def law(u: np.ndarray, error: np.ndarray, rate: np.ndarray) -> np.ndarray:
        errors.insert(0, 0.7 * error)
        rates.insert(0, 0.3 * rate)
        none = [np.zeros_like(u)] * history
        x = np.stack([*(errors + none)[:history], *(rates + none)[:history]], axis=-1)
        for k, (w, b) in enumerate(zip(NETWORK, BIASES, strict=True)):
            x = x @ w.T + b
            x = activation(x) if k < 2 else x
        return u + 2.0 * x[..., 0]

    return law


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "softsign": lambda x: x / (1.0 + np.abs(x)),
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0))),
}

SCALES = {"error_scale": 0.7, "speed_scale": 0.3, "scale": 2.0}

CASES: dict[str, tuple[list[Actuator], Callable[[], list[Law]]]] = {
    "delay": ([Delay(2)], lambda: [delay(2)]),
    "ramp": ([Ramp()], lambda: [ramp()]),
    "lag": ([Lag(0.02)], lambda: [lag(0.02)]),
    "curve": ([MotorCurve(0.5, 2.0, 0.3)], lambda: [curve(0.5, 2.0, 0.3)]),
    "motor": ([DCMotor(0.1, 2.0, 3.0, 0.4, ratio=3.0)], lambda: [motor(0.1, 2.0, 3.0, 0.4, 3.0)]),
    "inductance": ([DCMotor(0.1, 2.0, 3.0, 0.4, 0.01, 3.0)], lambda: [motor(0.1, 2.0, 3.0, 0.4, 3.0, 0.01)]),
    "spring": ([SeriesElastic(40.0, 0.02, 0.1, 0.02)], lambda: [spring(40.0, 0.02, 0.1, 0.02, 0.0, 1e-3)]),
    "play": ([SeriesElastic(40.0, 0.02, play=4e-3)], lambda: [spring(40.0, 0.02, 0.0, 0.0, 4e-3, 1e-3)]),
    **{
        name: (
            [LearnedActuator(NETWORK, BIASES, 3, name, **SCALES)],
            lambda name=name: [network(3, ACTIVATIONS[name])],  # type: ignore[misc]
        )
        for name in ACTIVATIONS
    },
    "chain": (
        [Delay(1), Lag(0.02), SeriesElastic(40.0, 0.02)],
        lambda: [delay(1), lag(0.02), spring(40.0, 0.02, 0.0, 0.0, 0.0, 1e-3)],
    ),
}


def begun(robot: Robot) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return starts, torques and targets (COUNT, ...)."""
    random = np.random.default_rng(3)
    q = normalized(robot, random.normal(size=(COUNT, robot.nq)))
    tau, target = random.normal(size=(2, COUNT, STEPS, robot.nv))
    return q, random.normal(size=(COUNT, robot.nv)), tau, target


def places(robot: Robot) -> tuple[list[int], list[int]]:
    own = [(iq.start, iv.start) for joint, iq, iv in robot.moving() if joint.nv == 1]
    return [q for q, _ in own], [v for _, v in own]


@pytest.mark.parametrize(
    ("case", "integrator"), [*((case, "semi_implicit_euler") for case in CASES), ("chain", "rk4"), ("motor", "rk4")]
)
def test_an_actuator_equals_its_law_in_numpy(robot: Robot, case: str, integrator: str) -> None:
    actuators, laws = CASES[case][0], CASES[case][1]()
    q0, qd0, tau, target = begun(robot)
    given = {"target": target} if any(each.inputs for each in actuators) else {}
    forces = [Damping(0.05), *actuators]
    compiled: Any = {} if case == "chain" else {"device": "numpy"}
    motion = Rollout(robot, STEPS, DT, forces=forces, integrator=integrator, **compiled)(q0, qd0, tau, **given)
    one = Rollout(robot, 1, DT, forces=[Damping(0.05)], integrator=integrator, device="numpy")
    at_q, at_v = places(robot)
    q, qd = q0, qd0
    for k in range(STEPS):
        torque = tau[:, k].copy()
        error, rate = target[:, k][:, at_v] - q[:, at_q], qd[:, at_v]
        for law in laws:
            torque[:, at_v] = law(torque[:, at_v], error, rate)
        np.testing.assert_allclose(motion.tau[:, k], torque, atol=1e-9 * max(1.0, np.abs(torque).max()))
        step = one(q, qd, torque[:, None])
        q, qd = step.q[:, 1], step.qd[:, 1]
        np.testing.assert_allclose(motion.q[:, k + 1], q, atol=1e-9)
        np.testing.assert_allclose(motion.qd[:, k + 1], qd, atol=1e-9 * max(1.0, np.abs(qd).max()))


def slopes(robot: Robot, rollout: Rollout, inputs: Arrays) -> None:
    """Compare a reverse sweep over a motion, by all inputs, with differences along a random direction."""
    random = np.random.default_rng(1)
    weights = random.normal(size=(2, COUNT, STEPS + 1, robot.nv))
    motion = rollout(**inputs)
    others = {name: value for name, value in inputs.items() if name not in ("q0", "qd0", "tau")}
    by = rollout.vjp(motion, inputs["tau"], *weights, **others)
    ways = {name: random.normal(size=by[name].shape) for name in inputs}
    size, costs = 1e-6, []
    for sign in (1.0, -1.0):
        moved = {name: value + sign * size * ways[name] for name, value in inputs.items() if name != "q0"}
        ends = rollout(q0=integrate(robot, inputs["q0"], sign * size * ways["q0"]), **moved)
        away = np.stack([difference(robot, motion.q[:, k], ends.q[:, k]) for k in range(STEPS + 1)], axis=1)
        costs.append((weights[0] * away).sum() + (weights[1] * ends.qd).sum())
    expected = sum((by[name] * ways[name]).sum() for name in inputs)
    scale = sum(np.abs(by[name] * ways[name]).sum() for name in inputs)
    np.testing.assert_allclose(expected, (costs[0] - costs[1]) / (2.0 * size), atol=1e-6 * scale)


@pytest.mark.parametrize("case", ["curve", "inductance", "play", "tanh", "chain"])
@pytest.mark.parametrize("feedback", [False, True])
def test_gradients_by_all_inputs_and_states(robot: Robot, case: str, feedback: bool) -> None:
    q0, qd0, tau, target = begun(robot)
    law: Any = {"feedback": JointPD()} if feedback else {}
    rollout = Rollout(robot, STEPS, DT, forces=CASES[case][0], device="numpy", **law)
    random = np.random.default_rng(5)
    inputs = {"q0": q0, "qd0": qd0, "tau": tau, **({"target": target} if rollout.force_inputs else {})}
    inputs |= {name: random.normal(size=(COUNT, STEPS, *shape)) for name, shape in rollout.feedback_shapes.items()}
    inputs |= {name: 0.1 * random.normal(size=(COUNT, size)) for name, size in rollout.drive.sizes.items()}
    slopes(robot, rollout, inputs)


def test_a_rollout_goes_on_from_the_states_of_another(robot: Robot) -> None:
    q0, qd0, tau, _ = begun(robot)
    forces = CASES["chain"][0]
    whole = Rollout(robot, STEPS, DT, forces=forces, device="numpy")(q0, qd0, tau)
    half = Rollout(robot, STEPS // 2, DT, forces=forces, device="numpy")
    first = half(q0, qd0, tau[:, : STEPS // 2])
    states = {name: values[:, -1] for name, values in first.actuators.items()}
    second = half(first.q[:, -1], first.qd[:, -1], tau[:, STEPS // 2 :], **states)
    np.testing.assert_allclose(second.q, whole.q[:, STEPS // 2 :], atol=1e-13)
    seldom = Rollout(robot, STEPS, DT, forces=forces, device="numpy", every=3)(q0, qd0, tau)
    for name, values in whole.actuators.items():
        np.testing.assert_array_equal(seldom.actuators[name], values[:, 2::3])


def test_derivatives_of_steps_have_the_states_of_actuators(robot: Robot) -> None:
    q0, qd0, tau, _ = begun(robot)
    options: Any = {"forces": CASES["chain"][0], "device": "numpy"}
    linear = Rollout(robot, STEPS, DT, linearize=True, **options)(q0, qd0, tau)
    one, n = Rollout(robot, 1, DT, **options), robot.nv
    last = {name: values[:, -2] for name, values in linear.actuators.items()}
    sizes = [n, n, *(values.shape[1] for values in last.values()), n]
    for k, way in enumerate(1e-6 * np.eye(sum(sizes))):
        q, qd, *states, torque = np.split(way, np.cumsum(sizes)[:-1])
        ends = []
        for sign in (1.0, -1.0):
            own = {name: x + sign * d for (name, x), d in zip(last.items(), states, strict=True)}
            start = integrate(robot, linear.q[:, -2], np.broadcast_to(sign * q, (COUNT, n)))
            ends.append(one(start, linear.qd[:, -2] + sign * qd, (tau[:, -1] + sign * torque)[:, None], **own))
        moved = [difference(robot, ends[1].q[:, 1], ends[0].q[:, 1]), ends[0].qd[:, 1] - ends[1].qd[:, 1]]
        moved += [ends[0].actuators[name][:, 0] - ends[1].actuators[name][:, 0] for name in last]
        found = np.concatenate([linear.a, linear.b], axis=3)[:, -1, :, k]
        expected = np.concatenate(moved, axis=1) / 2e-6
        np.testing.assert_allclose(found, expected, atol=1e-6 * max(1.0, np.abs(expected).max()))


def test_a_lag_is_that_of_mujoco(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    actuator = '<actuator><general joint="a" dyntype="filterexact" dynprm="0.03" gainprm="1"/></actuator>'
    text = f"""<mujoco><option timestep="0.005" gravity="0 0 -9.81" integrator="Euler"/>
    <worldbody><body><joint name="a" type="hinge" axis="0 1 0"/>
    <inertial pos="0 0 0.2" mass="1" diaginertia="0.02 0.02 0.01"/></body></worldbody>{actuator}</mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data, path = mujoco.MjData(model), tmp_path / "one.xml"
    path.write_text(text.replace(actuator, ""))
    own = Robot.from_file(path, trust=True)
    tau = np.random.default_rng(0).normal(size=(50, 1))
    motion = Rollout(own, 50, DT, forces=[Lag(0.03)], device="numpy")(np.zeros(1), np.zeros(1), tau)
    for k in range(50):
        data.ctrl[:] = tau[k]
        mujoco.mj_step(model, data)
        np.testing.assert_allclose(motion.q[k + 1], data.qpos, atol=1e-12)
        np.testing.assert_allclose(motion.actuators["lag"][k], data.act, atol=1e-12)


def test_an_unstable_spring_is_refused_with_its_largest_step() -> None:
    """A held joint: the step below the largest one stays bounded, the one above it grows."""
    elastic = SeriesElastic(400.0, 0.01, 0.2, 0.1)
    most = elastic.largest_step(robots.load("two_joint_arm"))
    for factor, bounded in ((0.999, True), (1.001, False)):
        x, w, dt = 1.0, 0.0, factor * most
        for _ in range(100_000):
            x = x + dt * w
            w = w - dt / 0.01 * (400.0 * x + 0.2 * w + 0.1 * w)
            if abs(x) > 1e6:
                break
        assert (abs(x) < 10.0) is bounded
    with pytest.raises(ArgumentError, match=r"dt=0.02 makes SeriesElastic unstable; expected at most 0.00\d+ s"):
        Rollout("two_joint_arm", 2, 0.02, forces=[elastic])


def test_actuators_as_text() -> None:
    for actuators, _ in CASES.values():
        for each in actuators:
            assert of_text(as_text(each)) == each
    named = Lag((0.1,), joints=("elbow",))
    assert of_text(as_text(named)) == named


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Delay(0), "Delay has steps 0; expected a whole number from 1 to 64"),
        (lambda: Delay(1.5), "Delay has steps 1.5; expected a whole number"),
        (lambda: Delay(65), "Delay has steps 65; expected a whole number from 1 to 64"),
        (lambda: Lag(0.0), "Lag has time 0.0; expected a finite number above 0"),
        (lambda: Lag(float("nan")), "Lag has time nan; expected a finite number above 0"),
        (lambda: Lag("1"), "Lag has time '1'; expected"),
        (lambda: Lag(1.0, joints="elbow"), "Lag has joints 'elbow'; expected a tuple of names"),
        (lambda: Lag(1.0, joints=("elbow", "elbow")), "expected each joint once"),
        (lambda: MotorCurve(1.0, -1.0), "MotorCurve has no_load -1.0; expected"),
        (lambda: MotorCurve(1.0, 1.0, np.inf), "MotorCurve has largest inf; expected"),
        (lambda: DCMotor(0.1, 1.0, inductance=-1.0), "DCMotor has inductance -1.0; expected"),
        (lambda: SeriesElastic(0.0, 1.0), "SeriesElastic has stiffness 0.0; expected"),
        (lambda: SeriesElastic(1.0, True), "SeriesElastic has inertia True; expected"),
        (lambda: LearnedActuator([], []), "expected a matrix and a vector for each layer"),
        (lambda: LearnedActuator([[[1.0, 2.0]]], [[1.0]], activation="gelu"), "has activation 'gelu'; expected one of"),
        (lambda: LearnedActuator([[[1.0, 2.0, 3.0]]], [[1.0]]), r"has weights\[0\] .*; expected"),
        (lambda: LearnedActuator([[[1.0, np.nan]]], [[1.0]]), r"has weights\[0\] .*; expected"),
        (lambda: LearnedActuator([np.ones((2, 2))], [[1.0, 1.0]]), "2 biases in layer 0; expected 1, the torque"),
        (lambda: LearnedActuator([[[1.0, 2.0]]], [[1.0]], history=0), "has history 0; expected a whole number"),
    ],
)
def test_what_an_actuator_refuses(make: Callable[[], Actuator], message: str) -> None:
    with pytest.raises(ForceError, match=message):
        make()


@pytest.mark.parametrize(
    ("forces", "message"),
    [
        ([Lag(1.0, joints=("hip",))], "Lag has joint 'hip', which is no revolute or prismatic joint of robot"),
        ([Lag((1.0, 2.0, 3.0))], "Lag has 3 numbers as time; expected one, or 2"),
        ([Lag(1.0), Lag(2.0)], "forces has 2 of Lag"),
    ],
)
def test_what_a_rollout_refuses_of_actuators(forces: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rollout("two_joint_arm", 2, DT, forces=forces)


def test_a_position_servo_is_a_servo_within_its_limit() -> None:
    arm, target = robots.load("two_joint_arm"), np.full((40, 2), [0.5, -0.4])
    start = np.array([0.1, 0.2]), np.array([0.3, -0.1])
    free = Rollout(arm, 40, 5e-3, forces=[PositionServo(20.0, 1.5)], device="numpy")(*start, target)
    pulled = Rollout(arm, 40, 5e-3, forces=[Servo(20.0, 1.5)], device="numpy")
    expected = pulled(*start, np.zeros((40, 2)), target=target)
    np.testing.assert_allclose(free.q, expected.q, atol=1e-12)
    weak = Rollout(arm, 40, 5e-3, forces=[PositionServo(20.0, 1.5, 4.0)], device="numpy")(*start, target)
    unlimited = 20.0 * (target - weak.q[:-1]) - 1.5 * weak.qd[:-1]
    np.testing.assert_allclose(weak.tau, np.clip(unlimited, -4.0, 4.0), atol=1e-12)
    assert (np.abs(unlimited) > 4.0).any()
