"""Options of steps through time and of rollouts on chip."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import click

from dynagate.base.errors import ArgumentError
from dynagate.cli import parameters
from dynagate.cli.fields import Command, field_option, with_options
from dynagate.cli.parameters import NumberType, count
from dynagate.cli.refusals import ParamType, UsageError
from dynagate.dynamics import ROLLOUT, function
from dynagate.forces.options import AlgorithmOptions

MOST_STEPS = 1_000_000
DEFAULT_STEPS = 50


def steps_option(default: int = DEFAULT_STEPS) -> Command:
    """Return the option --steps, which is None by default."""
    text = f"Simulate this many steps of each trajectory.  [default: {default}]"
    return click.option("--steps", type=count(MOST_STEPS), help=text)


class IntegratorName(ParamType, click.Choice[str]):
    """An integrator's name, or one with options. The integrators are imported only when their names are needed."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @functools.cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # set by none, as __init__ is ours
        from dynagate.integrators.methods import METHODS

        return tuple(METHODS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text of an integrator such as "position_based(order=3)", or a name."""
        if isinstance(value, str) and "(" in value:
            from dynagate.integrators.methods import method_text

            try:
                return method_text(value)
            except ArgumentError as error:
                self.fail(error.text, param, ctx, code=error.code)
        return str(super().convert(value, param, ctx))


def step_options(command: Command) -> Command:
    """Below `algorithm_options`: options of a step and of a rollout are added to the object `algorithm`."""

    @functools.wraps(command)
    def checked(robot: Any, *region: Any, algorithm: AlgorithmOptions, **rest: Any) -> Any:
        names = ("dt", "integrator", "implicit_damping", "constrained", "linearize", "variable_dt", "tolerance")
        asked = {name: value for name in names if (value := rest.pop(name)) not in (None, False)}
        row = function(rest["name"])
        taken = {option for options in row.options.values() for option in options}
        for name in asked:
            if name not in taken:
                option = name.replace("_", "-")
                raise UsageError(
                    f"{row.name} has no option --{option}; expected it left out, or --function {ROLLOUT}",
                    code="DG-CLI-070",
                )
        if "variable_dt" in asked and "dt" not in asked:
            raise UsageError(
                "--variable-dt without --dt; expected both: --dt is the largest time step", code="DG-CLI-071"
            )
        return command(robot, *region, algorithm=replace(algorithm, **asked), **rest)

    return with_options(
        checked,
        field_option(AlgorithmOptions, "dt", type=NumberType(parameters.positive, "a number of more than 0")),
        field_option(AlgorithmOptions, "integrator", type=IntegratorName()),
        field_option(AlgorithmOptions, "implicit_damping"),
        field_option(AlgorithmOptions, "constrained"),
        field_option(AlgorithmOptions, "tolerance", type=NumberType(parameters.positive, "a number of more than 0")),
        field_option(AlgorithmOptions, "linearize"),
        field_option(AlgorithmOptions, "variable_dt"),
    )
