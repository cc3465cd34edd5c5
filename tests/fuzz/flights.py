"""Free flight of floating robots: momentum about the center of mass, and energy, by the independent reference.

A case: {"kind": "flights", "robot", "states": [{"q", "qd"}], "steps", "dt", "integrator", "device"}. The integrator
"contacts" is a rollout with a rigid plane that is far below. Joints have no damping, friction or armature. A body alone
keeps its momentum to rounding by each method of order 1; all other motions keep it by the order of their method.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from dynagate import RobotError, Rollout
from dynagate.integrators import Plane, Point, RigidContact

from tests.fuzz import rollouts
from tests.fuzz.findings import Findings
from tests.fuzz.reference import Array, Reference, skew, times, transposed
from tests.fuzz.robots import draw_robot, robot_of

Case = dict[str, Any]
ORDERS = {"semi_implicit_euler": 1, "euler": 1, "contacts": 1, "rk2": 2, "rk3": 3, "rk4": 4}
EXACT = 1e-11
"""Tolerance for what a method keeps to rounding, at a condition number of 1."""
FACTOR = 100.0
"""Largest error of a step that keeps momentum by its order: this times turn ** (order + 1)."""


def draw(random: np.random.Generator) -> Case:
    recipe = draw_robot(random, 3, ("ball",))
    recipe["links"][0]["joint"] = "floating"
    if random.random() < 0.5:
        recipe["links"] = recipe["links"][:1]
    if random.random() < 0.5:
        recipe["gravity"] = [0.0, 0.0, 0.0]
    for link in recipe["links"]:
        for name in ("damping", "friction", "armature", "axis"):
            link.pop(name, None)
    states = [rollouts.draw_state(random, recipe, float(random.choice([1.0, 20.0]))) for _ in range(2)]
    names = list(ORDERS) if len(recipe["links"]) == 1 else ["rk2", "rk3", "rk4"]
    return {
        "kind": "flights",
        "robot": recipe,
        "states": [{"q": state["q"], "qd": state["qd"]} for state in states],
        "steps": int(random.integers(1, 40)),
        "dt": float(random.choice([1e-4, 1e-3, 5e-3])),
        "integrator": str(random.choice(names)),
        "device": str(random.choice(["numpy", "cpu"])),
    }


def kept_of(reference: Reference, q: Array, v: Array) -> dict[str, Array]:
    """Return the center of mass, momentum, angular momentum about that center and energy, over all leading axes."""
    bodies, speeds = reference.bodies(q, v, np.zeros_like(v)), v @ reference.coupling.T
    mass, parts = sum(link["mass"] for link in reference.links), []
    for link in reference.links:
        body = bodies[link["name"]]
        c = times(body["turn"], np.array(link["com"], float))
        fast = times(body["moving"] - skew(c) @ body["turning"], speeds)
        turned = body["turn"] @ reference.inertias[link["name"]] @ transposed(body["turn"])
        parts.append((link["mass"], body["place"] + c, fast, body["w"], times(turned, body["w"])))
    center: Any = sum(m * at for m, at, *_ in parts) / mass
    spin: Any = sum(own + m * np.cross(at - center, fast) for m, at, fast, _, own in parts)
    energy: Any = sum(0.5 * (m * (fast * fast).sum(-1) + (w * own).sum(-1)) for m, _, fast, w, own in parts)
    momentum: Any = sum(m * fast for m, _, fast, *_ in parts)
    return {"center": center, "momentum": momentum, "spin": spin, "kinetic": energy}


def check(case: Case, findings: Findings) -> None:
    with tempfile.TemporaryDirectory() as folder:
        robot = robot_of(case["robot"], Path(folder))
    reference = rollouts.reference_of(case, robot)
    root = reference.moving[0]
    if root["joint"] != "floating" or any(
        (reference.damping, reference.armature, reference.dry)[k].any() for k in range(3)
    ):
        raise RobotError("expected a floating robot without damping, friction and armature")
    q, qd, _ = rollouts.states_of(case, reference)
    condition = float(np.linalg.cond(reference.mass(q)).max())
    if not condition < rollouts.LARGEST_CONDITION:
        raise RobotError("expected a robot that floats can tell")
    steps, dt, name = case.get("steps", 1), case.get("dt", 1e-3), case.get("integrator", "rk4")
    method: Any = {"integrator": name}
    if name == "contacts":
        point = Point(root["name"], (0.0, 0.0, 0.0))
        method = {"contacts": RigidContact((point,), (Plane((0.0, 0.0, 1.0), -1e3),))}
    rollout = Rollout(robot, steps=steps, dt=dt, device=case.get("device", "numpy"), **method)
    out = rollout(q, qd, np.zeros((len(q), steps, reference.nv)))
    kept, times_ = kept_of(reference, out.q, out.qd), dt * np.arange(steps + 1)[:, None]
    turn = dt * float(np.abs(out.qd).max())
    alone, order = len(reference.links) == 1, ORDERS[name]
    if turn > 0.3:
        return
    tolerance = EXACT * condition + (0.0 if alone and order == 1 else FACTOR * steps * turn ** (order + 1))
    mass, gravity = sum(link["mass"] for link in reference.links), reference.gravity
    fall = kept["momentum"][:, :1] + mass * gravity * times_
    size = max(1.0, float(np.abs(out.qd).max()))
    _near(findings, "momentum", kept["momentum"] / (mass * size), fall / (mass * size), tolerance)
    inertia = max(float(np.abs(kept["spin"]).max()), mass * 1e-4)
    _near(findings, "spin", kept["spin"] / inertia, (kept["spin"][:, :1] + 0.0 * kept["spin"]) / inertia, tolerance)
    work = mass * (kept["center"] - kept["center"][:, :1]) @ gravity
    if name == "euler" or (order == 1 and gravity.any()):
        return  # the energy is of first order in dt
    energy, scale = kept["kinetic"] - work, max(float(kept["kinetic"].max()), mass * 1e-4)
    tolerance = EXACT * condition + (10.0 * turn**2 if order == 1 else FACTOR * steps * turn ** (order + 1))
    _near(findings, "energy", energy / scale, (energy[:, :1] + 0.0 * energy) / scale, tolerance)


def _near(findings: Findings, what: str, value: Array, expected: Array, tolerance: float) -> None:
    if tolerance < 0.1:
        findings.near(what, value, expected, tolerance, 1.0)
