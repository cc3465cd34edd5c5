"""Functions by options on an opened object that is called in any order, against the reference.

A case: {"kind": "calls", "robot", "functions": [names], "device", "states", "calls": [[function, how, batch], ...]}
and, where drawn, "friction", "friction_speed", "external_forces", "variable" (a link, whose mass the calls give anew),
and options of the device: "dtype", "layout", "pack", "threads". how: "plain", "bound", "submitted", "out", "single",
"some" (one of the outputs).
"""

from __future__ import annotations

import tempfile
import warnings
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
from dynagate import Robot, RobotError
from dynagate.host.results import Results

from tests.fuzz import rollouts
from tests.fuzz.findings import Findings
from tests.fuzz.reference import Reference
from tests.fuzz.robots import Recipe, completed, draw_robot, inertia
from tests.fuzz.twins import twin

Array = np.ndarray
Case = dict[str, Any]
Arrays = dict[str, Array]
TORQUES = ("forward_dynamics", "forward_dynamics_gradient", "forward_dynamics_vjp", "forward_dynamics_jvp", "step")
ACCELERATIONS = (
    "inverse_dynamics",
    "inverse_dynamics_gradient",
    "inverse_dynamics_vjp",
    "inverse_dynamics_jvp",
)
PLACES = (
    "mass_matrix",
    "mass_matrix_inverse",
    "potential_energy",
    "center_of_mass",
    "link_positions",
    "link_jacobians",
)
FUNCTIONS = (*TORQUES, *ACCELERATIONS, *PLACES, "kinetic_energy")
TOGETHER = ("inverse_dynamics", "mass_matrix", "mass_matrix_inverse", "forward_dynamics", "forward_dynamics_gradient")
HOW = ("plain", "bound", "submitted", "out", "single", "some")
DEVICE_OPTIONS = ("dtype", "layout", "pack", "threads")
ALGORITHM = ("external_forces", "dt", "integrator")
EXACT = 1e-9
LARGEST_CONDITION = 1e6


def draw(random: np.random.Generator) -> Case:
    several = bool(random.random() < 0.4)
    names = random.choice(TOGETHER, 2, replace=False) if several else [random.choice(FUNCTIONS)]
    recipe = draw_robot(random)
    case: Case = {
        "kind": "calls",
        "robot": recipe,
        "functions": [str(name) for name in names],
        "device": str(random.choice(["numpy", "cpu", "cpu", "fixed"])),
        "states": [rollouts.draw_state(random, recipe) for _ in range(3)],
    }
    pushed = all(name in (*TORQUES, *ACCELERATIONS) for name in case["functions"])
    if pushed and random.random() < 0.4:
        case["friction"] = True if random.random() < 0.5 else 0.01
        case["friction_speed"] = float(random.choice([1e-6, 0.01, 0.1]))
    if pushed and random.random() < 0.25:
        case["external_forces"] = True
    if case["functions"] == ["step"]:
        case["dt"], case["integrator"] = 0.01, str(random.choice(rollouts.INTEGRATORS))
    moving = [link["name"] for link in recipe["links"] if link["joint"] != "fixed"]
    if "urdf" not in recipe and random.random() < 0.25 and "step" not in names:
        case["variable"] = str(random.choice(moving))
    if case["device"] == "cpu":
        case |= {"layout": "planes"} if random.random() < 0.4 else {}
        case |= {"threads": 2} if random.random() < 0.3 else {}
        case |= {"dtype": "float32"} if random.random() < 0.25 else {}
    if case["device"] in ("cpu", "numpy") and random.random() < 0.4:
        case["pack"] = True
    case |= {"twin": True} if random.random() < 0.3 else {}
    count = int(random.integers(2, 6))
    case["calls"] = [
        [str(random.choice(case["functions"])), str(random.choice(HOW)), int(random.choice([0, 1, 3, 17]))]
        for _ in range(count)
    ]
    return case


def parameters(link: Recipe) -> Array:
    """[m, m c, I about the origin xx xy yy xz yz zz] of a link's recipe."""
    c = np.array(link["com"], float)
    i = inertia(link) + link["mass"] * (c @ c * np.eye(3) - np.outer(c, c))
    return np.array([link["mass"], *(link["mass"] * c), i[0, 0], i[0, 1], i[1, 1], i[0, 2], i[1, 2], i[2, 2]])


def check(case: Case, findings: Findings) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = rollouts.robot_of(case["robot"], Path(folder))
        heavier = _with_payload(case)
        reference = rollouts.reference_of({**case, "robot": heavier}, robot)
        inputs = _inputs(case, reference, heavier)
        condition = float(np.linalg.cond(reference.mass(inputs["q"])).max())
        if not condition < LARGEST_CONDITION:
            raise RobotError(f"condition {condition:.0e}; expected a robot that floats can tell")
        options = {name: case[name] for name in (*DEVICE_OPTIONS, *ALGORITHM) if name in case}
        options |= rollouts.forces_of(case)
        if "variable" in case:
            robot = robot.with_variable(case["variable"])
        if case["device"] == "fixed":
            options["region"] = dynagate.Region.of(robot, velocity=6.0, acceleration=30.0)
        findings.guarded(case["device"], partial(_called, case, robot, reference, inputs, options, condition, findings))


def _with_payload(case: Case) -> Recipe:
    """The robot as the calls have it: the variable link is half as heavy again."""
    links = [
        {**link, "mass": 1.5 * link.get("mass", 1.0)} if link["name"] == case.get("variable") else link
        for link in case["robot"]["links"]
    ]
    return {**case["robot"], "links": links}


