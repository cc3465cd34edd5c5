"""A solver as a program on a simulated processor, end to end: build, load, solve problems, compare with the integers
and with float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.control.chip import ChipIlqr, calls_of
from dynagate.control.cost import Cost
from dynagate.control.ilqr import IlqrOptions
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.host.opening import open
from dynagate.host.processor_report import of_program
from dynagate.host.solver import bounds_of
from dynagate.hw.processor.build import ProcessorBuild, build_solver
from dynagate.hw.processor.shape import Core
from dynagate.integrators.step import StepOptions
from dynagate.robot import Robot

Array = npt.NDArray[Any]

FORMAT_PROBLEMS = 24
"""That formats come from."""
COST_ERROR, GAIN_ERROR, FEW = 0.01, 1e-3, 0.5
"""Of the cost, relative; of gains, relative to the largest; the share of problems that must be within both."""
MOST, TOLERANCE = 50, 1e-3
"""Iterations, and the fall of the cost below which a problem has converged."""
REGULARISATION = (1e-7, 1.0)
"""Of the smallest, words of 27 bits can tell beside the largest."""
FAR, FAST = 0.5, 0.05
"""Starts and goals in this share of the limits, rad within π; speeds up to this share of the limits."""


def drawn_problems(region: Region, holding: Callable[[Array], Array], batch: int, seed: int) -> dict[str, Array]:
    """Starts, goals and guesses of torques, (batch, ·). A third of the problems begins at rest. holding: torques that
    hold the robot where it is."""
    random = np.random.default_rng(seed)
    low, high = (np.clip(np.array(x), -np.pi, np.pi) for x in (region.lower, region.upper))
    middle, half = (low + high) / 2, (high - low) / 2
    q = middle + FAR * half * random.uniform(-1.0, 1.0, (batch, len(low)))
    goal = np.clip(q + random.uniform(-FAR, FAR, q.shape), middle - half, middle + half)
    for part in region.robot.quaternions():
        for each in (q, goal):
            each[:, part] /= np.linalg.norm(each[:, part], axis=1, keepdims=True)
    speed = np.array(region.velocity)
    qd = FAST * speed * random.uniform(-1.0, 1.0, (batch, len(speed)))
    qd[::3] = 0.0
    return {"q": q, "qd": qd, "goal": goal, "guess": holding(q)}


def reaching(robot: Robot, knots: int, dt: float) -> tuple[ChipIlqr, Callable[[Array], Array]]:
    """A solver that brings a robot to a goal, and the torques (batch, nv) that hold it at q (batch, nq). Raises
    ValueError: as `ChipIlqr.of`."""
    cost = Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=10.0)
    options = IlqrOptions(knots, StepOptions(dt), MOST, TOLERANCE, *REGULARISATION, bounds_of(robot, None))
    inverse = trace(robot, "inverse_dynamics")

    def holding(q: Array) -> Array:
        zero = np.zeros((len(q), robot.nv))
        return evaluate(inverse, {"q": q, "qd": zero, "qdd": zero})["tau"]

    return ChipIlqr.of(robot, cost, options), holding


@dataclass(frozen=True)
class SolverReport:
    """exact: every integer is equal. cost, gain: errors of each problem, relative. converged: of the problems, on the
    chip and in float64. turns, cycles: of each problem, measured from its first word to its results. warm: whether the
    integers of calls that go on with the plan before are equal too."""

    built: ProcessorBuild
    exact: bool
    warm: bool
    cost: Array
    gain: Array
    converged: tuple[int, int]
    overflows: int
    turns: Array
    cycles: Array

    @property
    def near(self) -> int:
        """Problems whose cost and gains are near float64's."""
        return int(((self.cost <= COST_ERROR) & (self.gain <= GAIN_ERROR)).sum())

    @property
    def passed(self) -> bool:
        """The integers are equal, and FEW of the problems and more are near float64."""
        return self.exact and self.warm and self.near >= FEW * len(self.cost)

    @property
    def verdict(self) -> str:
        """PASS; or FAIL, and what would do."""
        if self.passed:
            return "PASS"
        if not (self.exact and self.warm):
            return "FAIL: the core and its integers differ, which is a fault of the program"
        return (
            f"FAIL: near float64 in {self.near} of {len(self.cost)}; expected a longer --word, fewer --knots, or "
            "another cost, by ChipIlqr"
        )

    def text(self) -> str:
        scheduled, options = self.built.schedule, self.built.design.options
        count = len(self.cost)
        lines = [
            f"{self.built.robot.name} ilqr, {options['knots']} knots of {options['dt']:g} s, {scheduled.core.word}-bit "
            f"words, {scheduled.core.units} units",
            *of_program(self.built),
            f"  kept            {scheduled.instructions.kept} of {1 << scheduled.core.turn_bits} values of turns",
            f"  iteration       {self.cycles.sum() / self.turns.sum():.0f} cycles measured over {self.turns.sum()} of "
            f"{count} problems; {self.cycles.max()} the longest problem",
            f"  converged       {self.converged[0]} of {count}; in float64 {self.converged[1]}",
            f"  overflows       in {self.overflows} of {count}; what a line search refuses is among them",
            f"  cost            {np.median(self.cost):.1e} from float64's, {self.cost.max():.1e} at most, relative",
            f"  gains           {np.median(self.gain):.1e} of the largest, {self.gain.max():.1e} at most",
            f"  near            {self.near} of {count} within {COST_ERROR:g} and {GAIN_ERROR:g}",
            f"  integers        {'equal' if self.exact else 'NOT EQUAL'}; of calls that go on with the plan before "
            f"{'equal' if self.warm else 'NOT EQUAL'}",
            self.verdict,
        ]
        return "\n".join(lines)


