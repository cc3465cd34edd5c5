"""Options of steps through time and of rollouts on chip."""

from __future__ import annotations

import functools
from typing import Any

import click

from dynagate.cli import parameters
from dynagate.cli.parameters import Value, count
from dynagate.cli.robot import Command, with_options
from dynagate.dynamics import ROLLOUT, function

MOST_STEPS = 1_000_000
DEFAULT_STEPS = 50

steps_option = click.option(
    "--steps",
    type=count(MOST_STEPS),
    help=f"Simulate this many steps of each trajectory.  [default: {DEFAULT_STEPS}]",
)


IMPLICIT_DAMPING = "Take joint damping at the velocity after each step, so that no step is too long for it."


class IntegratorName(click.Choice[str]):
    """The name of an integrator. The integrators are imported only when their names are needed."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @functools.cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # set by none, as __init__ is ours
        from dynagate.integrators.methods import METHODS

        return tuple(METHODS)


def step_options(command: Command) -> Command:
    """Below `algorithm_options`: options of a step and of a rollout are more entries of the mapping `algorithm`."""

    @functools.wraps(command)
    def checked(robot: Any, *region: Any, algorithm: dict[str, Any], **rest: Any) -> Any:
        names = ("dt", "integrator", "implicit_damping", "linearize", "variable_dt", "tolerance")
        asked = {name: value for name in names if (value := rest.pop(name)) not in (None, False)}
        row = function(rest["name"])
        taken = {option for options in row.options.values() for option in options}
        for name in asked:
            if name not in taken:
                option = name.replace("_", "-")
                raise click.UsageError(
                    f"{row.name} has no option --{option}; expected it left out, or --function {ROLLOUT}"
                )
        if "variable_dt" in asked and "dt" not in asked:
            raise click.UsageError("--variable-dt without --dt; expected both: --dt is the largest time step")
        return command(robot, *region, algorithm={**algorithm, **asked}, **rest)

    return with_options(
        checked,
        click.option(
            "--dt",
            type=Value(parameters.positive, "a number of more than 0"),
            metavar="SECONDS",
            help="Step by this time.  [default: 0.001]",
        ),
        click.option(
            "--integrator",
            type=IntegratorName(),
            help="Step by this integrator. The last two solve an equation in each step of a rollout and need --units."
            "  [default: semi_implicit_euler]",
        ),
        click.option("--implicit-damping", is_flag=True, help=IMPLICIT_DAMPING),
        click.option(
            "--tolerance",
            type=Value(parameters.positive, "a number of more than 0"),
            metavar="NUMBER",
            help="End the search of a variational or position-based step at this residual."
            "  [default: the smallest that the word allows]",
        ),
        click.option("--linearize", is_flag=True, help="Also return ∂x⁺/∂x and ∂x⁺/∂τ of each step of a rollout."),
        click.option("--variable-dt", is_flag=True, help="Make the time step of a rollout an input, at most --dt."),
    )
