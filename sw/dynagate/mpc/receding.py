"""Closed-loop comparison of our solvers with Crocoddyl: a robot moves to a goal with disturbed torques, with a plan per
step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.progress import Progress, quiet
from dynagate.base.text_table import Column, table_lines
from dynagate.control.chip import ChipSolver
from dynagate.control.chip_ilqr import ChipIlqr
from dynagate.control.chip_mppi import ChipMppi, MppiOptions
from dynagate.control.cost import NV, Cost, Input
from dynagate.dynamics.steps.damping import robot_in_step
from dynagate.forces.options import StepOptions
from dynagate.graph import trace
from dynagate.graph.evaluate import evaluate
from dynagate.host.ilqr import Ilqr
from dynagate.host.mppi import Mppi
from dynagate.host.opening import open
from dynagate.hw.bodies.program import build_solver
from dynagate.mpc.experiment import exact
from dynagate.mpc.problem import RUNAWAY, Reach, Robotics, track
from dynagate.robot import Robot

Controller = Callable[[Array, int], Array]
"""A function from a state (2 nv,) and the number of earlier plans to torques (nv,)."""
KNOTS, DT, ITERATIONS = 15, 0.02, 2
"""Knots, time step in s and iterations of a plan."""
NODES, TEMPERATURE, ACCELERATION = 2, 0.1, 20.0
"""Nodes, temperature and noise of a plan by MPPI. The torque noise of a joint accelerates it by this many rad/s² or
m/s² if no other joint moves.
"""
WEIGHTS = {"distance": 10.0, "velocity": 0.1, "torque": 1e-2, "end": 1.0}
REGULARIZATION = (1e-7, 1.0)
SOLVER_WORD = 27
"""Default word length in bits."""
AROUND = 48
"""Number of problems, near states of the float64 loop, for which formats are chosen."""


@dataclass(frozen=True)
class Row:
    """Result of one controller."""

    name: str
    """Name of the controller."""
    end: float
    """Largest distance of a joint from the goal at the end, rad."""
    rms: float
    """RMS distance from the goal over the last half of the time, rad."""
    same: bool | None = None
    """Whether the chip's torques equal those of the integer model; None if there is no chip."""
    cycles: tuple[float, float] | None = None
    """Median and largest number of cycles of a plan on the chip."""

    @property
    def notes(self) -> str:
        """Return a description of the chip's torques and cycles."""
        same = "" if self.same is None else "torques of the integers" if self.same else "OTHER TORQUES"
        cycles = "" if self.cycles is None else f"{self.cycles[0]:,.0f} cycles a plan, {self.cycles[1]:,.0f} at most"
        return ", ".join(x for x in (same, cycles) if x)


COLUMNS: list[Column[Row]] = [
    Column("controller", 24, lambda row: row.name, left=True),
    Column("end, rad", 11, lambda row: row.end, ".4f"),
    Column("rms, rad", 11, lambda row: row.rms, ".4f"),
    Column("", 0, lambda row: row.notes, left=True, gap=2),
]
"""Columns of the printed table."""


