"""Random constraints with compliance and redundancy, against a dense linear system (`tests.kkt`).

A case: {"kind": "constraints", "robot", "frames": [{"name", "link", "at", "turn"}], "constraints": [{...}], "states":
[{"q", "qd", "push"}], "active": [[0 or 1 for each constraint] for each state], "device"}. The entries of a constraint
are those of `Constraint`, and "joints" are named by their links. A frame without a link is on the base.
"""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
from dynagate import Robot, RobotError, evaluate, trace
from dynagate.graph.loop import evaluate_loop
from dynagate.graph.scan_trace import trace_scan
from dynagate.robot import Constraint, Frame
from dynagate.robot.vectors import matrix3, vector3

from tests.fuzz import rollouts
from tests.fuzz.findings import Findings
from tests.fuzz.reference import Array, Reference
from tests.fuzz.robots import SINGLE, draw_robot, number, rotation
from tests.kkt import Kkt

Case = dict[str, Any]
FORWARD = "constrained_forward_dynamics"
FORMS = ("blocks", "single_pivots", "articulated")
EXACT = 1e-12
"""Tolerance in float64 at a condition number of 1, of the whole system and with the accelerations eliminated."""
LARGEST_CONDITION = 1e10
REGULAR = 1e-3
"""Least singular value of rows without compliance, each of length 1, with which a robot must not be refused."""


def draw(random: np.random.Generator) -> Case:
    recipe = draw_robot(random, most=3)
    links = [link["name"] for link in recipe["links"] if link["joint"] != "fixed"]
    frames = [{"name": "wall", "at": _place(random, 0.3), "turn": _degrees(random)}]
    for k in range(int(random.integers(1, 4))):
        on = str(random.choice(links))
        frames.append({"name": f"f{k}", "link": on, "at": _place(random, 0.1), "turn": _degrees(random)})
    scale = 10.0 ** float(random.integers(-8, 3))
    drawn = [_constraint(random, recipe, frames, scale) for _ in range(int(random.integers(1, 4)))]
    # one of each pair of ends
    own = list({(x["kind"] == "joints", *sorted((x["frame"], x.get("to", "")))): x for x in drawn}.values())
    states = [rollouts.draw_state(random, recipe) for _ in range(2)]
    if random.random() < 0.4:
        states[0] = {**states[0], "qd": {}, **({"q": {}} if random.random() < 0.5 else {})}  # at rest, straight
    active = [[int(random.random() < 0.8) for _ in own] for _ in states]
    device = str(random.choice(["numpy", "cpu"]))
    case = {"kind": "constraints", "robot": recipe, "frames": frames, "constraints": own, "states": states}
    return {**case, "active": active, "device": device}


def _place(random: np.random.Generator, size: float) -> list[float]:
    return [number(random, -size, size) for _ in range(3)]


def _degrees(random: np.random.Generator) -> list[int]:
    return [int(x) for x in random.integers(-170, 170, 3)] if random.random() < 0.6 else [0, 0, 0]


def _constraint(random: np.random.Generator, recipe: Case, frames: list[Case], scale: float) -> Case:
    held = frames[int(random.integers(1, len(frames)))]
    others = [frame["name"] for frame in frames if frame.get("link") != held["link"]]
    own: Case = {"frame": held["name"]}
    single = [link["name"] for link in recipe["links"] if link["joint"] in SINGLE]
    if len(single) > 1 and random.random() < 0.15:
        first, second = (str(x) for x in random.choice(single, 2, replace=False))
        polynomial = [number(random, -1, 1) for _ in range(3)]
        own |= {"frame": first, "to": second, "kind": "joints", "polynomial": polynomial}
    elif random.random() < 0.5:
        own |= {"to": str(random.choice(others)), "kind": str(random.choice(["point", "fixed", "hinge", "distance"]))}
        own |= {"stiffness": number(random, 1, 50)} if random.random() < 0.5 else {}
        own |= {"length": number(random, 0.1, 0.5)} if own["kind"] == "distance" else {}
    else:
        own["kind"] = str(random.choice(["point", "fixed", "fixed", "plane"]))
        own |= {"normal": [*_place(random, 1.0)[:2], 0.7]} if own["kind"] == "plane" else {}
    own |= {"damping": number(random, 1, 10)} if random.random() < 0.3 else {}
    # some rows without compliance, and several orders of magnitude apart
    own |= {"compliance": float(f"{scale * 10 ** random.uniform(-1, 1):.2g}")} if random.random() < 0.92 else {}
    chance = random.random()
    if chance < 0.4:
        turning = 0.0 if chance < 0.05 else float(f"{scale * 10 ** random.uniform(-3, 3):.2g}")
        own["moment_compliance"] = turning
    return own


def _held(case: Case, robot: Robot) -> Robot:
    """The robot with the frames and constraints of the case, those without a frame left out."""
    indices = {link.name: k for k, link in enumerate(robot.links)}
    joints = {link.name: link.joint.name for link in robot.links}
    frames = [
        Frame(
            frame["name"],
            indices.get(frame.get("link"), -1),
            matrix3(rotation(frame.get("turn", [0, 0, 0]))),
            vector3(frame.get("at", [0.0, 0.0, 0.0])),
        )
        for frame in case["frames"]
    ]
    constraints = []
    for entries in case["constraints"]:
        own = {key: tuple(x) if isinstance(x, list) else x for key, x in entries.items()}
        if own.get("kind") == "joints":
            own |= {key: joints.get(own.get(key, ""), "") for key in ("frame", "to")}
        constraints.append(Constraint(**own))
    return replace(robot, frames=tuple(frames), constraints=tuple(constraints))