def solver_report(
    solver: ChipIlqr,
    holding: Callable[[Array], Array],
    *,
    units: int | Core,
    word: int,
    region: Region,
    folder: str | PathLike[str],
    states: int = 8,
    seed: int = 1,
    step: Callable[[str], Any] | None = None,
) -> SolverReport:
    """Build a solver's program, load it into a simulated core, solve `states` problems, and compare. The errors are
    those of `build_solver` and `open`. holding: as of `drawn_problems`."""
    say = step or (lambda text: None)
    known = drawn_problems(region, holding, FORMAT_PROBLEMS, seed + 1)
    built = build_solver(solver, known, units, word=word, folder=Path(folder), region=region, step=say)
    problems = drawn_problems(region, holding, states, seed)
    say("solving them in float64")
    (cold, exact), (warm, _) = calls_of(solver, problems, 2)
    series = {name: np.stack([cold[name][0], warm[name][0]]) for name in cold}
    with open(built, device="fixed") as integers, open(built, step=say) as chip:
        say(f"{len(cold['q'])} problems in integers")
        expected, after = integers(**cold), integers(**series)
        say(f"{len(cold['q'])} problems on the core")
        calls, cycles = [], []
        for k in range(len(cold["q"])):  # one by one: the first word out comes when a problem is solved
            calls.append(chip(**{name: x[k] for name, x in cold.items()}))
            cycles.append(chip.transfer.latency)
        again = chip(**series)
    return _compared(built, exact, (calls, expected), (again, after), np.array(cycles))


def _compared(
    built: ProcessorBuild, exact: Mapping[str, Array], cold: tuple[list[Any], Any], warm: tuple[Any, Any], cycles: Array
) -> SolverReport:
    """cold, warm: results of the core, problem by problem or of all, and of the integers. cycles: of the problems."""
    names = [port.name for port in built.design.output.ports]
    calls, expected = cold
    got = {name: np.stack([getattr(call, name) for call in calls]) for name in names}
    largest = np.abs(exact["gains_new"]).max(axis=(1, 2, 3))
    return SolverReport(
        built,
        all(np.array_equal(got[name], getattr(expected, name)) for name in names),
        all(np.array_equal(getattr(warm[0], name), getattr(warm[1], name)) for name in names),
        np.abs(got["cost"] / exact["cost"] - 1.0),
        np.abs(got["gain"] - exact["gain"]).max(axis=(1, 2)) / largest,
        (int((got["converged"] > 0).sum()), int((exact["converged"] > 0).sum())),
        int(sum(call.overflow for call in calls)),
        got["turns"].astype(int),
        cycles,
    )
