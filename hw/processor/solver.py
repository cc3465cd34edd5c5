"""Formats of a solver of optimal control problems on a chip, from problems that it solves in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.base.errors import ArgumentError
from dynagate.control.chip import PLAN, ChipIlqr
from dynagate.fixedpoint.assign import Policy
from dynagate.fixedpoint.loops import FormattedLoop, assign_loop
from dynagate.fixedpoint.observed_loops import Accepted, Unlimited
from dynagate.graph.loop import evaluate_turn
from dynagate.hw.processor.motion import spread

Array = npt.NDArray[Any]
CALLS = 2
"""Of each problem: the first begins with the guess, the others with what the one before has left."""
RETRIES = ("search", "backward")


def formatted_solver(solver: ChipIlqr, problems: Mapping[str, Array], policy: Policy) -> FormattedLoop:
    """A solver's loop with formats of one word. problems: q, qd, guess and inputs of the cost (batch, ·).

    Raises ValueError: a problem is not finite, or none has a motion that is.
    """
    observed = Accepted(solver.blocks.loop, RETRIES)
    for _, values in calls_of(solver, problems, CALLS, observed):
        if not (values["solved"] > 0.0).any():
            raise ArgumentError(
                f"no problem of {solver.robot.name} has a solution in float64; expected problems from which ranges can "
                "be found: others, a smaller dt, or more knots"
            )
    spread(observed, solver.reach(), policy.seed)
    return assign_loop(solver.blocks, observed, Unlimited(), policy)


def calls_of(
    solver: ChipIlqr, problems: Mapping[str, Array], count: int, observed: Accepted | None = None
) -> list[tuple[dict[str, Array], dict[str, Array]]]:
    """Inputs and all values, in float64, of so many calls of each problem (batch, ·), from states that the robot
    reaches by the plans. observed: notes what comes into the graphs."""
    loop, batch = solver.blocks.loop, len(problems["q"])
    state = {port.name: np.zeros((batch, *port.shape)) for port in loop.inputs}
    state |= {name: np.full(batch, value) for name, value in solver.blocks.starts.items()}
    inputs = {name: np.asarray(problems[name], np.float64) for name in loop.per_turn if name != "warm"}
    inputs["warm"] = np.zeros(batch)
    calls = []
    for _ in range(count):
        with np.errstate(all="ignore"):
            now = {**state, **inputs}
            values = evaluate_turn(loop, now, *([] if observed is None else [observed.evaluated]))
        calls.append((inputs, values))
        state |= {name: values[value] for value, name in PLAN.items()}
        after = {"q": values["qs_new"][:, 1], "qd": values["qds_new"][:, 1], "warm": np.ones(batch)}
        inputs = {**inputs, **after}
    return calls
