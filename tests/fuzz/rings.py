"""Rollouts on a chip: its integers against the reference, and the simulated ring against its integers, bit for bit.

A case: {"kind": "rings", "robot", "states", "steps", "dt", "integrator", "devices"} and, where drawn, "linearize",
"stops", "friction", "friction_speed", "shell" (the ring in its AXI shell too). Robots have joints that do not feel each
other, so that A and B have zeros, and joints that turn for ever.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import dynagate
import numpy as np
from dynagate import Region, Robot, RobotError, Trajectories
from dynagate.hw.rtl.axi import Axi

from tests.fuzz import rollouts
from tests.fuzz.findings import Findings
from tests.fuzz.reference import Reference
from tests.fuzz.robots import Recipe, completed, number, robot_of

Array = np.ndarray
Case = dict[str, Any]
ROUNDED = 0.02
"""Tolerance of words of 24 bits after a few steps; of A and B by their largest entry."""
SMALLEST = 0.1
"""rad, m, rad/s or m/s: states near zero are compared as if they were of this size."""
ACCELERATION, SPEED = 30.0, 6.0
"""Of the region, in which states and torques stay."""
INTERVAL = 16
LARGEST_CONDITION = 1e3


def draw(random: np.random.Generator) -> Case:
    recipe = _robot(random)
    case: Case = {
        "kind": "rings",
        "robot": recipe,
        "states": [_state(random, recipe) for _ in range(3)],
        "steps": int(random.integers(1, 5)),
        "dt": float(random.choice([0.005, 0.01])),
        "integrator": str(random.choice(rollouts.INTEGRATORS[:3])),
        "devices": ["fixed", "sim"] if random.random() < 0.5 else ["fixed"],
    }
    if random.random() < 0.6:
        case["linearize"] = True
    if random.random() < 0.3:
        case["stops"] = True
    if random.random() < 0.3:
        case["friction"], case["friction_speed"] = 0.05, 0.1
    if "sim" in case["devices"] and random.random() < 0.3:
        case["shell"] = True
    return case


def _robot(random: np.random.Generator) -> Recipe:
    """One to three joints, on the base or one after the other; without gravity now and then."""
    links: list[Recipe] = []
    for k in range(int(random.integers(1, 4))):
        joint = str(random.choice(["revolute", "continuous", "prismatic"], p=[0.3, 0.5, 0.2]))
        link: Recipe = {"name": f"l{k}", "joint": joint, "axis": [[0, 1, 0], [1, 0, 0], [0, 0, 1]][random.integers(3)]}
        if k and random.random() < 0.4:
            link["parent"], link["at"] = f"l{k - 1}", [0.0, 0.0, 0.2]
        link["mass"] = number(random, 0.5, 2.0)
        link["armature"] = 0.05
        if random.random() < 0.5:
            link["lower"], link["upper"] = -4.0, 4.0
        leaders = [each["name"] for each in links if "mimic" not in each and each["joint"] == joint]
        if leaders and random.random() < 0.4:
            link["mimic"] = {"link": leaders[0], "multiplier": float(random.choice([-1.0, 1.0]))}
        links.append(link)
    return {"links": links, **({"gravity": [0.0, 0.0, 0.0]} if random.random() < 0.3 else {})}


def _state(random: np.random.Generator, recipe: Recipe) -> Case:
    """A state by link; angles are often near π."""
    state: Case = {"q": {}, "qd": {}, "push": {}}
    for link in recipe["links"]:
        wide = link["joint"] == "continuous" or "upper" in link
        reach = float(random.choice([1.0, 3.1])) if wide else 1.0
        sign = float(random.choice([-1.0, 1.0]))
        state["q"][link["name"]] = float(f"{sign * reach * random.uniform(0.9, 1.0):.3g}")
        state["qd"][link["name"]] = float(f"{sign * random.uniform(0.0, 4.0):.2g}")
        state["push"][link["name"]] = float(f"{random.uniform(-8.0, 8.0):.2g}")
    return state


def check(case: Case, findings: Findings) -> None:
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        robot = robot_of(case["robot"], folder)
        reference = rollouts.reference_of(case, robot)
        q, qd, push = rollouts.states_of(case, reference)
        if not np.linalg.cond(reference.mass(q)).max() < LARGEST_CONDITION:
            raise RobotError("expected a robot that words of 24 bits can tell")
        tau = np.repeat(reference.inverse(q, qd, push)[:, None], case["steps"], axis=1)
        motion = rollouts.motion_of(case, reference, q, qd, tau, bool(case.get("linearize")))
        options = {name: case[name] for name in ("dt", *rollouts.OPTIONS[1:]) if name in case}
        options |= rollouts.forces_of(case)
        region = Region.of(robot, velocity=SPEED, acceleration=ACCELERATION)
        integers = findings.guarded("fixed", lambda: _fixed(robot, region, case["steps"], options, q, qd, tau))
        if integers is None:
            return
        _compare("fixed", case, reference, integers, motion, findings)
        if "sim" in case["devices"]:
            findings.guarded("sim", lambda: _simulated(case, robot, region, options, folder, (q, qd, tau), findings))


def _fixed(robot: Robot, region: Region, steps: int, options: Case, q: Array, qd: Array, tau: Array) -> Trajectories:
    return dynagate.Rollout(robot, steps=steps, device="fixed", region=region, **options)(q, qd, tau)


def _simulated(
    case: Case,
    robot: Robot,
    region: Region,
    options: Case,
    folder: Path,
    inputs: tuple[Array, Array, Array],
    findings: Findings,
) -> None:
    """A built ring against the integers of its own formats, bare and in its shell; calls in any order."""
    shell = {"axi": Axi(64)} if case.get("shell") else {}
    built = dynagate.build(robot, "rollout", ii=INTERVAL, region=region, folder=folder / "d", **shell, **options)
    with dynagate.open(built, device="fixed") as integers, dynagate.open(built) as ring:
        for call in ({}, {"last": True}, {}):
            expected, result = integers(*inputs, **call), ring(*inputs, **call)
            for part in ("q", "qd", "a", "b", "diverged"):
                if (value := getattr(expected, part)) is not None:
                    findings.same(f"sim {part}", getattr(result, part), value)
        if case.get("shell"):
            single = [x.astype(np.float32).astype(float) for x in inputs]
            expected = integers(*single)
            with dynagate.open(built, shell=True, pauses=(0.2, 0.3)) as shelled:
                result = shelled(*single)
                for part in ("q", "qd", "a", "b"):
                    if (value := getattr(expected, part)) is not None:
                        findings.same(f"shell {part}", getattr(result, part), value.astype(np.float32))


def _compare(
    where: str,
    case: Case,
    reference: Reference,
    result: Trajectories,
    motion: dict[str, Array],
    findings: Findings,
) -> None:
    """What did not overflow, against the reference; angles of joints without limits but for whole turns."""
    turning = [
        reference.at[link["name"]][0]
        for link in completed(case["robot"])
        if link["joint"] == "continuous" and "mimic" not in link
    ]
    right = result.diverged == -1
    error = result.q - motion["q"]
    error[..., turning] = np.mod(error[..., turning] + np.pi, 2.0 * np.pi) - np.pi
    findings.near(f"{where} q", error[right] + motion["q"][right], motion["q"][right], ROUNDED, SMALLEST)
    findings.near(f"{where} qd", result.qd[right], motion["qd"][right], ROUNDED, SMALLEST)
    if case.get("linearize"):
        findings.near(f"{where} a", result.a[right], motion["a"][right], ROUNDED)
        findings.near(f"{where} b", result.b[right], motion["b"][right], ROUNDED)