def _inputs(case: Case, reference: Reference, heavier: Recipe) -> Arrays:
    """All inputs of all functions, a row for each state."""
    q, qd, qdd = rollouts.states_of(case, reference)
    random = np.random.default_rng(1)
    arrays = {"q": q, "qd": qd, "qdd": qdd}
    if case.get("external_forces"):
        arrays["f_ext"] = 0.01 * random.normal(size=(len(q), len(reference.moving), 6))
    arrays["tau"] = reference.inverse(q, qd, qdd, arrays.get("f_ext"))
    for name in ("lam_tau", "lam_qdd", "delta_q", "delta_qd", "delta_qdd", "delta_tau"):
        arrays[name] = random.uniform(-1.0, 1.0, qd.shape)
    for link in completed(heavier):
        if link["name"] == case.get("variable"):
            arrays[link["name"]] = np.tile(parameters(link), (len(q), 1))
            arrays[f"delta_{link['name']}"] = arrays[link["name"]] * random.uniform(-1.0, 1.0, (len(q), 10))
    return arrays


def _called(
    case: Case,
    robot: Robot,
    reference: Reference,
    inputs: Arrays,
    options: Case,
    condition: float,
    findings: Findings,
) -> None:
    single, fixed = case.get("dtype") == "float32", case["device"] == "fixed"
    tolerance = (1e-3 + 1e-5 * condition) if single else EXACT + 1e-12 * condition
    names, calls = case["functions"], [call for call in case["calls"] if call[0] in case["functions"]]
    expected: dict[str, Arrays] = {}
    first: dict[Any, Arrays] = {}
    if case.get("twin"):
        options = twin(options)
    with ExitStack() as stack:
        opened = {
            name: stack.enter_context(dynagate.compile(robot, name, device=case["device"], **options))
            for name in names or ["none"]
        }
        for name, how, batch in calls:
            function = opened[name]
            rows = np.arange(batch) % len(inputs["q"])
            taken = [port.name for port in function.device.inputs]
            values = {x: inputs[x][0] if how == "single" else inputs[x][rows] for x in taken}
            results = _made(function, how, values)
            where = f"{case['device']} {name}"
            if results is None:
                findings.wrong(f"{where} {how}", "nothing came")
                return
            whole = function.unpack(results) if case.get("pack") else results
            if name not in expected:
                expected[name] = outputs_of(name, reference, inputs, case)
            # a call is the same whatever was called before
            key = (name, how == "single", how == "some", batch)
            for output, value in whole.items():
                findings.same(f"{where} {output} again", value, first.setdefault(key, {}).setdefault(output, value))
                right = expected[name][output][0 if how == "single" else rows]
                if not fixed and tolerance < 0.3:
                    findings.near(f"{where} {output}", value, right, tolerance, 1.0 if name in TORQUES else 1e-9)
            first[key] = {output: value.copy() for output, value in first[key].items()}


def _made(function: Any, how: str, values: Arrays) -> Results | None:
    if how == "bound":
        return function.bind(**values)()
    if how == "submitted":
        return function.submit(**values).result()
    if how == "out":
        return function(out=function(**values), **values)
    if how == "some":
        return function(outputs=function.device.outputs[-1].name, **values)
    return function(**values)


def outputs_of(name: str, reference: Reference, x: Arrays, case: Case) -> Arrays:
    """All outputs of a function by the reference."""
    q, zero, pushed = x["q"], np.zeros_like(x["qd"]), x.get("f_ext")
    wide = None if pushed is None else pushed[:, None]
    if name in TORQUES or name in ACCELERATIONS:
        forward = name in TORQUES
        by, output = ("tau", "qdd") if forward else ("qdd", "tau")
        compute = reference.forward if forward else reference.inverse
        at = (q, x["qd"], x[by])
        if name == "step":
            moved, fast = reference.step(*at, case["dt"], case["integrator"], pushed=pushed)
            return {"q_next": moved, "qd_next": fast}
        result = {output: compute(*at, pushed)}
        (whole,) = reference.slopes(lambda *state: (compute(*state, wide),), *at)
        parts = dict(zip(("q", "qd", by), np.split(whole, 3, axis=-1), strict=True))
        if case.get("variable") in x:
            slope = reference.inverse_by_parameters(
                case["variable"], q, x["qd"], result["qdd"] if forward else x["qdd"]
            )
            parts[case["variable"]] = -np.linalg.solve(reference.mass(q), slope) if forward else slope
        result |= {f"d{output}_d{part}": slope for part, slope in parts.items()}
        result |= {f"vjp_{part}": np.einsum("bi,bij->bj", x[f"lam_{output}"], slope) for part, slope in parts.items()}
        terms = [np.einsum("bij,bj->bi", slope, x[f"delta_{part}"]) for part, slope in parts.items()]
        return {**result, f"jvp_{output}": sum(terms), "minv": np.linalg.inv(reference.mass(q))}
    mass, bodies = reference.mass(q), reference.bodies(q, zero, zero)
    moving = [bodies[link["name"]] for link in reference.moving]
    weighed = [
        (link["mass"], bodies[link["name"]]["place"] + (bodies[link["name"]]["turn"] @ np.array(link["com"], float)))
        for link in reference.links
        if reference.moves(link)
    ]
    center = sum(m * place for m, place in weighed) / sum(m for m, _ in weighed)
    jacobians = [np.concatenate([body["turning"], body["moving"]], axis=-2) @ reference.coupling for body in moving]
    return {
        "m": mass,
        "minv": np.linalg.inv(mass),
        "kinetic_energy": 0.5 * np.einsum("bi,bij,bj->b", x["qd"], mass, x["qd"]),
        "potential_energy": -sum(m for m, _ in weighed) * center @ reference.gravity,
        "center_of_mass": center,
        "link_positions": np.stack([body["place"] for body in moving], axis=1),
        "link_jacobians": np.stack(jacobians, axis=1),
    }
