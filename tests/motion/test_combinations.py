"""Options of rollouts with each other: each cell of a table equals an independent computation, or is refused by name.

Rows are options, columns methods and callers. A cell of a method equals a loop of single steps, whose feedback is
computed here. The variational method, whose velocities are means of steps, is compared with Runge-Kutta steps instead.
Frameworks and solvers are compared with `Rollout`. docs/loops.md has the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
import pytest
from dynagate import Robot, RobotWarning, Rollout, Trajectories, robots
from dynagate.control import Cost
from dynagate.control.knot_step import KnotStep
from dynagate.forces import (
    CompliantContact,
    Contact,
    Damping,
    DCMotor,
    Delay,
    Drag,
    Friction,
    Lag,
    LearnedActuator,
    Limits,
    MotorCurve,
    Plane,
    Point,
    PositionServo,
    Ramp,
    SeriesElastic,
    Servo,
    Stops,
)
from dynagate.graph.loop import Count, Loop, evaluate_loop
from dynagate.integrators import JointPD, RigidContact
from dynagate.integrators.limits import ranges
from dynagate.integrators.motion_options import MotionOptions

Arrays = dict[str, np.ndarray]

ARM = robots.load("two_joint_arm").with_damping(0.1)
STEPS, DT = 3, 2e-3
TIP, FLOOR = Point("forearm", (0.0, 0.0, 0.3)), Plane(offset=-0.4)
GROUND = RigidContact([TIP], [FLOOR], compliance=1e-3, tolerance=1e-12, sweeps=4000)
HELD_GROUND = replace(GROUND, compliance=0.1)
EQUAL = ARM.with_joint_equality("elbow", "shoulder", (0.1, -1.0))
VARIED = ARM.with_variable("*.mass", "elbow.damping", "gravity", "ground.friction")
VALUES = {name: np.broadcast_to(1.1 * value, (3, *value.shape)).copy() for name, value in VARIED.parameters.items()}

START = np.array([[2.6, 0.4], [0.3, -0.5], [2.9, 0.2]])
"""Two arms that touch the floor, and one that does not."""

SPEED = np.array([[0.5, -1.0], [1.0, 0.3], [0.0, 0.0]])
TORQUES = np.random.default_rng(5).uniform(-1.0, 1.0, (3, STEPS, 2))


@dataclass(frozen=True)
class Row:
    """Options of a rollout, the inputs of its calls, (3, STEPS, ...), and its robot's parameters, (3, ...)."""

    options: dict[str, Any] = field(default_factory=dict)
    inputs: Arrays = field(default_factory=dict)
    parameters: Arrays = field(default_factory=dict)
    robot: Robot = ARM
    dt: float | None = DT
    atol: float = 1e-9


HOLDING = {port.name for port in dynagate.trace(VARIED, "inverse_dynamics").inputs}
"""Inputs of the torques that hold a robot."""


def drawn(**shapes: tuple[int, ...]) -> Arrays:
    random = np.random.default_rng(3)
    return {name: random.uniform(-1.0, 1.0, (3, STEPS, *shape)) for name, shape in shapes.items()}


def held(array: np.ndarray) -> np.ndarray:
    """Return inputs of steps that all have the first one's numbers."""
    return np.repeat(array[:, :1], STEPS, axis=1)


GAINS = drawn(gain=(2, 4), q_ref=(2,), qd_ref=(2,))
JOINT_GAINS = drawn(joint_target=(2,), joint_stiffness=(2,), joint_damping=(2,))
BIND, VJP = "`bind`", "`vjp`"

NETWORK = LearnedActuator([[[0.5, -0.2], [0.1, 0.4]], [[2.0, -1.0]]], [[0.1, 0.2], [0.3]], activation="tanh")
LATE = [Ramp(joints=("elbow",)), Delay(1), Lag(0.01), SeriesElastic(30.0, 0.05, 0.1)]

