"""The fuzzer: its reference against Pinocchio, its shrinking, the kept cases, and a few drawn ones of each kind."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from dynagate.dynamics.configuration import normalized
from dynagate.graph.reference_gradient import relative_errors

from tests import tolerances
from tests.fuzz import run
from tests.fuzz.findings import Findings
from tests.fuzz.reference import Reference
from tests.fuzz.robots import KINDS as ROBOTS
from tests.fuzz.robots import Recipe, robot_of
from tests.fuzz.shrink import shrunk
from tests.oracle import pinocchio_of
from tests.oracle import reference as by_pinocchio

SEED = 20
DRAWN = {"rollouts": 2, "loops": 3, "rings": 2, "calls": 12, "shards": 1, "constraints": 2}
DRAWN |= {"contacts": 4, "flights": 4, "solvers": 2}
"""Cases of each kind, of which most compare something."""


@pytest.mark.parametrize("path", sorted(run.CASES.glob("*.json")), ids=lambda path: path.stem)
def test_kept_case(path: Path) -> None:
    findings = run.check(json.loads(path.read_text()))
    assert findings.faults == {}
    assert findings.compared or findings.refused


@pytest.mark.parametrize("kind", run.KINDS)
def test_drawn_cases(kind: str) -> None:
    compared = 0
    for number in range(DRAWN[kind]):
        case = run.drawn(SEED, number, [kind])
        findings = run.check(case)
        assert findings.faults == {}, f"case {number} of seed {SEED}: {json.dumps(case)}"
        compared += findings.compared > 0
    assert compared > 0.7 * DRAWN[kind]


def drawn_robot(kind: str) -> Recipe:
    """A robot without what Pinocchio's model of it lacks."""
    recipe = ROBOTS[kind](np.random.default_rng(8), 5)
    for link in recipe["links"]:
        for entry in ("mimic", "damping", "armature", "friction"):
            link.pop(entry, None)
    return recipe


@pytest.mark.parametrize("kind", ROBOTS)
def test_reference_is_pinocchios(kind: str, tmp_path: Path) -> None:
    recipe = drawn_robot(kind)
    robot, random = robot_of(recipe, tmp_path), np.random.default_rng(3)
    reference = Reference(recipe, [link.name for link in robot.links])
    q = reference.move(reference.neutral(), random.uniform(-1.0, 1.0, (3, robot.nv)))
    qd, qdd = random.uniform(-2.0, 2.0, (2, 3, robot.nv))
    tau = reference.inverse(q, qd, qdd)
    state = {"q": q, "qd": qd, "qdd": qdd, "tau": tau}
    expected = by_pinocchio(robot, pinocchio_of(robot), state)
    (slopes,) = reference.slopes(lambda *at: (reference.forward(*at),), q, qd, tau)
    parts = dict(zip(("dqdd_dq", "dqdd_dqd", "minv"), np.split(slopes, 3, axis=-1), strict=True))
    for name, value in {"tau": tau, "m": reference.mass(q), **parts}.items():
        if np.abs(expected[name]).max() > tolerances.ZERO:
            assert relative_errors(value, expected[name]).max() < tolerances.PINOCCHIO, name


def test_shrinking_drops_what_does_not_matter() -> None:
    case: Recipe = {
        "kind": "numbers",
        "links": [{"name": f"l{k}", "mass": 1.5 + k, "turn": [10, 20, 30]} for k in range(5)],
        "steps": 9,
        "dt": 0.0123,
        "devices": ["numpy", "cpu"],
    }

    def fails(candidate: Recipe) -> bool:
        heavy = [link for link in candidate.get("links", ()) if link.get("mass", 0.0) > 3.0]
        return bool(heavy) and candidate.get("steps", 0) >= 4 and "cpu" in candidate.get("devices", ())

    small = {"kind": "numbers", "links": [{"mass": 4}], "steps": 4, "devices": ["cpu"]}
    result = shrunk(case, fails, 10.0)
    result["links"][0]["mass"] = round(result["links"][0]["mass"])
    assert result == small


def forks(test: Any) -> Any:
    """Without what Python and JAX say of forks beside threads, where other tests of the process have started some."""
    for told in ("ignore:.*fork", "ignore::pytest.PytestUnraisableExceptionWarning"):
        test = pytest.mark.filterwarnings(told)(test)
    return test


def counted(random: np.random.Generator) -> Recipe:
    return {"kind": "counted", "bodies": [{"size": int(size)} for size in random.integers(0, 9, 6)]}


def too_large(case: Recipe, findings: Findings) -> None:
    findings.near("largest", max([0, *(body.get("size", 0) for body in case["bodies"])]), 0, 6e9)


def crashing(case: Recipe, findings: Findings) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hanging(case: Recipe, findings: Findings) -> None:
    while True:
        pass


def waiting(case: Recipe, findings: Findings) -> None:
    signal.pause()


def failing(case: Recipe, findings: Findings) -> None:
    findings.guarded("numpy", lambda: normalized(None, np.zeros(2)))  # type: ignore[arg-type]


def of_numbers(monkeypatch: pytest.MonkeyPatch, check: Any) -> None:
    monkeypatch.setattr(run, "KINDS", {"counted": SimpleNamespace(draw=counted, check=check)})
    monkeypatch.setattr(run, "SHARES", {"counted": 1.0})


@forks
def test_what_fails_is_shrunk_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    of_numbers(monkeypatch, too_large)
    said: list[str] = []
    assert run.fuzz(0.01, 5, folder=tmp_path, progress=said.append) == 1
    (path,) = tmp_path.iterdir()
    case = json.loads(path.read_text())
    assert case["kind"] == "counted"
    assert len(case["bodies"]) == 1
    assert list(run.check(case).faults) == ["largest"]
    assert "counted: largest differs by" in said[0]
    assert str(path) in said[1]
    assert said[-1].startswith("seed 5: ")


@forks
@pytest.mark.parametrize(
    ("check", "what", "text"),
    [
        (crashing, "process", "ends the process"),
        (hanging, "process", "takes more than 1 s of processor time"),
        (waiting, "process", "waits for more than 0.5 s"),
        (failing, "numpy AttributeError", "'NoneType' object has no attribute 'quaternions'"),
    ],
)
def test_crashes_and_foreign_errors_are_faults(
    check: Any, what: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_numbers(monkeypatch, check)
    monkeypatch.setattr(run, "CPU_SECONDS", 1)
    monkeypatch.setattr(run, "WAIT_SECONDS", 0.5)
    findings = run.apart({"kind": "counted", "bodies": []})
    assert text in findings.faults[what]
