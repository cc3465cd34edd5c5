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


@dataclass(frozen=True)
class Row:
    """One form. float32_error: relative L2 error of the worst output block against float64, 95 % of the states."""

    function: str
    form: str
    counts: Counts
    float32_error: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def describe(robot: Robot, region: Region, **options: Any) -> list[Row]:
    """A row per function and form; options (`frame`, `mass`) go to the forms that take them."""
    rows = []
    for name, function in FUNCTIONS.items():
        inputs = region.sample(name, STATES, SEED)
        single = {key: value.astype(np.float32) for key, value in inputs.items()}
        # the same states for both: the inputs' own rounding is not the algorithm's error
        double = {key: value.astype(np.float64) for key, value in single.items()}
        for form in function.forms:
            taken = {key: value for key, value in options.items() if key in function.options.get(form, ())}
            graph = trace(robot, name, form=form, **taken)
            exact = evaluate(graph, double)
            rough = evaluate(graph, single)
            worst = max(float(np.quantile(relative_errors(rough[o], exact[o]), 0.95)) for o in exact)
            rows.append(Row(name, form, graph.counts(), worst))
    return rows


def table(robot: Robot, rows: list[Row]) -> str:
    columns = "".join(f"{name:>9}" for name in ("products", "constant", "adds", "1/x", "sin/cos", "depth", "float32"))
    head = f"{'function':<38}{'form':<19}{columns}"
    lines = [f"{robot.name}: {robot.nv} degrees of freedom", head]
    for row in rows:
        c = row.counts
        lines.append(
            f"{row.function:<38}{row.form:<19}{c.mul:>9}{c.mul_const:>9}{c.add:>9}{c.reciprocal:>9}{c.trig:>9}"
            f"{c.depth:>9}{row.float32_error:>9.1e}"
        )
    return "\n".join(lines)