def _system(case: Case, robot: Robot, reference: Reference) -> Kkt:
    """The dense system, whose frames and constraints come from the case and not from the robot."""
    moving = {link["name"] for link in reference.moving}
    frames = {
        frame["name"]: (
            frame.get("link", "") if frame.get("link") in moving else "",
            rotation(frame.get("turn", [0, 0, 0])),
            np.array(frame.get("at", [0.0, 0.0, 0.0]), float),
        )
        for frame in case["frames"]
    }
    return Kkt(reference, frames, {link.joint.name: link.name for link in robot.links}, robot.constraints)


def check(case: Case, findings: Findings) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = rollouts.robot_of(case["robot"], Path(folder))
        reference = rollouts.reference_of(case, robot)
        held = _held(case, robot)
        system = _system(case, held, reference)
        inputs = _inputs(case, system)
        try:
            condition = float(
                max(f(inputs["q"], inputs["active"]).max() for f in (system.condition, system.eliminated))
            )
        except np.linalg.LinAlgError:
            condition = np.inf
        if not condition < LARGEST_CONDITION:
            raise RobotError(f"condition {condition:.0e}; expected a system that floats can solve")
        try:
            trace(held, FORWARD)
        except RobotError as error:
            findings.refused.append(str(error))
            if "not determined" in str(error) and _is_regular(system, inputs):
                findings.wrong("refusal", f"of a robot whose rows are independent: {error}")
            return
        _compare(case, held, system, inputs, condition, findings)


def _is_regular(system: Kkt, inputs: dict[str, Array]) -> bool:
    """Whether the rows without compliance are clearly independent at the first state. Loops are refused by their rows
    when they are closed, which they are not here."""
    if any(own.to and own.kind != "joints" for own in system.constraints):
        return False
    rows = system.jacobian(inputs["q"][:1])[0][system.compliance == 0.0]
    sizes = np.linalg.norm(rows, axis=1)
    if not len(rows) or not sizes.min() > 0.0:
        return not len(rows)
    values = np.linalg.svd(rows / sizes[:, None], compute_uv=False)
    return bool(len(rows) <= rows.shape[1] and values.min() > REGULAR)


def _inputs(case: Case, system: Kkt) -> dict[str, Array]:
    reference = system.reference
    q, qd, qdd = rollouts.states_of(case, reference)
    random, count = np.random.default_rng(1), len(system.constraints)
    active = np.ones((len(q), count))
    for row, drawn in zip(active, case.get("active", []), strict=False):
        row[: len(drawn)] = np.sign(drawn[:count])
    arrays = {"q": q, "qd": qd, "tau": reference.inverse(q, qd, qdd), "active": active}
    arrays["restitution"] = random.uniform(0.0, 1.0, active.shape)
    rows = len(system.compliance)
    for name, size in (("qdd", qd.shape[1]), ("qd_after", qd.shape[1]), ("force", rows), ("impulse", rows)):
        arrays[f"lam_{name}"] = random.uniform(-1.0, 1.0, (len(q), size))
    return arrays


def _compare(case: Case, robot: Robot, system: Kkt, x: dict[str, Array], condition: float, findings: Findings) -> None:
    state = x["q"], x["qd"], x["tau"], x["active"]
    caught = x["q"], x["qd"], x["active"], x["restitution"]
    moved, hit = system.forward(*state), system.impact(*caught)
    near = partial(_near, findings, EXACT * condition)
    for form in FORMS:
        motion = findings.guarded(form, partial(_run, robot, FORWARD, x, form=form))
        near(form, motion, {"qdd": moved.x, "force": moved.force})
    loop = findings.guarded("scan", lambda: trace_scan(robot, FORWARD))
    if loop is not None:
        near(
            "scan",
            evaluate_loop(loop, {p.name: x[p.name] for p in loop.inputs}),
            {"qdd": moved.x, "force": moved.force},
        )
    for form in FORMS[:2]:
        near(form, _run(robot, "impact", x, form=form), {"qd_after": hit.x, "impulse": hit.force})
    products = _products(x, system.forward_slopes(*state), "qdd force", "q qd tau")
    name = f"{FORWARD}_vjp"
    if case.get("device") == "cpu":
        with dynagate.compile(robot, name, device="cpu") as opened:
            got = dict(opened(**{port.name: x[port.name] for port in opened.device.inputs}))
    else:
        got = _run(robot, name, x)
    near = partial(_near, findings, 100.0 * EXACT * condition)
    near(name, got, products)
    products = _products(x, system.impact_slopes(*caught), "qd_after impulse", "q qd")
    near("impact_vjp", _run(robot, "impact_vjp", x), products)


def _run(robot: Robot, name: str, x: dict[str, Array], **options: Any) -> dict[str, Array]:
    graph = trace(robot, name, **options)
    return evaluate(graph, {port.name: x[port.name] for port in graph.inputs})


def _near(findings: Findings, tolerance: float, where: str, got: Any, expected: dict[str, Array]) -> None:
    if got is None or not tolerance < 0.1:
        return
    for name, value in expected.items():
        findings.near(f"{where} {name}", got[name], value, max(tolerance, 10.0 * EXACT), 1e-3)


def _products(x: dict[str, Array], by: dict[str, Array], outputs: str, inputs: str) -> dict[str, Array]:
    """The products of weights and derivatives."""
    return {
        f"vjp_{y}": sum(np.einsum("bi,bij->bj", x[f"lam_{z}"], by[f"d{z}_d{y}"]) for z in outputs.split())
        for y in inputs.split()
    }
