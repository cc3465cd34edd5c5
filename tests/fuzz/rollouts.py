"""Rollouts of drawn robots on every executor, against a loop of the reference's own single steps.

A case: {"kind": "rollouts", "robot", "states": [{"q", "qd", "push"}], "steps", "dt", "integrator", "devices"} and,
where drawn, "cubic" (c of an own force -c v³), "dt_of_call" (dt is an argument of the call), "linearize", "vjp",
"sweep_of" (the sweep is given trajectories of another number of steps, and must refuse them), "every", "stops",
"friction", "friction_speed".
q (along velocities, from neutral), qd and push (the accelerations that the torques cause at the start) have a number,
or a list, by the name of a link.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from dynagate import Error, Robot, RobotError, Rollout, Trajectories
from dynagate.dynamics.spatial import array
from dynagate.forces import Force, Friction, Stops
from dynagate.native.gpu_loop import GpuLoop

from tests.fuzz.findings import Findings
from tests.fuzz.reference import TABLEAUS, Reference
from tests.fuzz.robots import Recipe, draw_robot, number, robot_of
from tests.fuzz.twins import emptied, twin
from tests.played_card import ON_HOST

Array = np.ndarray
Case = dict[str, Any]
INTEGRATORS = ("euler", "semi_implicit_euler", *TABLEAUS)
OPTIONS = ("steps", "integrator", "linearize", "every", "form")
SIZES = (1, 19, 1)
"""Batches of the calls of one rollout: alone, in vectors with some left over, and alone again."""
EXACT = 1e-8
"""Tolerance in float64 at a condition number of 1: terms that are lost are 1e-4 and more."""
SMALLEST = 1e-3
"""rad, m, rad/s or m/s: states near zero are compared as if they were of this size."""
LARGEST_CONDITION = 1e6
LARGEST = 1e6
"""Of a state's numbers: what is larger has diverged."""
TURN = 1.5
"""rad in a step or a stage of it, from which on a rollout may flag instead of following."""


@dataclass(frozen=True)
class Cubic(Force):
    """A force -c v³ on each coordinate."""

    c: float

    def torque(self, now: Any) -> Any:
        return array([-(v * v * v) * self.c for v in now.qd])


def draw(random: np.random.Generator) -> Case:
    recipe = draw_robot(random)
    light = all(link.get("mass", 1.0) < 0.1 for link in recipe["links"])
    fast = bool(random.random() < 0.1)
    case: Case = {
        "kind": "rollouts",
        "robot": recipe,
        "states": [draw_state(random, recipe, 700.0 if fast else 2.0) for _ in range(2)],
        "steps": 1 if fast else int(random.integers(1, 5)),
        "dt": float(random.choice([1e-3, 0.01] if light else [1e-3, 0.01, 0.05])),
        "integrator": str(random.choice(INTEGRATORS)),
        "devices": ["numpy", "cpu"],
    }
    if random.random() < 0.4:
        case["dt_of_call"] = True
    elif random.random() < 0.5:
        case["vjp"] = True
        if random.random() < 0.3:
            case["sweep_of"] = case["steps"] + 1
    if random.random() < 0.5:
        case["linearize"] = True
    elif "vjp" not in case and random.random() < 0.3:
        case["every"] = case["steps"]
    if random.random() < 0.3:
        case["stops"] = True
    if random.random() < 0.3:
        dry = number(random, 0.01, 0.1) * recipe["links"][-1].get("mass", 1.0)
        case["friction"] = True if random.random() < 0.5 else float(f"{dry:.2g}")
        case["friction_speed"] = float(random.choice([1e-6, 0.01, 0.1]))
    if random.random() < 0.3:
        case["cubic"] = float(f"{random.choice([-1.0, 1.0]) * 10.0 ** random.uniform(-3.0, 0.5):.2g}")
    if random.random() < 0.15:
        case["devices"].append("cuda")
    if random.random() < 0.3:
        case["devices"].append("float32")
    return case


def draw_state(random: np.random.Generator, recipe: Recipe, speed: float = 2.0) -> Case:
    """A state by link, now and then at rest, near it, or with zeros."""
    size = float(random.choice([0.0, 1e-7, speed], p=[0.1, 0.1, 0.8]))
    state: Case = {"q": {}, "qd": {}, "push": {}}
    for link in recipe["links"]:
        count = {"spherical": 3, "floating": 6}.get(link["joint"], 1)
        reach = 0.4 if link["joint"] == "prismatic" else 1.5
        for part, scale in (("q", reach), ("qd", size), ("push", 10.0)):
            if random.random() < 0.9:
                state[part][link["name"]] = [float(f"{x * scale:.2g}") for x in random.uniform(-1.0, 1.0, count)]
    return state


def order_of(robot: Robot) -> list[str]:
    return [link.name for link in robot.links]


def forces_of(case: Case) -> dict[str, Any]:
    """Return the option `forces` for the friction, stops and cubic force of a case, empty without any."""
    forces: list[Force] = [Stops()] if case.get("stops") else []
    if "friction" in case:
        forces.append(Friction(case["friction"], case["friction_speed"]))
    if "cubic" in case:
        forces.append(Cubic(case["cubic"]))
    return {"forces": forces} if forces else {}


