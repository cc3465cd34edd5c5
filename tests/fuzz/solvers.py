"""Solvers of optimal control: iLQR and MPPI of drawn robots, against rollouts and costs of the independent reference.

A case: {"kind": "solvers", "robot", "states": [{"q", "qd", "push"}], "knots", "dt", "integrator", "solver": "ilqr" or
"mppi", "device", "weights": [of q, of q̇, of torques]} and, where drawn, "bound" (of torques, a share of those that push
the robot). The residuals are the weights times q - goal, q̇ and τ.

Batches without problems must have the shapes of the others, with a guess and from a warm start too.
"""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import dynagate
import numpy as np
from dynagate import Robot, RobotError
from dynagate.control import Cost, Knot

from tests.fuzz import rollouts
from tests.fuzz.findings import Findings
from tests.fuzz.reference import Array, Reference
from tests.fuzz.robots import draw_robot, number, robot_of

Case = dict[str, Any]
SAMPLES = 8
TEMPERATURE = 2.0
EXACT = 1e-8
"""Tolerance at a condition number of 1."""
TOLERANCE = 1e-9
"""Expected decrease at which iLQR has converged, in the cost's unit."""
LARGEST_COST = 1e6
NUDGE = 1e-3
"""Change of the torques about a converged solution, of their largest."""


class Problem(NamedTuple):
    """What a case computes with. q, qd, tau: the starts (states, ...), and torques (states, knots, nv)."""

    case: Case
    reference: Reference
    weights: tuple[float, float, float]
    q: Array
    qd: Array
    tau: Array
    goal: Array

    def motion(self, q: Array, qd: Array, tau: Array) -> tuple[Array, Array, Array]:
        """Return the states (..., knots + 1, ·) of torques (..., knots, nv), and the costs (...)."""
        dt, rows, cost = self.case["dt"], [(q, qd)], 0.0 * q[..., 0]
        for k in range(tau.shape[-2]):
            cost = cost + dt * self.loss(*rows[-1], tau[..., k, :])
            rows.append(self.reference.step(*rows[-1], tau[..., k, :], dt, self.case["integrator"]))
        cost = cost + self.loss(*rows[-1], 0.0 * rows[-1][1])
        return np.stack([row[0] for row in rows], axis=-2), np.stack([row[1] for row in rows], axis=-2), cost

    def loss(self, q: Array, qd: Array, tau: Array) -> Array:
        squares = (((q - self.goal) ** 2).sum(-1), (qd**2).sum(-1), (tau**2).sum(-1))
        return 0.5 * sum(w * w * square for w, square in zip(self.weights, squares, strict=True))


def draw(random: np.random.Generator) -> Case:
    recipe = draw_robot(random, 3)
    for link in recipe["links"]:
        link.pop("friction", None)
    light = all(link.get("mass", 1.0) < 0.1 for link in recipe["links"])
    case: Case = {
        "kind": "solvers",
        "robot": recipe,
        "states": [rollouts.draw_state(random, recipe, 1.0) for _ in range(2)],
        "knots": int(random.integers(1, 5)),
        "dt": float(random.choice([1e-3, 5e-3] if light else [1e-3, 0.01, 0.03])),
        "integrator": str(random.choice(rollouts.INTEGRATORS)),
        "solver": str(random.choice(["ilqr", "mppi"])),
        "device": str(random.choice(["numpy", "cpu"])),
        "weights": [number(random, 0.1, 2.0), number(random, 0.01, 1.0), number(random, 0.1, 3.0)],
    }
    if random.random() < 0.4:
        case["bound"] = number(random, 0.1, 1.5)
    return case


def check(case: Case, findings: Findings) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        robot = robot_of(case["robot"], Path(folder))
        problem = _problem_of(case, rollouts.reference_of(case, robot))
        findings.guarded(f"{case['device']} {case['solver']}", partial(_solved, robot, problem, findings))


def _problem_of(case: Case, reference: Reference) -> Problem:
    """Raises RobotError: floats cannot follow this robot."""
    q, qd, push = rollouts.states_of(case, reference)
    if not np.linalg.cond(reference.mass(q)).max() < rollouts.LARGEST_CONDITION:
        raise RobotError("expected a robot that floats can tell")
    tau = reference.inverse(q, qd, push)[:, None] * np.ones((case["knots"], 1))
    scale = 1.0 / max(1e-6, float(np.abs(tau).max()))
    weights = (*case["weights"][:2], case["weights"][2] * scale)
    problem = Problem(case, reference, weights, q, qd, tau, reference.neutral())
    if not (problem.motion(q, qd, tau)[2] < LARGEST_COST).all():
        raise RobotError("expected a motion that floats can follow")
    return problem


def _cost_of(problem: Problem) -> Cost:
    place, speed, torque = problem.weights

    def residuals(now: Knot) -> Array:
        goal = [place * (a - b) for a, b in zip(now.q, now["goal"], strict=True)]
        rest = [] if now.last else [torque * x for x in now.tau]
        return np.array([*goal, *(speed * x for x in now.qd), *rest], dtype=object)

    return Cost(residuals, residuals, inputs={"goal": problem.goal.shape})