class ClosedLoop:
    """A robot that a controller moves from the start of a reaching problem to its goal.

    The robot moves in the same steps as the plans. With implicit_damping, a step is stable for light
    links with much damping, for which an explicit step of the same length is not.
    """

    def __init__(
        self, robot: Robot, reach: Reach, seconds: float, seed: int = 1, *, implicit_damping: bool = False
    ) -> None:
        self.implicit_damping = implicit_damping
        self.robot, self.stepped, self.reach, self.seed = robot, robot_in_step(robot, implicit_damping, DT), reach, seed
        self.model = Robotics(self.stepped)
        self.steps = round(seconds / DT)
        n = robot.nv
        self.goal, self.start = np.array(reach.goal), np.concatenate([reach.start, np.zeros(n)])
        self.hold = self.model.torque(self.goal, np.zeros(n), np.zeros(n))
        quadratic = Cost.quadratic(
            q=WEIGHTS["distance"], qd=WEIGHTS["velocity"], tau=WEIGHTS["torque"], final=WEIGHTS["end"]
        )
        self.cost = replace(quadratic, inputs={**quadratic.inputs, "hold": Input((NV,))})

    def crocoddyl(self) -> Row:
        """Run Crocoddyl's solver with our derivatives on the same problem."""
        zero = np.zeros(self.robot.nv)

        def path(t: float) -> tuple[Array, Array, Array]:
            return self.goal, zero, zero

        errors = track(
            self.stepped,
            path,
            exact(self.stepped),
            plans={"knots": KNOTS, "dt": DT, "noise": self.reach.noise, **WEIGHTS},
            seconds=self.steps * DT,
            iterations=ITERATIONS,
            seed=self.seed,
            start=self.start,
        )
        return _row("Crocoddyl", errors)

    def run(self, name: str, controller: Controller) -> tuple[Row, Array]:
        """Return the errors and the states (steps, 2 nv) of a controller."""
        random = np.random.default_rng(self.seed)
        n, x = self.robot.nv, self.start
        errors, states = np.full((self.steps, n), np.inf), np.zeros((self.steps, 2 * n))
        for step in range(self.steps):
            states[step] = x
            u = controller(x, step)
            x = self.model.step(x, u + np.asarray(self.reach.noise) * random.normal(size=n), DT)
            if not np.all(np.abs(x) < RUNAWAY):
                break
            errors[step] = x[:n] - self.goal
        return _row(name, errors), states

    def problems(self, states: Array) -> dict[str, Array]:
        """Return problems near the states of a run, for the choice of formats."""
        random, n = np.random.default_rng(self.seed + 1), self.robot.nv
        chosen = states[random.integers(0, len(states), AROUND)]
        spread = 0.1 * np.abs(states).max(axis=0) + 1e-3
        x = chosen + spread * random.uniform(-1.0, 1.0, chosen.shape)
        goal, hold = (np.tile(value, (AROUND, 1)) for value in (self.goal, self.hold))
        return {"q": x[:, :n], "qd": x[:, n:], "goal": goal, "hold": hold, "guess": hold}

    def on_chip(
        self,
        planner: Planner,
        states: Array,
        units: int,
        word: int,
        rtl: bool,
        progress: Progress,
    ) -> list[Row]:
        """Run the integer model of a program, and the simulated core."""
        rows, n = [], self.robot.nv

        def inputs(x: Array, plan: int) -> dict[str, Array]:
            own = {"guess": self.hold, "warm": np.array(0.0 if plan == 0 else 1.0), **planner.more(plan)}
            return {"q": x[:n], "qd": x[n:], "goal": self.goal, "hold": self.hold, **own}

        problems = self.problems(states)
        problems |= {name: np.full(AROUND, value) for name, value in planner.more(0).items()}
        with TemporaryDirectory() as folder, ExitStack() as stack:
            built = build_solver(planner.on_chip(), problems, units, word=word, folder=Path(folder), progress=progress)
            integers = stack.enter_context(open(built, device="fixed"))
            torques: list[Array] = []

            def by_integers(x: Array, plan: int) -> Array:
                torques.append(integers(**inputs(x, plan)).tau)
                return torques[-1]

            rows.append(self.run(f"{planner.label}, {word} bits", by_integers)[0])
            if rtl:
                chip = stack.enter_context(open(built, progress=progress))
                taken: list[tuple[Array, int]] = []

                def by_chip(x: Array, plan: int) -> Array:
                    tau = chip(**inputs(x, plan)).tau
                    taken.append((tau, chip.transfer.latency))
                    return np.asarray(tau)

                row, _ = self.run(f"{planner.label}, core of {units} units", by_chip)
                cycles = np.array([each for _, each in taken])
                same = len(taken) == len(torques) and all(map(np.array_equal, torques, (tau for tau, _ in taken)))
                rows.append(replace(row, same=same, cycles=(float(np.median(cycles)), float(cycles.max()))))
        return rows


class Planner(ABC):
    """A solver of ours in the loop."""

    label: str
    """Name of the solver."""
    text: str
    """Description of a plan's settings besides knots."""

    def __init__(self, loop: ClosedLoop, samples: int) -> None:
        self.loop = loop

    @abstractmethod
    def planned(self, x: Array, plan: int) -> Array:
        """Return the torques (nv,) of a plan in float64, in C, as a `Controller`."""

    @abstractmethod
    def on_chip(self) -> ChipSolver:
        """Return the same solver for a chip."""

    def more(self, plan: int) -> Mapping[str, Array]:
        """Return the inputs of a call of the chip in addition to those of the problem."""
        return {}


