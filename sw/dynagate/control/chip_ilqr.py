"""iLQR for a program of the small processor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.control.chip import CALL, ChipSolver, ahead, apart, begins, chip_inputs, of_calls
from dynagate.control.cost import Cost
from dynagate.control.forward import recorded
from dynagate.control.ilqr import RETRIES, IlqrOptions, begin, ilqr_loop
from dynagate.control.numbers import FIRST, INTEGERS
from dynagate.control.riccati_blocks import LARGEST_UNROLLED
from dynagate.control.training_problems import check_solved
from dynagate.graph.blocks import Blocks
from dynagate.native.sums import chained
from dynagate.robot import Robot

MANY = 1500
"""Number of nodes of a graph above which its sums become chains."""
RESULTS = {
    "u_first": "tau",
    "gain_first": "gain",
    "cost_new": "cost",
    "taken_new": "iterations",
    "at_end": "converged",
    "good": "solved",
    "reg_used": "regularization",
}
"""Values of a call that leave the chip -> names of the results."""
OTHER = {"cost": "cost_before", "converged": "at_end"}
"""Solver's names that are also names of results -> names on the chip."""


@dataclass(frozen=True)
class ChipIlqr(ChipSolver):
    """iLQR on a chip. Its results are those of RESULTS, such as tau (nv,) and gain (nv, 2 nv) of the first knot."""

    retries = RETRIES
    carried: ClassVar[Mapping[str, str]] = {
        **{"us_new": "us_before", "qs_new": "qs", "qds_new": "qds"},
        **{"gains_new": "gains", "feeds_new": "feeds"},
    }

    options: IlqrOptions

    @classmethod
    def of(cls, robot: Robot, cost: Cost, options: IlqrOptions) -> ChipIlqr:
        """Return the solver for a robot, a cost and options.

        Raises:
            ArgumentError: An input differs between knots, the robot has too many joints, or joints have bounds.
        """
        options.states.check_integers()
        options = replace(options, numbers=INTEGERS)
        cost_inputs = chip_inputs(robot, cost, options.step, (*CALL, *RESULTS.values()))
        if 2 * robot.nv > LARGEST_UNROLLED:
            raise ArgumentError(
                f"{robot.name} has {robot.nv} joints; expected at most {LARGEST_UNROLLED // 2} for a solver on a chip",
                code="DG-SOLVER-005",
            )
        # where a knot has more products than units take while one waits for another, fewer instructions are faster
        inner = ilqr_loop(robot, cost, options).renamed(OTHER).mapped(lambda g: chained(g) if len(g) > MANY else g)
        names = {port.name for port in inner.inputs}
        cost_inputs = {name: each for name, each in cost_inputs.items() if each.at(name, False) in names}
        n = robot.nv
        shapes = {**dict.fromkeys(RESULTS, ()), **dict(zip(FIRST, ((n,), (n, 2 * n)), strict=True))}

        def results(x: Mapping[str, Array]) -> Mapping[str, Any]:
            return {own: -x[name] if name == FIRST[1] else x[name] for name, own in RESULTS.items()}

        named = recorded("results", robot.name, shapes, results)
        steps = (begins(robot, cost_inputs, ("q_last", "qd_last")), ahead(robot, options.knots, ("us",)), inner, named)
        loop, moved = apart(of_calls("ilqr", robot, steps, cls.carried, cost_inputs), cost_inputs)
        first = {OTHER.get(name, name): value for name, value in {**begin(options), "taken": 0.0}.items()}
        first = {moved.get(name, name): value for name, value in first.items()}
        inputs = {port.name for port in loop.inputs}
        return cls(robot, options, Blocks(loop, {k: float(v) for k, v in first.items() if k in inputs}), moved)

    @property
    def described(self) -> dict[str, Any]:
        """Options of the solver for a record."""
        o = self.options
        numbers = {"knots": o.knots, "dt": o.step.dt, "iterations": o.iterations, "tolerance": o.tolerance}
        return {
            **numbers,
            "integrator": o.step.method,
            "implicit_damping": o.step.implicit_damping,
            "regularization": [o.smallest, o.largest],
        }

    def reach(self, word: int) -> dict[str, float]:
        """Return values that may exceed those in sampled problems, and their largest magnitude."""
        iterations = float(self.options.iterations + 1)
        most = {"reg": self.options.largest, "reg_now": self.options.largest, "length": 1.0, "taken": iterations}
        return {self.named(name): value for name, value in most.items()}

    def solved(self, values: Mapping[str, Array]) -> Array:
        """Return which problems have a solution, (batch,)."""
        return np.asarray(values["solved"] > 0.0)

    def check_solved(self, solved: Array, problems: Mapping[str, Array]) -> None:
        """Check that enough problems have a solution in float64."""
        check_solved(solved, problems["q"], self.robot, self.options.step)

    def after(self, inputs: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs of the next call: the state at the next knot."""
        return {"q": values[self.named("qs_new")][:, 1], "qd": values[self.named("qds_new")][:, 1]}
