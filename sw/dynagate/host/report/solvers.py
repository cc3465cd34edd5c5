"""Measure a solver as a program: solve problems on a simulated core, and compare with the integers and with float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.progress import Progress, quiet
from dynagate.control.chip import ChipSolver, calls_of
from dynagate.control.chip_ilqr import ChipIlqr
from dynagate.control.chip_mppi import ChipMppi, MppiOptions
from dynagate.control.cost import Cost
from dynagate.control.ilqr import IlqrOptions
from dynagate.forces.options import StepOptions
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Region
from dynagate.host.ilqr import ILQR
from dynagate.host.opening import open
from dynagate.host.report.rules import Rule, equal_integers
from dynagate.host.report.sections import labeled
from dynagate.host.solver import bounds_of

if TYPE_CHECKING:
    from dynagate.hw.bodies.scheduled_program import ScheduledProgram
    from dynagate.hw.designs import Design

FORMAT_PROBLEMS = 24
"""Number of problems that choose the formats."""
COST_ERROR, RESULT_ERROR, FEW = 0.01, 1e-3, 0.5
"""Relative errors that the cost, and gains or torques, may have; the share of problems that must keep both."""
MOST, TOLERANCE = 50, 1e-3
"""Iterations of iLQR, and the fall of the cost below which a problem has converged."""
REGULARIZATION = (1e-7, 1.0)
"""Smallest and largest regularization of iLQR: words of 27 bits resolve this smallest one next to the largest."""
TEMPERATURE, ACCELERATION = 1.0, 1.0
"""Temperature of MPPI; and acceleration of a single joint, rad/s² or m/s², whose torque is the deviation of torques."""
FAR, FAST = 0.5, 0.05
"""Starts and goals in this share of the limits, rad within π; speeds up to this share of the limits."""
ITERATIONS = "iterations"
"""Result of a solver that iterates: the iterations of a problem."""


@dataclass(frozen=True)
class Reaching:
    """A solver that brings a robot to a goal."""

    solver: ChipSolver
    """The solver as a program."""
    region: Region
    """Operating region of the robot."""
    compared: str
    """Result that is compared with float64 besides the cost."""
    against: Callable[[Mapping[str, Array]], Array]
    """Function that returns what the error of this result is relative to, (batch,), from all values of a call in
    float64.
    """

    @classmethod
    def of(cls, function: str, region: Region, knots: int, step: StepOptions, samples: int) -> Reaching:
        """Return a solver that brings a robot to goals.

        Args:
            function: "ilqr", whose gains of the first knot are compared, or "mppi", whose torques of the first knot
                are.
            region: Operating region of the robot.
            knots: Number of torques of the horizon.
            step: Options of a step.
            samples: Number of samples of "mppi".

        Returns:
            The solver.

        Raises:
            ArgumentError: The solver refuses an option.
        """
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

    def error(self, got: Mapping[str, Array], exact: Mapping[str, Array]) -> Array:
        """Return the relative error of the compared result.

        Args:
            got: Results of the chip by name.
            exact: Results in float64 by name.

        Returns:
            The error of each problem, (batch,).
        """
        difference = np.abs(got[self.compared] - exact[self.compared])
        return np.asarray(difference.reshape(len(difference), -1).max(axis=1) / self.against(exact))

    def problems(self, batch: int, seed: int) -> dict[str, Array]:
        """Return problems, of which a third begins at rest.

        Args:
            batch: Number of problems.
            seed: Seed of the problems.

        Returns:
            Start states, goals and guesses of torques, which hold the robot in its start, (batch, ·); for "mppi" also
            the seed and the number of the draw.
        """
        drawn = _drawn(self.region, batch, seed)
        zero = 0.0 * drawn["qd"]
        holding = evaluate(trace(self.region.robot, "inverse_dynamics"), {"q": drawn["q"], "qd": zero, "qdd": zero})
        known = {**drawn, "guess": holding["tau"], "draw": np.arange(batch), "seed": np.full(batch, seed)}
        return {name: x for name, x in known.items() if name in self.solver.blocks.loop.per_iteration}


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
class SolverPace:
    """Section of a report: cycles of the problems that a solver solved, and what became of them."""

    options: Mapping[str, Any]
    """Options of the design."""
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
            "overflows": f"in {self.overflows} of {count}; what a line search refuses is among them",
        }
        return labeled(rows)


@dataclass(frozen=True)
class SolverMeasurement:
    """Section of a report: problems that a solver solved, compared with the integers and with float64."""

    result: str
    """Result that is compared besides the cost, in the plural: "gains" or "torques"."""
    exact: bool
    """Whether every integer is equal."""
    warm: bool
    """Whether the integers of calls that go on with the plan before are equal too."""
    cost: Array
    """Relative error of each problem's cost."""
    error: Array
    """Relative error of the compared result of each problem."""

    @property
    def near(self) -> int:
        """Return how many problems have a cost, and gains or torques, near float64's."""
        return int(((self.cost <= COST_ERROR) & (self.error <= RESULT_ERROR)).sum())

    @property
    def rules(self) -> list[Rule]:
        """Return the rules: the integers are equal, and all but a share FEW of the problems are close to float64."""
        count = len(self.cost)
        return [
            equal_integers("the comparison of the core with its integers", self.exact),
            equal_integers("the comparison in calls that go on with the plan before", self.warm),
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
    def lines(self) -> list[str]:
        exact, warm = ("equal" if same else "NOT EQUAL" for same in (self.exact, self.warm))
        rows = {
            "cost": f"{np.median(self.cost):.1e} from float64's, {self.cost.max():.1e} at most, relative",
            self.result: f"{np.median(self.error):.1e} of the largest, {self.error.max():.1e} at most",
            "near": f"{self.near} of {len(self.cost)} within {COST_ERROR:g} and {RESULT_ERROR:g}",
            "integers": f"{exact}; of calls that go on with the plan before {warm}",
        }
        return labeled(rows)


def measure_solver(
    built: Design[ScheduledProgram], reaching: Reaching, states: int, seed: int, progress: Progress = quiet
) -> tuple[SolverPace, SolverMeasurement]:
    """Solve problems on a simulated core, and compare the results.

    Args:
        built: The program of the solver.
        reaching: The solver.
        states: Number of problems.
        seed: Seed of the problems.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The sections on cycles and on errors.
    """
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
    names = [port.name for port in built.design.output.ports]
    got = {name: np.stack([getattr(call, name) for call in calls]) for name in names}
    overflows = int(sum(call.overflow for call in calls))
    measurement = SolverMeasurement(
        "gains" if ITERATIONS in got else "torques",
        all(np.array_equal(got[name], getattr(expected, name)) for name in names),
        all(np.array_equal(getattr(again, name), getattr(after, name)) for name in names),
        np.abs(got["cost"] / exact["cost"] - 1.0),
        reaching.error(got, exact),
    )
    return _pace(built, got, exact, np.array(cycles), overflows), measurement


def _pace(
    built: Design[ScheduledProgram], got: Mapping[str, Array], exact: Mapping[str, Array], cycles: Array, overflows: int
) -> SolverPace:
    if ITERATIONS not in got:
        return SolverPace(built.design.options, cycles, overflows)
    converged = int((got["converged"] > 0).sum()), int((exact["converged"] > 0).sum())
    return SolverPace(built.design.options, cycles, overflows, got[ITERATIONS].astype(int), converged)
