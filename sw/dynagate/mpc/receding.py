"""A solver as the controller: from a start to a goal with disturbed torques, a plan each step, beside Crocoddyl's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.control.chip import ChipIlqr
from dynagate.control.cost import NV, Cost, Input
from dynagate.host.ilqr import Ilqr
from dynagate.host.opening import open
from dynagate.hw.processor.build import build_solver
from dynagate.mpc.experiment import exact
from dynagate.mpc.problem import RUNAWAY, Reach, Robotics, track
from dynagate.robot import Robot

Array = npt.NDArray[Any]
Controller = Callable[[Array, bool], Array]
"""A state (2 nv,), and whether it is the first -> torques (nv,)."""
KNOTS, DT, ITERATIONS = 15, 0.02, 2
"""Of a plan."""
WEIGHTS = {"distance": 10.0, "velocity": 0.1, "torque": 1e-2, "end": 1.0}
REGULARISATION = (1e-7, 1.0)
SOLVER_WORD = 27
"""Bits, unless a command line says others."""
AROUND = 48
"""Problems near the states of the float64 loop that formats come from."""


@dataclass(frozen=True)
class Row:
    """name: of the controller. end, rms: of the distance from the goal, rad: the largest of a joint at the end, and
    over the last half of the time. same: whether the chip's torques are the integers'. cycles: of a plan, the median
    and the most, on the chip."""

    name: str
    end: float
    rms: float
    same: bool | None = None
    cycles: tuple[float, float] | None = None

    def line(self) -> str:
        same = "" if self.same is None else "torques of the integers" if self.same else "OTHER TORQUES"
        cycles = "" if self.cycles is None else f"{self.cycles[0]:,.0f} cycles a plan, {self.cycles[1]:,.0f} at most"
        return (
            f"{self.name:<24}{self.end:>11.4f}{self.rms:>11.4f}  {', '.join(x for x in (same, cycles) if x)}".rstrip()
        )


class Loop:
    """The closed loop of a robot and a reach."""

    def __init__(self, robot: Robot, reach: Reach, seconds: float, seed: int = 1) -> None:
        self.robot, self.model, self.reach, self.seed = robot, Robotics(robot), reach, seed
        self.steps = round(seconds / DT)
        n = robot.nv
        self.goal, self.start = np.array(reach.goal), np.concatenate([reach.start, np.zeros(n)])
        self.hold = self.model.torque(self.goal, np.zeros(n), np.zeros(n))
        quadratic = Cost.quadratic(
            q=WEIGHTS["distance"], qd=WEIGHTS["velocity"], tau=WEIGHTS["torque"], final=WEIGHTS["end"]
        )
        self.cost = replace(quadratic, inputs={**quadratic.inputs, "hold": Input((NV,))})
        self.solver = Ilqr(
            robot, knots=KNOTS, dt=DT, cost=self.cost, iterations=ITERATIONS, regularisation=REGULARISATION
        )

    def crocoddyl(self) -> Row:
        """By Crocoddyl's solver with our derivatives, on the same problem."""
        zero = np.zeros(self.robot.nv)

        def path(t: float) -> tuple[Array, Array, Array]:
            return self.goal, zero, zero

        errors = track(
            self.robot,
            path,
            exact(self.robot),
            seconds=self.steps * DT,
            horizon=KNOTS,
            dt=DT,
            noise=self.reach.noise,
            iterations=ITERATIONS,
            seed=self.seed,
            start=self.start,
            weights=WEIGHTS,
        )
        return _row("Crocoddyl", errors)

    def run(self, name: str, controller: Controller) -> tuple[Row, Array]:
        """Errors and states (steps, 2 nv) of a controller."""
        random = np.random.default_rng(self.seed)
        n, x = self.robot.nv, self.start
        errors, states = np.full((self.steps, n), np.inf), np.zeros((self.steps, 2 * n))
        for step in range(self.steps):
            states[step] = x
            u = controller(x, step == 0)
            x = self.model.step(x, u + np.asarray(self.reach.noise) * random.normal(size=n), DT)
            if not np.all(np.abs(x) < RUNAWAY):
                break
            errors[step] = x[:n] - self.goal
        return _row(name, errors), states

    def in_float64(self) -> tuple[Row, Array]:
        """By our solver in C."""
        plans: list[Any] = [None]
        n = self.robot.nv

        def controller(x: Array, first: bool) -> Array:
            guess = {"tau": np.tile(self.hold, (KNOTS, 1))} if first else {"warm": plans[0].shifted()}
            plans[0] = self.solver(x[:n], x[n:], goal=self.goal, hold=self.hold, **guess)
            return np.asarray(plans[0].tau[0])

        return self.run("iLQR, float64", controller)

    def inputs(self, x: Array, first: bool) -> dict[str, Array]:
        """Of a call of the chip."""
        n = self.robot.nv
        own = {"guess": self.hold, "warm": np.array(0.0 if first else 1.0)}
        return {"q": x[:n], "qd": x[n:], "goal": self.goal, "hold": self.hold, **own}

    def problems(self, states: Array) -> dict[str, Array]:
        """Near the states of a loop."""
        random, n = np.random.default_rng(self.seed + 1), self.robot.nv
        chosen = states[random.integers(0, len(states), AROUND)]
        spread = 0.1 * np.abs(states).max(axis=0) + 1e-3
        x = chosen + spread * random.uniform(-1.0, 1.0, chosen.shape)
        goal, hold = (np.tile(value, (AROUND, 1)) for value in (self.goal, self.hold))
        return {"q": x[:, :n], "qd": x[:, n:], "goal": goal, "hold": hold, "guess": hold}

    def on_chip(self, states: Array, units: int, word: int, rtl: bool, step: Callable[[str], Any] | None) -> list[Row]:
        """By the integers of a program, and by the core in simulation."""
        solver = ChipIlqr.of(self.robot, self.cost, self.solver.options)
        rows = []
        with TemporaryDirectory() as folder, ExitStack() as stack:
            built = build_solver(solver, self.problems(states), units, word=word, folder=Path(folder), step=step)
            integers = stack.enter_context(open(built, device="fixed"))
            torques: list[Array] = []

            def by_integers(x: Array, first: bool) -> Array:
                torques.append(integers(**self.inputs(x, first)).tau)
                return torques[-1]

            rows.append(self.run(f"iLQR, {word} bits", by_integers)[0])
            if rtl:
                chip = stack.enter_context(open(built, step=step))
                taken: list[tuple[Array, int]] = []

                def by_chip(x: Array, first: bool) -> Array:
                    tau = chip(**self.inputs(x, first)).tau
                    taken.append((tau, chip.transfer.latency))
                    return np.asarray(tau)

                row, _ = self.run(f"iLQR, core of {units} units", by_chip)
                cycles = np.array([each for _, each in taken])
                same = len(taken) == len(torques) and all(map(np.array_equal, torques, (tau for tau, _ in taken)))
                rows.append(replace(row, same=same, cycles=(float(np.median(cycles)), float(cycles.max()))))
        return rows


