"""Choose formats for a solver on a chip, from problems solved in float64."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from dynagate.base.arrays import Array
from dynagate.control.chip import ChipSolver, calls_of
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.models.loops import FormattedLoop, assign_loop
from dynagate.fixedpoint.models.observed_loops import AcceptedInputs, Unlimited
from dynagate.hw.processor.compiler.motion import spread

CALLS = 2
"""Calls for each problem: the first begins with the guess, the others with the solution of the previous call."""


def formatted_solver(solver: ChipSolver, problems: Mapping[str, Array], policy: Policy) -> FormattedLoop:
    """Return a solver's loop with formats of one word length.

    Ranges come from the problems that have a solution in float64.

    Args:
        solver: The solver.
        problems: Inputs (batch, ·) of a call by name.
        policy: Word length and arithmetic.

    Raises:
        ArgumentError: Fewer than half of the problems have a solution in float64, or the solver does not fit the word.
    """
    reach = solver.reach(policy.word)
    observed = AcceptedInputs(solver.blocks.loop, solver.retries)
    solved = _solved(solver, problems, observed)
    if not solved.all():
        solver.check_solved(solved, problems)
        observed = AcceptedInputs(solver.blocks.loop, solver.retries)
        _solved(solver, {name: x[solved] for name, x in problems.items()}, observed)
    spread(observed, reach, policy.seed)
    return assign_loop(solver.blocks, observed, Unlimited(), policy)


def _solved(solver: ChipSolver, problems: Mapping[str, Array], observed: AcceptedInputs) -> Array:
    """Return which problems (batch,) all calls solve."""
    calls = calls_of(solver, problems, CALLS, observed.evaluated)
    return np.logical_and.reduce([solver.solved(values) for _, values in calls])
