"""Measure a solver as a program: solve problems on a simulated core, and compare with the integers and with float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.progress import Progress, quiet
from dynagate.control.chip import calls_of
from dynagate.graph.loop import ITERATIONS
from dynagate.host.opening import open
from dynagate.host.report.rules import Rule, equal_integers
from dynagate.host.report.sections import labeled
from dynagate.host.report.trials import Compared, SolverTrial

if TYPE_CHECKING:
    from dynagate.hw.bodies.scheduled_program import ScheduledProgram
    from dynagate.hw.designs import Design

FEW = 0.5
"""Share of the problems that must be near."""


@dataclass(frozen=True)
class SolverPace:
    """Section of a report: cycles of the problems that a solver solved, and what became of them."""

    options: Mapping[str, Any]
    """Options of the design."""
    refused: str
    """Overflows that are counted, although no result depends on them."""
    cycles: Array
    """Cycles of each problem from its first word to its results, measured."""
    overflows: int
    """Number of problems in which a number overflowed."""
    iterations: Array | None = None
    """Iterations of each problem, or None if the solver does not iterate."""
    converged: tuple[int, int] = (0, 0)
    """Number of problems that converged, on the chip and in float64."""
    rules: Sequence[Rule] = ()
    """Rules of the section: an empty sequence."""

    @property
    def lines(self) -> list[str]:
        count, options = len(self.cycles), self.options
        if self.iterations is None:
            cycles = self.cycles.max() / (options["samples"] * options["knots"])
            spread = ", ".join(f"{x:.2g}" for x in options["spread"])
            rows = {
                "samples": f"{options['samples']}, {options['samples_per_run']} in one run, temperature "
                f"{options['temperature']:g}, torques spread by {spread}",
                "call": f"{np.median(self.cycles):.0f} cycles measured, {self.cycles.max()} at most; "
                f"{cycles:.0f} a knot of a sample",
                "overflows": f"in {self.overflows} of {count}",
            }
            return labeled(rows)
        iterations = self.iterations.sum()
        rows = {
            "iteration": f"{self.cycles.sum() / iterations:.0f} cycles measured over {iterations} of {count} problems; "
            f"{self.cycles.max()} the longest problem",
            "converged": f"{self.converged[0]} of {count}; in float64 {self.converged[1]}",
            "overflows": f"in {self.overflows} of {count}; {self.refused}",
        }
        return labeled(rows)


@dataclass(frozen=True)
class SolverMeasurement:
    """Section of a report: problems that a solver solved, compared with the integers and with float64."""

    compared: Sequence[Compared]
    """Results that are compared."""
    near: str
    """The problems that count as near, as the subject of a rule."""
    remedy: str
    """Advice that makes more problems near."""
    exact: bool
    """Whether every integer is equal."""
    warm: bool
    """Whether the integers of calls that go on with the call before are equal too."""

    @property
    def count(self) -> int:
        """Number of problems."""
        return len(self.compared[0].error)

    @property
    def near_count(self) -> int:
        """Number of problems in which each compared result is near."""
        return int(np.logical_and.reduce([each.error <= each.most for each in self.compared]).sum())

    @property
    def rules(self) -> list[Rule]:
        """Return the rules: the integers are equal, and all but a share FEW of the problems are close to float64."""
        return [
            equal_integers("the comparison of the core with its integers", self.exact),
            equal_integers("the comparison in calls that go on with the call before", self.warm),
            Rule(
                f"the number of problems {self.near}",
                f"{self.near_count} of {self.count}",
                f"at least {FEW:g} of them",
                self.near_count >= FEW * self.count,
                self.remedy,
            ),
        ]

    @property
    def lines(self) -> list[str]:
        exact, warm = ("equal" if same else "NOT EQUAL" for same in (self.exact, self.warm))
        limits = " and ".join(f"{each.most:.2g}" for each in self.compared)
        rows = {
            **{each.name: each.line for each in self.compared},
            "near": f"{self.near_count} of {self.count} within {limits}",
            "integers": f"{exact}; of calls that go on with the call before {warm}",
        }
        return labeled(rows)


def measure_solver(
    built: Design[ScheduledProgram], trial: SolverTrial, states: int, seed: int, progress: Progress = quiet
) -> tuple[SolverPace, SolverMeasurement]:
    """Solve problems on a simulated core, and compare the results.

    Args:
        built: The program of the solver.
        trial: The solver and its problems.
        states: Number of problems.
        seed: Seed of the problems.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The sections on cycles and on errors.
    """
    progress("solving them in float64")
    (cold, exact), (warm, _) = calls_of(trial.solver, trial.problems(states, seed), 2)
    series = {name: np.stack([cold[name][0], warm[name][0]]) for name in cold}
    with open(built, device="fixed") as integers, open(built, progress=progress) as chip:
        count = len(next(iter(cold.values())))
        progress(f"{count} problems in integers")
        expected, after = integers(**cold), integers(**series)
        progress(f"{count} problems on the core")
        calls, cycles = [], []
        for k in range(count):  # one by one: the first word out comes when a problem is solved
            calls.append(chip(**{name: x[k] for name, x in cold.items()}))
            cycles.append(chip.transfer.latency)
        again = chip(**series)
    names = [port.name for port in built.design.output.ports]
    got = {name: np.stack([getattr(call, name) for call in calls]) for name in names}
    overflows = int(sum(call.overflow for call in calls))
    measurement = SolverMeasurement(
        trial.compared(cold, got, exact),
        trial.near,
        trial.remedy,
        all(np.array_equal(got[name], getattr(expected, name)) for name in names),
        all(np.array_equal(getattr(again, name), getattr(after, name)) for name in names),
    )
    return _pace(built, trial, got, exact, np.array(cycles), overflows), measurement


def _pace(
    built: Design[ScheduledProgram],
    trial: SolverTrial,
    got: Mapping[str, Array],
    exact: Mapping[str, Array],
    cycles: Array,
    overflows: int,
) -> SolverPace:
    if ITERATIONS not in got:
        return SolverPace(built.design.options, trial.refused, cycles, overflows)
    converged = int((got["converged"] > 0).sum()), int((exact["converged"] > 0).sum())
    return SolverPace(built.design.options, trial.refused, cycles, overflows, got[ITERATIONS].astype(int), converged)
