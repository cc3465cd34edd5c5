"""Formats of a solver of optimal control problems on a chip, from problems that it solves in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
from dynagate.base.errors import ArgumentError
from dynagate.control.chip import ChipIlqr, calls_of
from dynagate.control.ilqr import RETRIES
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.loops import FormattedLoop, assign_loop
from dynagate.fixedpoint.observed_loops import Accepted, Unlimited
from dynagate.hw.processor.motion import spread

Array = npt.NDArray[Any]
CALLS = 2
"""Of each problem: the first begins with the guess, the others with what the one before has left."""


def formatted_solver(solver: ChipIlqr, problems: Mapping[str, Array], policy: Policy) -> FormattedLoop:
    """A solver's loop with formats of one word. problems: q, qd, guess and inputs of the cost (batch, ·).

    Raises ValueError: a problem is not finite, or none has a motion that is.
    """
    observed = Accepted(solver.blocks.loop, RETRIES)
    for _, values in calls_of(solver, problems, CALLS, observed.evaluated):
        if not (values["solved"] > 0.0).any():
            raise ArgumentError(
                f"no problem of {solver.robot.name} has a solution in float64; expected problems from which ranges can "
                "be found: others, a smaller dt, or more knots"
            )
    spread(observed, solver.reach(), policy.seed)
    return assign_loop(solver.blocks, observed, Unlimited(), policy)