class IlqrPlanner(Planner):
    """iLQR, where each plan begins with the previous one, shifted by one knot."""

    label, text = "iLQR", f"{ITERATIONS} iterations"

    def __init__(self, loop: ClosedLoop, samples: int) -> None:
        super().__init__(loop, samples)
        own: dict[str, Any] = {
            "iterations": ITERATIONS,
            "regularization": REGULARIZATION,
            "implicit_damping": loop.implicit_damping,
        }
        self.solver = Ilqr(loop.robot, knots=KNOTS, dt=DT, cost=loop.cost, **own)
        self.last: Any = None

    def planned(self, x: Array, plan: int) -> Array:
        loop, n = self.loop, self.loop.robot.nv
        guess = {"warm": self.last.shifted()} if plan else {"tau": np.tile(loop.hold, (KNOTS, 1))}
        self.last = self.solver(x[:n], x[n:], goal=loop.goal, hold=loop.hold, **guess)
        return np.asarray(self.last.tau[0])

    def on_chip(self) -> ChipSolver:
        return ChipIlqr.of(self.loop.robot, self.loop.cost, self.solver.options)


class MppiPlanner(Planner):
    """MPPI, where plan k uses draw k of the noise."""

    label = "MPPI"

    def __init__(self, loop: ClosedLoop, samples: int) -> None:
        super().__init__(loop, samples)
        robot, self.text = loop.robot, f"{samples} samples of {NODES} nodes"
        mass = evaluate(trace(robot, "mass_matrix"), {"q": loop.goal[None]})["m"][0]
        spread = ACCELERATION * np.diagonal(mass)
        self.options = MppiOptions(
            KNOTS, StepOptions(DT, implicit_damping=loop.implicit_damping), samples, TEMPERATURE, spread, NODES
        )
        own: dict[str, Any] = {"samples": samples, "nodes": NODES, "temperature": TEMPERATURE, "spread": spread}
        own |= {"seed": loop.seed, "implicit_damping": loop.implicit_damping}
        self.solver = Mppi(robot, knots=KNOTS, dt=DT, cost=loop.cost, dtype="float64", **own)
        self.last: Array = np.tile(loop.hold, (KNOTS, 1))

    def planned(self, x: Array, plan: int) -> Array:
        loop, n = self.loop, self.loop.robot.nv
        guess = np.concatenate([self.last[1:], loop.hold[None]]) if plan else self.last
        self.last = self.solver(x[:n], x[n:], guess, draw=plan, goal=loop.goal, hold=loop.hold).tau
        return np.asarray(self.last[0])

    def on_chip(self) -> ChipSolver:
        return ChipMppi.of(self.loop.robot, self.loop.cost, self.options)

    def more(self, plan: int) -> Mapping[str, Array]:
        return {"draw": np.array(float(plan)), "seed": np.array(float(self.loop.seed))}


PLANNERS: Mapping[str, Callable[[ClosedLoop, int], Planner]] = {"ilqr": IlqrPlanner, "mppi": MppiPlanner}
"""Planners by the name that the command line uses."""


def _row(name: str, errors: Array) -> Row:
    """Return the row of a controller from its errors (steps, nv), infinite if one is not finite."""
    if not np.isfinite(errors).all():
        return Row(name, np.inf, np.inf)
    late = errors[len(errors) // 2 :]
    return Row(name, float(np.abs(errors[-1]).max()), float(np.sqrt(np.mean(late**2))))


def compared(
    controller: str,
    loop: ClosedLoop,
    *,
    units: int | None,
    words: Sequence[int],
    rtl: bool,
    samples: int,
    progress: Progress = quiet,
) -> str:
    """Return a table that compares Crocoddyl and one of our planners.

    Args:
        controller: A key of PLANNERS.
        loop: The robot and its reaching problem.
        units: Number of units of the processor core; None leaves the chip out.
        words: Word lengths in bits.
        rtl: Whether to simulate the core too.
        samples: Samples of a plan by MPPI.
        progress: Function that receives a line of text before each slow stage.
    """
    progress("Crocoddyl")
    rows = [loop.crocoddyl()]
    planner = PLANNERS[controller](loop, samples)
    progress(f"{planner.label} in float64")
    row, states = loop.run(f"{planner.label}, float64", planner.planned)
    rows.append(row)
    for word in words if units is not None else ():
        assert units is not None
        rows += loop.on_chip(planner, states, units, word, rtl, progress)
    head = (
        f"{loop.robot.name}, {loop.steps} plans of {KNOTS} knots and {planner.text}, {DT:g} s apart, torques disturbed"
    )
    return "\n".join([head, *table_lines(COLUMNS, rows)])
