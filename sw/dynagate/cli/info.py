"""Cost of each function of a robot by algorithm, and its accuracy in float32."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dynagate.base.progress import Progress, quiet
from dynagate.base.text_table import Column, table_lines
from dynagate.dynamics import LISTED
from dynagate.dynamics import function as function_row
from dynagate.forces.options import DEFAULTS, AlgorithmOptions
from dynagate.graph import OperationCounts, trace
from dynagate.graph.evaluate import evaluate
from dynagate.graph.reference_gradient import relative_errors
from dynagate.graph.region import Region
from dynagate.robot import Robot

STATES = 256
SEED = 5


FEWEST = {"frame": "fewest", "mass": "shared"}
"""The choices that take the fewest operations, listed next to the default ones."""


@dataclass(frozen=True)
class AlgorithmRow:
    """One form. options: what was chosen for it besides the defaults. float32_error: relative L2 error of the worst
    output block against float64, 95 % of the states."""

    function: str
    form: str
    options: dict[str, Any]
    counts: OperationCounts
    float32_error: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def describe(
    robot: Robot,
    region: Region,
    *,
    function: str | None = None,
    algorithm: AlgorithmOptions = DEFAULTS,
    progress: Progress = quiet,
) -> list[AlgorithmRow]:
    """A row per function and form, or only those of this function or form, in the default choices and in those of
    fewest operations; where `frame`, `mass` or `prefix` is given, in these instead. With `forces` where the
    function depends on friction. progress: called before each slow stage. Raises RobotError: the
    robot does not have this function, or not in this form.
    """
    rows, form, options = [], algorithm.form, algorithm.as_dict()
    listed = LISTED if function is None else {function_row(function).name: function_row(function)}
    for name, row in listed.items():
        forms = row.forms_for(robot)
        if form is not None:  # of a function that the robot has
            forms = [each for each in row.forms if each == form and forms]
        if function is not None and not forms:
            trace(robot, function, form=form)  # says why the robot has none
        rubs = {"forces": options["forces"]} if options.get("forces") and row.takes_friction else {}
        double = _states(region, name, rubs) if forms else {}
        own = {key: value for key, value in options.items() if key not in ("form", "forces")}
        for each in forms:
            takes = row.options.get(each, ())
            choices: list[dict[str, Any]] = [own] if own else [{}, FEWEST]
            taken = [{key: value for key, value in choice.items() if key in takes} for choice in choices]
            for choice in [each for k, each in enumerate(taken) if each not in taken[:k]]:
                chosen = {**choice, **rubs}
                progress(" ".join([name, each, *(f"{key}={value}" for key, value in chosen.items())]))
                rows.append(_row(robot, name, each, chosen, double))
    return rows


def _states(region: Region, name: str, rubs: dict[str, Any]) -> dict[str, Any]:
    """Inputs that float32 holds exactly: their own rounding is not the algorithm's error."""
    inputs = region.sample(name, STATES, SEED, **rubs)
    return {key: value.astype(np.float32).astype(np.float64) for key, value in inputs.items()}


def _row(robot: Robot, name: str, form: str, options: dict[str, Any], double: dict[str, Any]) -> AlgorithmRow:
    graph = trace(robot, name, form=form, **options)
    exact = evaluate(graph, double)
    rough = evaluate(graph, {key: value.astype(np.float32) for key, value in double.items()})
    worst = max(float(np.quantile(relative_errors(rough[o], exact[o]), 0.95)) for o in exact)
    return AlgorithmRow(name, form, options, graph.counts(), worst)


def _choice(key: str, value: Any) -> str:
    if value is True:
        return key
    return f"{key}={value:g}" if isinstance(value, float) else str(value)


def _form(row: AlgorithmRow) -> str:
    return " ".join([row.form, *(_choice(key, value) for key, value in row.options.items())])


COLUMNS: list[Column[AlgorithmRow]] = [
    Column("function", 38, lambda row: row.function, left=True),
    Column("form", 28, _form, left=True),
    Column("products", 9, lambda row: row.counts.mul),
    Column("constant", 9, lambda row: row.counts.mul_const),
    Column("adds", 9, lambda row: row.counts.add),
    Column("1/x", 9, lambda row: row.counts.reciprocal),
    Column("sin/cos", 9, lambda row: row.counts.trig),
    Column("depth", 9, lambda row: row.counts.depth),
    Column("float32", 9, lambda row: row.float32_error, ".1e"),
]
"""Columns of the table that a terminal shows."""


def table(robot: Robot, rows: list[AlgorithmRow]) -> str:
    """Return a table for the terminal, with a line for each form of a function."""
    return "\n".join([f"{robot.name}: {robot.nv} degrees of freedom", *table_lines(COLUMNS, rows)])