def reference_of(case: Case, robot: Robot) -> Reference:
    speed = {"speed": case["friction_speed"]} if "friction_speed" in case else {}
    reference = Reference(case["robot"], order_of(robot), case.get("friction", 0.0), **speed)
    reference.cubic = case.get("cubic", 0.0)
    return reference


def vector(reference: Reference, values: Case) -> Array:
    """(nv,) of numbers by link."""
    result = np.zeros(reference.nv)
    for name, (_, at) in reference.at.items():
        own = np.atleast_1d(values.get(name, 0.0))
        size = reference.columns[name].stop - reference.columns[name].start
        result[at : at + min(size, len(own))] = own[:size]
    return result


def states_of(case: Case, reference: Reference) -> tuple[Array, Array, Array]:
    """q (states, nq), q̇ and the accelerations to push with (states, nv)."""
    parts = [np.array([vector(reference, state.get(part, {})) for state in case["states"]]) for part in STATE]
    return reference.move(reference.neutral(), parts[0]), parts[1], parts[2]


STATE = ("q", "qd", "push")


def motion_of(case: Case, reference: Reference, q: Array, qd: Array, tau: Array, linear: bool) -> dict[str, Array]:
    """q, q̇ and, where asked for, a and b of every step: (states, steps + 1, ·) and (states, steps, ·, ·)."""
    rows: dict[str, list[Array]] = {"q": [q], "qd": [qd], "a": [], "b": []}
    options = (case["dt"], case["integrator"], case.get("stops", False))
    for k in range(case["steps"]):
        if linear:
            a, b = reference.linear(q, qd, tau[:, k], *options)
            rows["a"].append(a)
            rows["b"].append(b)
        q, qd = reference.step(q, qd, tau[:, k], *options)
        rows["q"].append(q)
        rows["qd"].append(qd)
    return {name: np.stack(row, axis=1) for name, row in rows.items() if row}


def sweep(motion: dict[str, Array], cost_q: Array, cost_qd: Array) -> dict[str, Array]:
    """The gradient of Σ cost · state from A and B alone."""
    weight, by_tau = np.concatenate([cost_q, cost_qd], axis=-1), []
    total = weight[:, -1]
    for k in reversed(range(motion["a"].shape[1])):
        by_tau.append(np.einsum("si,sij->sj", total, motion["b"][:, k]))
        total = weight[:, k] + np.einsum("si,sij->sj", total, motion["a"][:, k])
    half = total.shape[-1] // 2
    return {"q0": total[:, :half], "qd0": total[:, half:], "tau": np.stack(by_tau[::-1], axis=1)}


class Truth(NamedTuple):
    """The reference's motion under torques (states, steps, nv). condition: of M at the start. turned: the largest turn
    of a quaternion on the way, rad."""

    motion: dict[str, Array]
    tau: Array
    condition: float
    turned: float

    def of(self, rows: Array) -> Truth:
        """These states."""
        return self._replace(motion={name: x[rows] for name, x in self.motion.items()}, tau=self.tau[rows])


def check(case: Case, findings: Findings) -> None:
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = robot_of(case["robot"], Path(name))
        truth = truth_of(case, reference_of(case, robot))
        with mock.patch("dynagate.host.devices.cuda.GpuLoop", partial(GpuLoop, folder=Path(name), toolchain=ON_HOST)):
            for device in case["devices"]:
                where = f"{device}{' dt=None' if case.get('dt_of_call') else ''}"
                findings.guarded(where, partial(_on, device, where, case, robot, truth, findings))


def truth_of(case: Case, reference: Reference) -> Truth:
    """Raises RobotError: floats cannot tell this robot's motion."""
    q, qd, push = states_of(case, reference)
    condition = float(np.linalg.cond(reference.mass(q)).max())
    if not condition < LARGEST_CONDITION:
        raise RobotError(f"condition {condition:.0e}; expected a robot that floats can tell")
    tau = reference.inverse(q, qd, push)[:, None] * np.where(np.arange(case["steps"]) % 2, -0.5, 1.0)[:, None]
    reference.turned = 0.0
    with np.errstate(all="ignore"):
        motion = motion_of(case, reference, q, qd, tau, bool(case.get("linearize") or case.get("vjp")))
    return Truth(motion, tau, condition, reference.turned)


