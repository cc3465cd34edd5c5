"""Inverse kinematics for a program of the small processor: each call searches from one start."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.control.chip import ChipSolver
from dynagate.control.forward import recorded
from dynagate.control.ik import PATIENCE, IkOptions, begin, ik_loop, row_count
from dynagate.control.training_problems import check_reached
from dynagate.dynamics.spatial import absolute, largest, select
from dynagate.graph.blocks import in_blocks
from dynagate.graph.loop import ITERATIONS, Count, Loop
from dynagate.robot import Robot
from dynagate.robot.variable import check_constant

START, SOLUTION, ERROR, CONVERGED = "q", "solution", "error", "converged"
"""The input of a call with the start, and results of a call."""
OTHER = {"q": "best", "q_new": "best_new"}
"""Names of the search in float64 -> names on the chip, where a call's `q` is its start."""


@dataclass(frozen=True)
class ChipIk(ChipSolver):
    """Inverse kinematics on a chip.

    A call takes the start `q` (nq,) and the parts of each target, such as `tool_position` (3,) in m and
    `tool_rotation` (3, 3) of a pose. Its results are `solution` (nq,), the best configuration within the limits of the
    joints; `error` (), the largest error of a target, in m or as twice the sine of half the angle; `converged` (), 1 if
    all targets are reached; and `iterations` ().
    """

    carried: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def of(cls, robot: Robot, options: IkOptions) -> ChipIk:
        """Return the solver for a robot and options.

        Raises:
            ArgumentError: The options have a posture, whose weights are too small for fixed point, or the robot has
                variable parameters.
        """
        if options.posture is not None:
            raise ArgumentError(
                "posture of inverse kinematics on a chip; expected none: its weights are below a fixed-point step",
                code="DG-SOLVER-070",
            )
        check_constant(robot, "inverse kinematics on a chip")
        rows = row_count(options.targets)
        constants = {OTHER.get(name, name): value for name, value in begin(robot, options).items()}
        fixed = {name: np.asarray(value, dtype=float).astype(object) for name, value in constants.items()}
        first = recorded("begin", robot.name, {START: (robot.nq,)}, lambda x: {"trial": x[START], **fixed})

        def results(x: Mapping[str, Array]) -> Mapping[str, Any]:
            error = largest(map(absolute, x["errors_new"]), 0.0)
            reached = select(options.tolerance / math.sqrt(3.0) - error, 1.0, 0.0)
            return {SOLUTION: x[OTHER["q_new"]], ERROR: error, CONVERGED: reached, ITERATIONS: x[ITERATIONS]}

        last = recorded(
            "results", robot.name, {OTHER["q_new"]: (robot.nq,), "errors_new": (rows,), ITERATIONS: ()}, results
        )
        inputs = (START, *(name for target in options.targets for name in target.parts))
        kept = (SOLUTION, ERROR, CONVERGED, ITERATIONS)
        steps = (first, ik_loop(robot, options).renamed(OTHER), last)
        loop = Loop("inverse_kinematics", robot.name, steps, {}, Count(), per_iteration=inputs, kept=kept)
        return cls(robot, options, in_blocks(loop))

    @property
    def described(self) -> dict[str, Any]:
        """Options of the solver for a record."""
        o = self.options
        targets = [repr(target) for target in o.targets]
        return {"targets": targets, "iterations": o.iterations, "tolerance": o.tolerance}

    def reach(self, word: int) -> dict[str, float]:
        """Return values that may exceed those in sampled problems, and their largest magnitude: the counts of
        iterations and of slow steps.
        """
        counts = dict.fromkeys(self.blocks.starts, float(self.options.iterations + 1))
        return {**counts, "slow": PATIENCE + 1.0}

    def solved(self, values: Mapping[str, Array]) -> Array:
        """Return which problems have a solution, (batch,)."""
        return np.asarray(values[CONVERGED] > 0.0)

    def check_solved(self, solved: Array, problems: Mapping[str, Array]) -> None:
        """Check that enough problems converge from their start in float64."""
        check_reached(solved)

    def after(self, inputs: Mapping[str, Array], values: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs of the next call: it starts from the solution of this one."""
        return {START: values[SOLUTION]}