def _solved(robot: Robot, problem: Problem, findings: Findings) -> None:
    case = problem.case
    where = f"{case['device']} {case['solver']}"
    bound = case.get("bound", 0.0) * float(np.abs(problem.tau).max())
    options = {"integrator": case["integrator"], "device": case["device"], **({"bounds": bound} if bound else {})}
    limits = _limits(problem.reference, bound)
    sizes: dict[str, Any] = {"knots": case["knots"], "dt": case["dt"], "cost": _cost_of(problem)}
    if case["solver"] == "ilqr":
        ilqr = dynagate.ilqr(robot, **sizes, tolerance=TOLERANCE, iterations=60, **options)
        solution = ilqr(problem.q, problem.qd, problem.tau, goal=problem.goal)
        _optimal(where, problem, solution, limits, findings)
        empty = ilqr(problem.q[:0], problem.qd[:0], goal=problem.goal)
        _without_problems(where, solution, empty, findings)
        warm = ilqr(problem.q[:0], problem.qd[:0], warm=empty, goal=problem.goal)
        _without_problems(f"{where} warm", solution, warm, findings)
        solver: Any = ilqr
    else:
        spread = 0.3 * float(np.abs(problem.tau).max()) + 1e-6
        mppi = dynagate.mppi(robot, **sizes, temperature=TEMPERATURE, spread=spread, samples=SAMPLES, **options)
        sampled = mppi(problem.q, problem.qd, problem.tau, draw=3, goal=problem.goal)
        _weighted(where, problem, mppi.torques(problem.tau, 3), sampled, limits, findings)
        solution, solver = sampled, mppi
    nothing = np.zeros((3, 0, robot.nq)), np.zeros((3, 0, robot.nv)), problem.tau[:0]
    for name, value in _arrays(solver(*nothing, goal=problem.goal)).items():
        findings.same(f"{where} {name} of no problem", value.shape, (3, 0, *_arrays(solution)[name].shape[1:]))


def _limits(reference: Reference, bound: float) -> tuple[Array, Array]:
    """Return the lowest and highest torques (nv,); those of floating joints are 0. bound: 0 for none."""
    highest = np.full(reference.nv, bound or np.inf)
    for link in reference.moving:
        if link["joint"] == "floating":
            highest[reference.columns[link["name"]]] = 0.0
    return -highest, highest


def _arrays(result: Any) -> dict[str, Array]:
    return {each.name: getattr(result, each.name) for each in fields(result)}


def _without_problems(where: str, result: Any, empty: Any, findings: Findings) -> None:
    for name, value in _arrays(empty).items():
        findings.same(f"{where} {name} of an empty batch", value.shape, (0, *_arrays(result)[name].shape[1:]))


def _optimal(where: str, problem: Problem, solution: Any, limits: tuple[Array, Array], findings: Findings) -> None:
    """Compare the motion and its cost, and a converged problem with others near it, none of which costs less."""
    tau = solution.tau
    good = np.isfinite(tau).all(axis=(1, 2)) & ~solution.failed
    q, qd, cost = problem.motion(problem.q, problem.qd, tau)
    tolerance = EXACT + 1e-12 * float(np.linalg.cond(problem.reference.mass(problem.q)).max())
    findings.near(f"{where} q", solution.q[good], q[good], tolerance, rollouts.SMALLEST)
    findings.near(f"{where} qd", solution.qd[good], qd[good], tolerance, rollouts.SMALLEST)
    findings.near(f"{where} cost", solution.cost[good], cost[good], tolerance)
    findings.near(f"{where} bounds", np.clip(tau[good], *limits), tau[good], 1e-15)
    guessed = problem.motion(problem.q, problem.qd, np.clip(problem.tau, *limits))[2]
    worse = good & ~(solution.cost <= guessed * (1.0 + tolerance))
    if worse.any():
        findings.wrong(f"{where} worse", f"costs {solution.cost[worse]}, more than the guess's {guessed[worse]}")
    random, size = np.random.default_rng(2), NUDGE * max(1e-9, float(np.abs(problem.tau).max()))
    for k in np.flatnonzero(good & solution.converged):
        near = np.clip(tau[k] + size * random.normal(size=(20, *tau[k].shape)), *limits)
        start = (np.broadcast_to(x[k], (20, x.shape[1])) for x in (problem.q, problem.qd))
        least = problem.motion(*start, near)[2].min()
        findings.compared += 1
        if least < cost[k] - 10.0 * (TOLERANCE + tolerance * cost[k]):
            findings.wrong(f"{where} converged", f"costs {cost[k]}, and {least} near it")


def _weighted(
    where: str, problem: Problem, drawn: Array, sampled: Any, limits: tuple[Array, Array], findings: Findings
) -> None:
    """Compare the mean torques and costs with those of the samples' own rollouts."""
    tau = np.clip(drawn, *limits)
    q, qd = (np.repeat(x[:, None], SAMPLES, axis=1) for x in (problem.q, problem.qd))
    costs = problem.motion(q, qd, tau)[2]
    least = costs.min(axis=1, keepdims=True)
    share = np.exp(-(costs - least) / TEMPERATURE)
    share /= share.sum(axis=1, keepdims=True)
    tolerance = 10.0 * (EXACT + 1e-12 * float(np.linalg.cond(problem.reference.mass(problem.q)).max()))
    if tolerance * costs.max() > 0.1 * TEMPERATURE:
        return
    tolerance *= 1.0 + costs.max() / TEMPERATURE
    expected = {"least": least[:, 0], "cost": (share * costs).sum(axis=1), "effective": 1.0 / (share**2).sum(axis=1)}
    expected["tau"] = np.einsum("bs,bskn->bkn", share, tau)
    for name, value in expected.items():
        findings.near(f"{where} {name}", getattr(sampled, name), value, tolerance)