ROWS: dict[str, Row] = {
    "no option": Row(),
    "`Servo` with a target": Row({"forces": [Servo(50.0, 1.0, target=(0.3, -0.2))]}),
    "`Servo` with the input `target`": Row({"forces": [Servo(50.0, 1.0)]}, drawn(target=(2,))),
    "`Friction`": Row({"forces": [Friction(0.5, speed=0.3)]}),
    "`Friction` with `breakaway`": Row({"forces": [Friction(0.5, speed=0.3, breakaway=1.6, stribeck=0.4)]}),
    "`Damping`": Row({"forces": [Damping(5.0)]}),
    "`Limits`": Row({"forces": [Limits(100.0)]}),
    "`Stops`": Row({"forces": [Stops()]}),
    "`Drag`": Row({"forces": [Drag((1e3, 2e3))]}),
    "`CompliantContact`": Row({"forces": [CompliantContact([TIP], [FLOOR], stiffness=300.0, speed=0.3)]}),
    "`Contact`": Row({"forces": [Contact([TIP], [FLOOR], friction=1e3)]}),
    "`PositionServo`": Row({"forces": [PositionServo(3.0, 0.2, 20.0)]}),
    "`MotorCurve`, `DCMotor`": Row({"forces": [MotorCurve(0.6, 3.0), DCMotor(0.1, 1.0, 4.0, ratio=2.0)]}),
    "`LearnedActuator`": Row({"forces": [NETWORK]}, drawn(target=(2,))),
    "`Ramp`, `Delay`, `Lag`, `SeriesElastic`": Row({"forces": LATE}),
    "actuators with `JointPD()`": Row({"forces": LATE, "feedback": JointPD((0.5, 0.2))}, JOINT_GAINS),
    "`feedback=True`": Row({"feedback": True}, GAINS),
    "`feedback=` with bounds": Row({"feedback": (0.5, 0.2)}, GAINS),
    "`feedback=JointPD()`": Row({"feedback": JointPD((0.5, 0.2))}, JOINT_GAINS),
    "variable parameters": Row(parameters=VALUES, robot=VARIED),
    "`constrained`": Row({"constrained": True}, robot=EQUAL),
    "`implicit_damping`": Row({"implicit_damping": True}),
    "`every`": Row({"every": STEPS}),
    "`dt=None`": Row(dt=None),
    "`linearize`": Row({"linearize": True}),
    VJP: Row(),
    BIND: Row(),
    "float32": Row({"dtype": "float32"}, atol=1e-5),
    "threads": Row({"threads": 2}),
    '"fixed"': Row({"device": "fixed"}, atol=1e-3),
}
"""Options by their names in the table."""

METHODS: dict[str, dict[str, Any]] = {
    "explicit": {},
    "variational": {"integrator": "variational"},
    "position-based": {"integrator": "position_based"},
    "ground": {"contacts": GROUND},
}
"""Options of a rollout by the name of its column."""

COMPILED = ("float32", "threads", BIND)
"""Rows that C computes. numpy computes the others."""

OF_CALLS = ("every", "linearize", "feedback", "device", "dtype", "threads")
"""Options that say what a call returns, or that the loop of single steps computes itself."""


def options_of(name: str, column: str) -> dict[str, Any]:
    options = {**METHODS[column], **ROWS[name].options}
    if "dtype" in options and "contacts" in options:
        options["contacts"] = replace(GROUND, tolerance=1e-5)
    if "constrained" in options and "contacts" in options:
        options["contacts"] = HELD_GROUND
    return options


def rollout_of(name: str, column: str) -> Rollout:
    row, options = ROWS[name], options_of(name, column)
    device = {} if name in COMPILED or "device" in options else {"device": "numpy"}
    return Rollout(row.robot, STEPS, row.dt, **device, **options)


def moved(rollout: Rollout, name: str, torques: np.ndarray = TORQUES, row: Row | None = None) -> Trajectories:
    row = row or ROWS[name]
    named = {**row.inputs, **row.parameters, **({} if row.dt else {"dt": np.array(DT)})}
    if name == BIND:
        bound: Trajectories = rollout.bind(START, SPEED, torques, **named)()
        return bound
    return rollout(START, SPEED, torques, **named)