def _on(device: str, where: str, case: Case, robot: Robot, truth: Truth, findings: Findings) -> None:
    """A rollout on a device against the reference's motion."""
    options = {name: case[name] for name in OPTIONS if name in case} | forces_of(case)
    single = device == "float32"
    place = {"device": "cpu", "dtype": "float32"} if single else {"device": device}
    if device == "cuda":
        place["dtype"] = "float64"
    rollout = Rollout(robot, dt=None if case.get("dt_of_call") else case["dt"], **place, **options)
    # in single precision only what is far off can be told
    tolerance = 1e-3 + 1e-5 * truth.condition if single else EXACT + 1e-12 * truth.condition
    steep = case.get("friction") and case.get("friction_speed", 1.0) < SMALLEST
    if tolerance > 0.3 or (single and steep):  # where friction turns, rounding decides which way it pushes
        return
    call = {"dt": case["dt"]} if case.get("dt_of_call") else {}
    states = len(truth.tau)
    if device in ("numpy", "cpu"):
        _of_equal_options(where, case, rollout, truth, findings)
    for size in SIZES if device == "cpu" else SIZES[1:2]:
        lanes = truth.of(np.arange(size) % states)
        trajectories = rollout(lanes.motion["q"][:, 0], lanes.motion["qd"][:, 0], lanes.tau, **call)
        for row in range(min(size, states)):
            _compare(where, case, trajectories, row, truth, tolerance, findings)
        if size > states and not single:
            for name in ("q", "qd"):
                values = getattr(trajectories, name)[:, : _followed(case, truth, 0)]
                findings.near(f"{where} {name} of one state in two lanes", values[states], values[0], EXACT, SMALLEST)
        follows = all(_followed(case, truth, row) > case["steps"] for row in range(states))
        if "vjp" in case and not single and follows and truth.turned < TURN:
            _swept(where, case, rollout, trajectories, lanes, findings)


def _of_equal_options(where: str, case: Case, rollout: Rollout, truth: Truth, findings: Findings) -> None:
    """The same numbers, bit for bit, with options that are equal but not identical; and an empty batch."""
    options = {name: case[name] for name in OPTIONS if name in case}
    call = {"dt": case["dt"]} if case.get("dt_of_call") else {}
    dt = None if case.get("dt_of_call") else twin(case["dt"])
    start = truth.motion["q"][:, 0], truth.motion["qd"][:, 0], truth.tau
    results = rollout(*start, **call)
    try:
        other = Rollout(rollout.robot, dt=dt, **twin({**options, "device": rollout.device}), **forces_of(case))
        twins = other(*start, **twin(call))
    except Error as error:  # the options themselves are accepted
        findings.wrong(f"{where} equal options", f"are refused: {error}")
        return
    for size, mine in ((None, results), (0, rollout(*(x[:0] for x in start), **call))):
        for name in ("q", "qd", "a", "b"):
            value = getattr(results, name)
            if value is None:
                continue
            if size is None:
                findings.same(f"{where} {name} with equal options", getattr(twins, name), value)
            elif getattr(mine, name).shape != emptied(value.shape):
                findings.wrong(f"{where} {name} of an empty batch", f"has shape {getattr(mine, name).shape}")


def _compare(
    where: str, case: Case, result: Trajectories, row: int, truth: Truth, tolerance: float, findings: Findings
) -> None:
    """One trajectory against the reference's, as far as that is one that floats can follow."""
    expected = {name: truth.motion[name][row, :: case.get("every", 1)] for name in ("q", "qd")}
    last = _followed(case, truth, row)
    if truth.turned > TURN and result.diverged[row] != -1:
        return  # told
    for name in ("q", "qd"):
        findings.near(f"{where} {name}", getattr(result, name)[row, :last], expected[name][:last], tolerance, SMALLEST)
    for name in ("a", "b"):
        if getattr(result, name) is not None and last == len(expected["q"]):
            findings.near(f"{where} {name}", getattr(result, name)[row], truth.motion[name][row], 10.0 * tolerance)


def _followed(case: Case, truth: Truth, row: int) -> int:
    """Return how many states of a trajectory floats can follow."""
    motion = np.concatenate([truth.motion[name][row, :: case.get("every", 1)] for name in ("q", "qd")], axis=1)
    with np.errstate(all="ignore"):
        sane = np.abs(motion).max(axis=1) < LARGEST
    return len(sane) if sane.all() else int(np.argmin(sane))


def _swept(
    where: str, case: Case, rollout: Rollout, trajectories: Trajectories, truth: Truth, findings: Findings
) -> None:
    """The reverse sweep against one through the reference's A and B; or of trajectories that it must refuse."""
    shape = truth.motion["qd"].shape
    costs = [np.cos(np.arange(math.prod(shape)) + k).reshape(shape) for k in range(2)]
    if case.get("sweep_of", case["steps"]) != case["steps"]:
        steps = case["sweep_of"]
        longer = Rollout(
            rollout.robot, dt=case["dt"], steps=steps, integrator=case["integrator"], device=rollout.device
        )
        tau, *others = (
            np.resize(x, (len(x), n, x.shape[-1]))
            for x, n in ((truth.tau, steps), (costs[0], steps + 1), (costs[1], steps + 1))
        )
        findings.refusal(f"{where} sweep of other steps", lambda: longer.vjp(trajectories, tau, *others))
        return
    expected = sweep(truth.motion, *costs)
    for name, value in rollout.vjp(trajectories, truth.tau, *costs).items():
        findings.near(f"{where} vjp {name}", value, expected[name], 1e-7 + 1e-11 * truth.condition)
