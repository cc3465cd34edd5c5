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

from dynagate.base.progress import Progress
from dynagate.control.chip import ChipSolver, calls_of
from dynagate.control.chip_ilqr import ChipIlqr
from dynagate.control.chip_mppi import ChipMppi, MppiOptions
from dynagate.control.cost import Cost
from dynagate.control.ilqr import IlqrOptions
from dynagate.fixedpoint.files import FORMATS
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.host.ilqr import ILQR
from dynagate.host.opening import open
from dynagate.host.processor_report import of_program
from dynagate.host.solver import bounds_of
from dynagate.host.verdict import Rule, equal, passed, verdict
from dynagate.hw.processor.build import ProcessorBuild, build_solver
from dynagate.hw.processor.isa.shape import Core
from dynagate.integrators.step import StepOptions

Array = npt.NDArray[Any]

FORMAT_PROBLEMS = 24
"""That formats come from."""
COST_ERROR, RESULT_ERROR, FEW = 0.01, 1e-3, 0.5
"""Of the cost, and of gains or torques, relative; the share of problems that must be within both."""
MOST, TOLERANCE = 50, 1e-3
"""Iterations of iLQR, and the fall of the cost below which a problem has converged."""
REGULARIZATION = (1e-7, 1.0)
"""Of the smallest, words of 27 bits can tell beside the largest."""
TEMPERATURE, ACCELERATION = 1.0, 1.0
"""Of MPPI; and rad/s² or m/s², of a joint alone, whose torque is the standard deviation of torques."""
FAR, FAST = 0.5, 0.05
"""Starts and goals in this share of the limits, rad within π; speeds up to this share of the limits."""


@dataclass(frozen=True)
class Reaching:
    """A solver that brings a robot to a goal. region: of the robot. compared: the result that is compared with float64
    besides the cost. against: all values of a call in float64 -> what its error is relative to, (batch,)."""

    solver: ChipSolver
    region: Region
    compared: str
    against: Callable[[Mapping[str, Array]], Array]

    @classmethod
    def of(cls, function: str, region: Region, knots: int, step: StepOptions, samples: int) -> Reaching:
        """function: "ilqr", whose gains of the first knot are compared, or "mppi", with so many samples, whose torques
        of it are. Raises ValueError: as `of` of the solver."""
        robot, cost = region.robot, Cost.quadratic(q=1.0, qd=0.1, tau=1e-2, final=10.0)
        if function == ILQR:
            options = IlqrOptions(knots, step, MOST, TOLERANCE, *REGULARIZATION, bounds_of(robot, None))
            solver = ChipIlqr.of(robot, cost, options)
            return cls(solver, region, "gain", lambda exact: np.abs(exact["gains_new"]).max(axis=(1, 2, 3)))
        mass = evaluate(trace(robot, "mass_matrix"), {"q": _drawn(region, FORMAT_PROBLEMS, 0)["q"]})["m"]
        spread = ACCELERATION * np.diagonal(mass, axis1=1, axis2=2).mean(axis=0)
        own = MppiOptions(knots, step, samples, TEMPERATURE, spread)
        sampler = ChipMppi.of(robot, cost, own)
        return cls(sampler, region, "tau", lambda exact: np.abs(exact["tau"]).max(axis=1))

    def problems(self, batch: int, seed: int) -> dict[str, Array]:
        """Starts, goals and guesses of torques, which hold the robot where it is, (batch, ·); and of noise the seed and
        the draws. A third of the problems begins at rest."""
        drawn = _drawn(self.region, batch, seed)
        zero = 0.0 * drawn["qd"]
        holding = evaluate(trace(self.region.robot, "inverse_dynamics"), {"q": drawn["q"], "qd": zero, "qdd": zero})
        known = {**drawn, "guess": holding["tau"], "draw": np.arange(batch), "seed": np.full(batch, seed)}
        return {name: x for name, x in known.items() if name in self.solver.blocks.loop.per_turn}


def _drawn(region: Region, batch: int, seed: int) -> dict[str, Array]:
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
    return {"q": q, "qd": qd, "goal": goal}