def _row(name: str, errors: Array) -> Row:
    if not np.isfinite(errors).all():
        return Row(name, np.inf, np.inf)
    late = errors[len(errors) // 2 :]
    return Row(name, float(np.abs(errors[-1]).max()), float(np.sqrt(np.mean(late**2))))


def compared(
    robot: Robot,
    reach: Reach,
    *,
    seconds: float,
    units: int | None,
    words: Sequence[int],
    rtl: bool,
    step: Callable[[str], Any] | None = None,
) -> str:
    """A table of controllers: Crocoddyl's and ours in float64, and with `units` ours in words of so many bits, as
    integers and, with rtl, on the simulated core."""
    say = step or (lambda text: None)
    loop = Loop(robot, reach, seconds)
    say("Crocoddyl")
    rows = [loop.crocoddyl()]
    say("iLQR in float64")
    row, states = loop.in_float64()
    rows.append(row)
    for word in words if units is not None else ():
        assert units is not None
        rows += loop.on_chip(states, units, word, rtl, step)
    head = (
        f"{robot.name}, {loop.steps} plans of {KNOTS} knots and {ITERATIONS} iterations, {DT:g} s apart, torques "
        "disturbed"
    )
    return "\n".join([head, f"{'controller':<24}{'end, rad':>11}{'rms, rad':>11}", *(each.line() for each in rows)])