def closed(row: Row, q: np.ndarray, qd: np.ndarray, tau: np.ndarray, inputs: Arrays) -> tuple[np.ndarray, Arrays]:
    """Return the torques of a step with feedback, and the inputs that remain."""
    if "feedback" not in row.options:
        return tau, inputs
    given, law = {name: value[:, 0] for name, value in inputs.items()}, row.options["feedback"]
    if isinstance(law, JointPD):
        law = law.largest
        tau = tau + given["joint_stiffness"] * (given["joint_target"] - q) - given["joint_damping"] * qd
    else:
        away = np.concatenate([q - given["q_ref"], qd - given["qd_ref"]], axis=1)
        tau = tau + np.einsum("bij,bj->bi", given["gain"], away)
    return tau if law is True else np.clip(tau, -np.array(law), law), {}


def by_steps(row: Row, torques: np.ndarray, method: dict[str, Any]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the states of a loop of rollouts of one step."""
    options = {key: value for key, value in row.options.items() if key not in OF_CALLS}
    one = Rollout(row.robot, 1, DT, device="numpy", **method, **options)
    states, actuators = [(START, SPEED)], Arrays()
    for k in range(STEPS):
        inputs = {key: value[:, k : k + 1] for key, value in row.inputs.items()}
        tau, inputs = closed(row, *states[-1], torques[:, k], inputs)
        step = one(*states[-1], tau[:, None], **inputs, **row.parameters, **actuators)
        actuators = {name: values[:, -1] for name, values in step.actuators.items()}
        states.append((step.q[:, -1], step.qd[:, -1]))
    return states


def check_slope(name: str, column: str) -> None:
    rollout, random = rollout_of(name, column), np.random.default_rng(1)
    weights, direction = random.normal(size=(2, 3, STEPS + 1, 2)), random.normal(size=TORQUES.shape)
    by = (rollout.vjp(moved(rollout, name), TORQUES, *weights)["tau"] * direction).sum()
    costs = []
    for sign in (1.0, -1.0):
        motion = moved(rollout, name, TORQUES + sign * 1e-5 * direction)
        costs.append((weights[0] * motion.q + weights[1] * motion.qd).sum())
    np.testing.assert_allclose(by, (costs[0] - costs[1]) / 2e-5, rtol=1e-5)


def check_method(name: str, column: str) -> None:
    if name == VJP:
        check_slope(name, column)
        return
    row, is_mean = ROWS[name], column == "variational"
    torques, inputs = TORQUES, row.inputs
    if is_mean:
        torques, inputs = held(torques), {key: held(value) for key, value in inputs.items()}
    row = replace(row, inputs=inputs)
    motion = moved(rollout_of(name, column), name, torques, row)
    assert motion.converged.all()
    alone = {**METHODS[column], **({"contacts": HELD_GROUND} if row.robot is EQUAL and column == "ground" else {})}
    states = by_steps(row, torques, {"integrator": "rk4"} if is_mean else alone)
    if row.options.get("every"):
        states = [states[0], states[-1]]
    atol = 1e-4 if is_mean else row.atol
    right = motion.diverged < 0
    assert right.any() if "device" in row.options else right.all()
    for k, (q, qd) in enumerate(states):
        motion.q[~right, k], motion.qd[~right, k] = q[~right], qd[~right]
        moved_by = 0.01 * np.abs(q - START).max() if is_mean else 0.0  # two methods agree to their own errors
        np.testing.assert_allclose(motion.q[:, k], q, atol=atol + moved_by)
        if not is_mean:
            np.testing.assert_allclose(motion.qd[:, k], qd, atol=max(10.0 * atol, 1e-7))
    if "linearize" in row.options:
        check_linear(motion, column)


def check_linear(motion: Trajectories, column: str) -> None:
    """Compare the matrices of the first step with differences."""
    plain = rollout_of("no option", column)
    for k, way in enumerate(1e-6 * np.eye(6)):
        q, qd, tau = np.split(way, 3)
        ends = [plain(START + s * q, SPEED + s * qd, TORQUES + s * tau) for s in (1.0, -1.0)]
        for name, rows in (("q", slice(0, 2)), ("qd", slice(2, 4))):
            slope = (getattr(ends[0], name)[:, 1] - getattr(ends[1], name)[:, 1]) / 2e-6
            found = np.concatenate([motion.a, motion.b], axis=3)[:, 0, rows, k]
            np.testing.assert_allclose(found, slope, rtol=1e-4, atol=1e-5)


def check_framework(framework: str, name: str, column: str) -> None:
    """Compare values with those of `Rollout`, and the gradient by torques with its sweep."""
    row = ROWS[name]
    options = options_of(name, column)
    if "device" in options:
        options["backend"] = options.pop("device")
    elif name not in COMPILED:
        options["backend"] = "numpy"
    make = __import__(f"dynagate.{framework}", fromlist=["rollout"]).rollout
    options = {"dtype": "float64", **options}
    run = make(row.robot, STEPS, row.dt, **options)
    active = {"active": np.ones((3, STEPS, 1))} if "constrained" in options else {}
    time = {} if row.dt else {"dt": np.array([DT, 2.0 * DT, DT])}
    arrays = [START, SPEED, TORQUES, *active.values(), *row.inputs.values(), *time.values(), *row.parameters.values()]
    plain = rollout_of(name, column)
    motion = plain(START, SPEED, TORQUES, **time) if time else moved(plain, name)
    weights = np.random.default_rng(2).normal(size=motion.q.shape)
    tensors = arrays
    if framework == "torch":
        import torch

        tensors = [torch.tensor(np.asarray(x, options.get("dtype", "float64"))) for x in arrays]
    else:
        tensors = [np.asarray(x, options.get("dtype", "float64")) for x in arrays]
    np.testing.assert_allclose(run(*tensors).q, motion.q, atol=row.atol)
    if "linearize" in options:
        np.testing.assert_allclose(run(*tensors).a, motion.a, atol=row.atol)
        np.testing.assert_allclose(run(*tensors).b, motion.b, atol=row.atol)
    if not (name == VJP or row.inputs or row.parameters or time or "linearize" in options):
        return
    named = {**row.inputs, **time, **row.parameters}
    expected = plain.vjp(motion, TORQUES, weights, 0.0 * weights, **named)
    places = {"tau": 2, **{each: 3 + len(active) + k for k, each in enumerate([*row.inputs, *time])}}
    if framework == "torch":
        for place in places.values():
            tensors[place].requires_grad_()
        (run(*tensors).q * torch.tensor(weights)).sum().backward()
        slopes = [tensors[place].grad for place in places.values()]
    else:
        import jax

        slopes = jax.grad(lambda *all_of: (run(*all_of).q * weights).sum(), tuple(places.values()))(*tensors)
    for each, slope in zip(places, slopes, strict=True):
        np.testing.assert_allclose(slope, expected[each], rtol=1e-6, atol=1e-12)


@pytest.mark.filterwarnings(f"ignore::{RobotWarning.__module__}.{RobotWarning.__name__}")
@pytest.mark.parametrize("column", METHODS)
@pytest.mark.parametrize("feedback", [False, True])
def test_gradients_by_targets_of_servos(column: str, feedback: bool) -> None:
    name = "`Servo` with the input `target`"
    options = {**options_of(name, column), **({"feedback": True} if feedback else {})}
    rollout = Rollout(ARM, STEPS, DT, device="numpy", **options)
    inputs, random = {**ROWS[name].inputs, **(GAINS if feedback else {})}, np.random.default_rng(1)
    weights = random.normal(size=(2, 3, STEPS + 1, 2))
    by = rollout.vjp(rollout(START, SPEED, TORQUES, **inputs), TORQUES, *weights, **inputs)["target"]
    direction, costs = random.normal(size=by.shape), []
    for sign in (1.0, -1.0):
        inputs["target"] = ROWS[name].inputs["target"] + sign * 1e-5 * direction
        motion = rollout(START, SPEED, TORQUES, **inputs)
        costs.append((weights[0] * motion.q + weights[1] * motion.qd).sum())
    np.testing.assert_allclose((by * direction).sum(), (costs[0] - costs[1]) / 2e-5, rtol=1e-5)


@pytest.mark.parametrize("column", ["explicit", "ground"])
@pytest.mark.parametrize(
    ("method", "forces", "feedback"),
    [
        ("rk4", [Servo(50.0, 1.0, target=(0.3, -0.2)), Friction(0.5, speed=0.3)], False),
        ("semi_implicit_euler", [Friction(0.5), Limits(100.0)], JointPD((0.5, 0.2))),
        ("semi_implicit_euler", LATE, JointPD((0.5, 0.2))),
    ],
)
def test_gradients_by_the_time_step(column: str, method: str, forces: list[Any], feedback: bool | JointPD) -> None:
    """Each trajectory has its own time step; the gradient equals differences, by parameters too."""
    way = {} if column == "explicit" else METHODS[column]
    if column == "explicit":
        way = {"integrator": method}
    rollout = Rollout(VARIED, STEPS, None, device="numpy", forces=forces, feedback=feedback, **way)
    inputs = {**VALUES, **(JOINT_GAINS if feedback else {})}
    steps, random = np.array([1e-3, 2e-3, 3e-3]), np.random.default_rng(4)
    weights = random.normal(size=(2, 3, STEPS + 1, 2))
    motion = rollout(START, SPEED, TORQUES, dt=steps, **inputs)
    one = rollout(START[1], SPEED[1], TORQUES[1], dt=steps[1], **{name: x[1] for name, x in inputs.items()})
    np.testing.assert_allclose(motion.q[1], one.q, rtol=1e-12)
    by = rollout.vjp(motion, TORQUES, *weights, dt=steps, **inputs)
    costs = []
    for sign in (1.0, -1.0):
        moved_by = rollout(START, SPEED, TORQUES, dt=steps + sign * 1e-7, **inputs)
        costs.append((weights[0] * moved_by.q + weights[1] * moved_by.qd).sum(axis=(1, 2)))
    np.testing.assert_allclose(by["dt"], (costs[0] - costs[1]) / 2e-7, rtol=2e-5)
    constant = Rollout(VARIED, STEPS, 2e-3, device="numpy", forces=forces, feedback=feedback, **way)
    again = constant(START, SPEED, TORQUES, **inputs)
    expected = constant.vjp(again, TORQUES, *weights, **inputs)
    found = rollout.vjp(again, TORQUES, *weights, dt=2e-3, **inputs)
    for name, slope in expected.items():
        np.testing.assert_allclose(found[name], slope, rtol=1e-7, atol=1e-9)


def test_a_cost_of_linearized_operators_matrices_has_no_gradient() -> None:
    jax = pytest.importorskip("jax")
    import dynagate.jax

    run = dynagate.jax.rollout(ARM, STEPS, DT, linearize=True, dtype="float32")
    arrays = [np.float32(x) for x in (START, SPEED, TORQUES)]
    for name, has_one in (("q", True), ("a", False), ("b", False)):
        slope = jax.grad(lambda tau, name=name: (getattr(run(*arrays[:2], tau), name) ** 2).sum())(arrays[2])
        assert bool(np.isfinite(slope).all()) is has_one


COST = Cost.quadratic(q=1.0, qd=0.1, tau=1e-3)


def check_solver(make: Callable[..., Any], name: str, column: str, more: dict[str, Any]) -> None:
    """Compare the states of a plan, or the cost of the guess among samples, with a loop of single steps."""
    row, options = ROWS[name], options_of(name, column)
    options = options if name in COMPILED or "device" in row.options else {**options, "device": "numpy"}
    with make(row.robot, knots=STEPS, dt=row.dt, cost=COST, **more, **options) as solver:
        named = {**row.inputs, **row.parameters, **({} if row.dt else {"dt": np.array(DT)})}
        plan = solver(START, SPEED, TORQUES, goal=np.zeros(2), **named)
    contacts = {"contacts": options["contacts"]} if column == "ground" else {}
    if not more:
        for k, (q, qd) in enumerate(by_steps(row, plan.tau, contacts)):
            np.testing.assert_allclose(plan.q[:, k], q, atol=row.atol)
            np.testing.assert_allclose(plan.qd[:, k], qd, atol=max(10.0 * row.atol, 1e-7))
        if name not in COMPILED:
            check_knot(name, column)
        return
    q, qd = (np.stack(x, axis=1) for x in zip(*by_steps(row, TORQUES, contacts), strict=True))
    states = 0.5 * ((q**2).sum(axis=2) + 0.1 * (qd**2).sum(axis=2))
    cost = DT * (states[:, :-1] + 0.5e-3 * (TORQUES**2).sum(axis=2)).sum(axis=1) + states[:, -1]
    np.testing.assert_allclose(plan.least, cost, rtol=max(1e-9, row.atol))


def check_knot(name: str, column: str) -> None:
    """Compare the derivatives that iLQR has of a step with differences of steps, by states of actuators too."""
    row, options = ROWS[name], {k: v for k, v in options_of(name, column).items() if k not in ("every", "linearize")}
    step = KnotStep(row.robot, MotionOptions(dt=row.dt, **options))
    steps, linear = step.derivatives({"q": "q0", "qd": "qd0", "tau": "u"})
    derived = Loop("derived", "", (*steps, linear), {}, Count(1), last=("a", "b"))
    after = {before: name for name, before in step.carry.items()}
    states = [(name, size) for name, size in step.states.values()]
    ends = ("q_end", "qd_end", *(after[name] for name, _ in states))
    moved = Loop("moved", "", step.steps("u"), {}, Count(1), last=ends)
    others = {key: value[:, 0] for key, value in row.inputs.items()} | row.parameters
    others |= {"dt": np.full(3, DT), "active": np.ones((3, 1))}
    others |= {key: np.repeat(value[None], 3, axis=0) for key, value in step.begin.items()}

    random = np.random.default_rng(7)
    point = {"q0": START, "qd0": SPEED} | {name: random.uniform(-0.1, 0.1, (3, size)) for name, size in states}
    point["u"] = TORQUES[:, 0]

    def evaluated(loop: Loop, sign: float, way: np.ndarray) -> np.ndarray:
        ways = np.split(way, np.cumsum([x.shape[1] for x in point.values()])[:-1])
        values = others | {name: x + sign * away for (name, x), away in zip(point.items(), ways, strict=True)}
        results = evaluate_loop(loop, {port.name: values[port.name] for port in loop.inputs})
        return np.concatenate([results[each] for each in loop.last], axis=-1)

    size = sum(x.shape[1] for x in point.values())
    found = evaluated(derived, 0.0, np.zeros(size))
    for k, way in enumerate(1e-6 * np.eye(size)):
        difference = evaluated(moved, 1.0, way) - evaluated(moved, -1.0, way)
        np.testing.assert_allclose(found[:, :, k], difference / 2e-6, rtol=1e-4, atol=1e-5)


SAMPLED = {"temperature": 1.0, "spread": 0.5, "samples": 1}
COLUMNS: dict[str, Callable[[str], None]] = {
    **{column: lambda name, column=column: check_method(name, column) for column in METHODS},  # type: ignore[misc]
    "JAX": lambda name: check_framework("jax", name, "explicit"),
    "JAX, ground": lambda name: check_framework("jax", name, "ground"),
    "PyTorch": lambda name: check_framework("torch", name, "explicit"),
    "PyTorch, ground": lambda name: check_framework("torch", name, "ground"),
    "iLQR": lambda name: check_solver(dynagate.ilqr, name, "explicit", {}),
    "iLQR, ground": lambda name: check_solver(dynagate.ilqr, name, "ground", {}),
    "MPPI": lambda name: check_solver(dynagate.mppi, name, "explicit", SAMPLED),
    "MPPI, ground": lambda name: check_solver(dynagate.mppi, name, "ground", SAMPLED),
}

STOPS, FIXED = "takes no forces.Stops; expected forces=[dynagate.forces.Limits(stiffness)]", '"fixed"'
SOLVES = {
    "`Stops`": STOPS,
    "variable parameters": "integrator cannot take the variable parameters",
    "`constrained`": "takes no constrained; expected an explicit method, such as 'rk4'",
    "`implicit_damping`": "takes no implicit_damping=True; expected none",
    "`dt=None`": "takes no dt=None; expected a constant time step",
    "float32": "expected float64 to solve in",
    FIXED: "expected one of euler, semi_implicit_euler",
}
ON_GROUND = {FIXED: "takes no contacts=; expected 'cpu', 'cuda' or 'numpy'"}
KEYWORD = "got an unexpected keyword argument"
SOLVERS = {
    "`every`": KEYWORD,
    "`linearize`": KEYWORD,
    FIXED: "expected one of numpy, cpu, cuda",
}
REFUSED: dict[str, dict[str, str]] = {
    "explicit": {},
    "variational": SOLVES,
    "position-based": SOLVES,
    "ground": ON_GROUND,
    "JAX": {},
    "JAX, ground": ON_GROUND,
    "PyTorch": {},
    "PyTorch, ground": ON_GROUND,
    "iLQR": SOLVERS,
    "iLQR, ground": SOLVERS,
    "MPPI": SOLVERS,
    "MPPI, ground": SOLVERS,
}
"""Text of the error of each cell that is refused, by column and row."""

ABSENT = {(column, BIND) for column in REFUSED if column not in METHODS}
ABSENT |= {(column, VJP) for column in REFUSED if column.startswith(("iLQR", "MPPI"))}
"""Cells without a meaning: calls that a column does not have."""


@pytest.fixture(autouse=True)
def _doubles(request: pytest.FixtureRequest) -> Iterator[None]:
    """Computes in 64 bits in cells of JAX, in all threads."""
    if "JAX" not in request.node.name:
        yield
        return
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.filterwarnings(f"ignore::{RobotWarning.__module__}.{RobotWarning.__name__}")
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("column", COLUMNS)
def test_a_cell_is_computed_right_or_refused(column: str, name: str) -> None:
    if (column, name) in ABSENT:
        assert name not in REFUSED[column]
        return
    if column.startswith("PyTorch"):
        pytest.importorskip("torch")
    text = REFUSED[column].get(name)
    if text is None:
        COLUMNS[column](name)
        return
    with pytest.raises((ValueError, TypeError), match=re.escape(text)):
        COLUMNS[column](name)


@pytest.mark.parametrize("forces", [[], [Friction(0.5, speed=0.3)], [Stops()]])
@pytest.mark.parametrize("column", ["explicit", "ground"])
def test_a_backward_pass_knows_which_steps_move_by_their_velocity(column: str, forces: list[Any]) -> None:
    """iLQR leaves out half of the derivatives if q⁺ = q + dt q̇⁺, which a stop or a lifted point breaks."""
    step = KnotStep(ARM, MotionOptions(dt=DT, forces=forces, **METHODS[column]))
    loop = Loop("moved", "", step.steps("u"), {}, Count(1), last=("q_end", "qd_end"))
    q, qd = np.array([[ranges(ARM)[1][0] - 1e-4, 0.3]]), np.array([[2.0, 1.0]])
    values = {"q0": q, "qd0": qd, "u": np.zeros((1, 2))} | {name: x[None] for name, x in step.begin.items()}
    after = evaluate_loop(loop, values)
    moves = np.allclose(after["q_end"], q + DT * after["qd_end"], atol=1e-12)
    assert step.moves_by_velocity == (column == "explicit" and moves)
    assert moves or forces == [Stops()] or column == "ground"


def test_a_time_step_of_a_call_gives_the_plan_of_a_constant_one() -> None:
    plans = []
    for dt, named in ((0.02, {}), (None, {"dt": 0.02})):
        solver = dynagate.ilqr(ARM, knots=4, dt=dt, cost=COST, device="numpy")
        plans.append(solver(START, SPEED, TORQUES[:, :1], goal=np.zeros(2), **named))
    for name in ("tau", "gains", "costs"):
        np.testing.assert_allclose(getattr(plans[1], name), getattr(plans[0], name), rtol=1e-9, atol=1e-9)


def test_variable_parameters_of_solvers() -> None:
    """They reach the torques that hold a robot, which are the guess, and their numbers are checked."""
    solver = dynagate.ilqr(VARIED, knots=2, dt=DT, cost=COST, device="numpy")
    expected = dynagate.evaluate(
        dynagate.trace(VARIED, "inverse_dynamics"),
        {"q": START, "qd": 0.0 * START, "qdd": 0.0 * START, **{k: v for k, v in VALUES.items() if k in HOLDING}},
    )["tau"]
    np.testing.assert_allclose(solver.held(START, VALUES), expected, atol=1e-12)
    first = solver(START, SPEED, goal=np.zeros(2), **VALUES)
    np.testing.assert_allclose(
        first.costs[:, 0], solver(START, SPEED, expected[:, None], goal=np.zeros(2), **VALUES).costs[:, 0], rtol=1e-12
    )
    compiled = dynagate.ilqr(VARIED, knots=2, dt=DT, cost=COST)
    with pytest.raises(ValueError, match="expected a mass above 0 kg"):
        compiled(START, SPEED, goal=np.zeros(2), **{**VALUES, "mass": -VALUES["mass"]})
    with pytest.raises(ValueError, match="without the variable parameter 'mass'"):
        solver(START, SPEED, goal=np.zeros(2))


def test_solvers_refuse_wrong_steps_and_contact_in_integers() -> None:
    solver = dynagate.ilqr(ARM, knots=2, dt=None, cost=COST, device="numpy")
    for dt in (0.0, [0.01, -0.01, 0.01]):
        with pytest.raises(ValueError, match="expected time steps of more than 0 s"):
            solver(START, SPEED, goal=np.zeros(2), dt=dt)
    on_ground = dynagate.ilqr(ARM, knots=2, dt=DT, cost=COST, contacts=GROUND, device="numpy")
    with pytest.raises(ValueError, match="expected compliant contact, as a force"):
        on_ground.on_integers(START, SPEED, goal=np.zeros(2))
    with pytest.raises(ValueError, match="expected an explicit integrator, such as 'rk4', or contacts="):
        dynagate.ilqr(ARM, knots=2, dt=DT, cost=COST, integrator="variational")


@pytest.mark.parametrize("make", [dynagate.ilqr, partial(dynagate.mppi, **{"temperature": 1.0, "spread": 0.5})])
def test_a_motion_whose_contact_has_not_converged_has_no_cost(make: Callable[..., Any]) -> None:
    solver = make(ARM, knots=3, dt=DT, cost=COST, contacts=replace(GROUND, sweeps=1), device="numpy")
    plan = solver(START, SPEED, TORQUES, goal=np.zeros(2))
    assert plan.failed.tolist() == [True, False, True]  # the middle one is in the air


def table() -> str:
    """Return the table of the page, filled from this file."""
    lines = [f"| with | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
    for name in ROWS:
        cells = ["" if (column, name) in ABSENT else "no" if name in REFUSED[column] else "yes" for column in COLUMNS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def test_the_page_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "loops.md").read_text()
    assert table() in page, table()


def test_most_cells_work() -> None:
    cells = [name not in REFUSED[column] for column in COLUMNS for name in ROWS if (column, name) not in ABSENT]
    assert np.mean(cells) > 0.9