@dataclass(frozen=True)
class SolverReport:
    """exact: every integer is equal. warm: whether the integers of calls that go on with the plan before are equal too.
    cost, error: of each problem, relative; error: of gains or torques. cycles: of each problem, measured from its first
    word to its results. turns: iterations of each problem, of a solver that has them. converged: of the problems, on
    the chip and in float64, likewise."""

    built: ProcessorBuild
    exact: bool
    warm: bool
    cost: Array
    error: Array
    overflows: int
    cycles: Array
    turns: Array | None = None
    converged: tuple[int, int] = (0, 0)

    @property
    def near(self) -> int:
        """Problems whose cost and gains, or torques, are near float64's."""
        return int(((self.cost <= COST_ERROR) & (self.error <= RESULT_ERROR)).sum())

    @property
    def rules(self) -> list[Rule]:
        """The integers are equal, and FEW of the problems and more are near float64."""
        count = len(self.cost)
        return [
            equal("the comparison of the core with its integers", self.exact),
            equal("the comparison in calls that go on with the plan before", self.warm),
            Rule(
                f"the number of problems near float64, whose cost is within {COST_ERROR:g} and whose gains or torques "
                f"are within {RESULT_ERROR:g},",
                f"{self.near} of {count}",
                f"{FEW:g} of them",
                self.near >= FEW * count,
                "use a longer --word, fewer --knots, or another cost, by ChipIlqr or ChipMppi",
            ),
        ]

    @property
    def passed(self) -> bool:
        """Whether all rules hold."""
        return passed(self.rules)

    @property
    def verdict(self) -> str:
        """PASS, or FAIL and the rules that do not hold."""
        return verdict(self.rules)

    def text(self) -> str:
        scheduled, options = self.built.schedule, self.built.design.options
        count = len(self.cost)
        lines = [
            f"{self.built.robot.name} {self.built.design.function}, {options['knots']} knots of {options['dt']:g} s, "
            f"{scheduled.core.word}-bit words, {scheduled.core.units} units",
            f"  formats         {self.built.folder / FORMATS}",
            *of_program(self.built),
            f"  kept            {scheduled.instructions.kept} of {1 << scheduled.core.turn_bits} values of turns",
            *self._pace(),
            f"  cost            {np.median(self.cost):.1e} from float64's, {self.cost.max():.1e} at most, relative",
            f"  {'torques' if self.turns is None else 'gains':<16}{np.median(self.error):.1e} of the largest, "
            f"{self.error.max():.1e} at most",
            f"  near            {self.near} of {count} within {COST_ERROR:g} and {RESULT_ERROR:g}",
            f"  integers        {'equal' if self.exact else 'NOT EQUAL'}; of calls that go on with the plan before "
            f"{'equal' if self.warm else 'NOT EQUAL'}",
            self.verdict,
        ]
        return "\n".join(lines)

    def _pace(self) -> list[str]:
        """Cycles, and what became of the problems."""
        count, options = len(self.cost), self.built.design.options
        if self.turns is None:
            each = self.cycles.max() / (options["samples"] * options["knots"])
            return [
                f"  samples         {options['samples']}, {options['abreast']} side by side, temperature "
                f"{options['temperature']:g}, torques spread by " + ", ".join(f"{x:.2g}" for x in options["spread"]),
                f"  call            {np.median(self.cycles):.0f} cycles measured, {self.cycles.max()} at most; "
                f"{each:.0f} a knot of a sample",
                f"  overflows       in {self.overflows} of {count}",
            ]
        return [
            f"  iteration       {self.cycles.sum() / self.turns.sum():.0f} cycles measured over {self.turns.sum()} of "
            f"{count} problems; {self.cycles.max()} the longest problem",
            f"  converged       {self.converged[0]} of {count}; in float64 {self.converged[1]}",
            f"  overflows       in {self.overflows} of {count}; what a line search refuses is among them",
        ]


def solver_report(
    reaching: Reaching,
    *,
    units: int | Core,
    word: int,
    folder: str | PathLike[str],
    formats: str | PathLike[str] | None = None,
    words: str | None = None,
    states: int = 8,
    seed: int = 1,
    abreast: int | None = None,
    progress: Progress | None = None,
) -> SolverReport:
    """Build a solver's program, load it into a simulated core, solve `states` problems, and compare. formats: a file of
    them, instead of problems that find them. words, abreast: as of `build_solver`. The errors are those of that and of
    `open`."""
    progress = progress or (lambda text: None)
    known = reaching.problems(FORMAT_PROBLEMS, seed + 1) if formats is None else {}
    own: dict[str, Any] = {"formats": formats, "region": reaching.region, "abreast": abreast, "words": words}
    built = build_solver(reaching.solver, known, units, word=word, progress=progress, folder=Path(folder), **own)
    progress("solving them in float64")
    (cold, exact), (warm, _) = calls_of(reaching.solver, reaching.problems(states, seed), 2)
    series = {name: np.stack([cold[name][0], warm[name][0]]) for name in cold}
    with open(built, device="fixed") as integers, open(built, progress=progress) as chip:
        progress(f"{len(cold['q'])} problems in integers")
        expected, after = integers(**cold), integers(**series)
        progress(f"{len(cold['q'])} problems on the core")
        calls, cycles = [], []
        for k in range(len(cold["q"])):  # one by one: the first word out comes when a problem is solved
            calls.append(chip(**{name: x[k] for name, x in cold.items()}))
            cycles.append(chip.transfer.latency)
        again = chip(**series)
    return _compared(reaching, built, exact, (calls, expected), (again, after), np.array(cycles))


def _compared(
    reaching: Reaching,
    built: ProcessorBuild,
    exact: Mapping[str, Array],
    cold: tuple[list[Any], Any],
    warm: tuple[Any, Any],
    cycles: Array,
) -> SolverReport:
    """cold, warm: results of the core, problem by problem or of all, and of the integers. cycles: of the problems."""
    names = [port.name for port in built.design.output.ports]
    calls, expected = cold
    got = {name: np.stack([getattr(call, name) for call in calls]) for name in names}
    apart = np.abs(got[reaching.compared] - exact[reaching.compared]).reshape(len(calls), -1).max(axis=1)
    iterates = "turns" in got
    return SolverReport(
        built,
        all(np.array_equal(got[name], getattr(expected, name)) for name in names),
        all(np.array_equal(getattr(warm[0], name), getattr(warm[1], name)) for name in names),
        np.abs(got["cost"] / exact["cost"] - 1.0),
        apart / reaching.against(exact),
        int(sum(call.overflow for call in calls)),
        cycles,
        got["turns"].astype(int) if iterates else None,
        (int((got["converged"] > 0).sum()), int((exact["converged"] > 0).sum())) if iterates else (0, 0),
    )
