"""What each function of a robot costs in each of its forms, and how well float32 does it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from dynagate.algorithms import FUNCTIONS
from dynagate.graph import Counts, trace
from dynagate.graph.evaluate import evaluate
from dynagate.region import Region
from dynagate.robot import Robot
from dynagate.truth import relative_errors

STATES = 256
SEED = 5


FEWEST = {"frame": "fewest", "mass": "shared"}
"""The choices that take the fewest operations, listed beside the default ones."""


@dataclass(frozen=True)
class Row:
    """One form. options: what was chosen for it besides the defaults. float32_error: relative L2 error of the worst
    output block against float64, 95 % of the states."""

    function: str
    form: str
    options: dict[str, Any]
    counts: Counts
    float32_error: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def describe(robot: Robot, region: Region, **options: Any) -> list[Row]:
    """A row per function and form, in the default choices and in those of fewest operations; where `frame` or `mass` is
    given, in these instead."""
    rows = []
    for name, function in FUNCTIONS.items():
        inputs = region.sample(name, STATES, SEED)
        single = {key: value.astype(np.float32) for key, value in inputs.items()}
        # the same states for both: the inputs' own rounding is not the algorithm's error
        double = {key: value.astype(np.float64) for key, value in single.items()}
        for form in function.forms:
            known = function.options.get(form, ())
            choices: list[dict[str, Any]] = [options] if options else [{}, FEWEST]
            for choice in choices if known else [{}]:
                taken = {key: value for key, value in choice.items() if key in known}
                graph = trace(robot, name, form=form, **taken)
                exact = evaluate(graph, double)
                rough = evaluate(graph, single)
                worst = max(float(np.quantile(relative_errors(rough[o], exact[o]), 0.95)) for o in exact)
                rows.append(Row(name, form, taken, graph.counts(), worst))
    return rows


def table(robot: Robot, rows: list[Row]) -> str:
    columns = "".join(f"{name:>9}" for name in ("products", "constant", "adds", "1/x", "sin/cos", "depth", "float32"))
    head = f"{'function':<38}{'form':<28}{columns}"
    lines = [f"{robot.name}: {robot.nv} degrees of freedom", head]
    for row in rows:
        c = row.counts
        form = " ".join([row.form, *(key if value is True else str(value) for key, value in row.options.items())])
        lines.append(
            f"{row.function:<38}{form:<28}{c.mul:>9}{c.mul_const:>9}{c.add:>9}{c.reciprocal:>9}{c.trig:>9}"
            f"{c.depth:>9}{row.float32_error:>9.1e}"
        )
    return "\n".join(lines)
