"""Options of solvers: --knots, and the commands' way with --function ilqr."""

from __future__ import annotations

import functools
import sys
from typing import Any

import click
from click.core import ParameterSource

from dynagate.cli.options import ILQR
from dynagate.cli.parameters import count
from dynagate.cli.robot import Command, with_options

KNOTS, DT, WORD, STATES = 32, 0.02, 27, 8
"""Unless a command line says others; states are problems."""
MOST_KNOTS = 4096
TAKEN = ("name", "knots", "dt", "word", "units", "folder", "states", "seed")
"""Options that a solver has."""


def solver_option(command: Command) -> Command:
    """--knots. With --function ilqr the command solves problems on a processor, and ends."""

    @functools.wraps(command)
    def checked(robot: Any, region: Any, knots: int | None, **rest: Any) -> Any:
        if rest["name"] != ILQR:
            if knots is not None:
                raise click.UsageError(f"--knots of {rest['name']}; expected it left out, or --function {ILQR}")
            return command(robot, region=region, **rest)
        _solve(robot, region, KNOTS if knots is None else knots, rest)
        return None

    return with_options(
        checked,
        click.option(
            "--knots",
            type=count(MOST_KNOTS, 2),
            help=f"Of --function {ILQR}, a solver of optimal control problems: how many torques; {KNOTS} unless given.",
        ),
    )


def _solve(robot: Any, region: Any, knots: int, asked: dict[str, Any]) -> None:
    context = click.get_current_context()
    for name, value in asked.items():
        source = context.get_parameter_source(name)
        if source is ParameterSource.COMMANDLINE and value is not None and name not in TAKEN:
            raise click.UsageError(f"--{name.replace('_', '-')} with --function {ILQR}; expected it left out")
    if asked["units"] is None:
        raise click.UsageError(f"--function {ILQR} without --units; expected a processor's units, such as --units 8")
    if context.get_parameter_source("states") is not ParameterSource.COMMANDLINE:
        asked["states"] = STATES
    from dynagate.cli.progress import Steps
    from dynagate.host.solver_report import reaching, solver_report

    with Steps() as step:
        solver, holding = reaching(robot, knots, asked["dt"] or DT)
        report = solver_report(
            solver,
            holding,
            units=asked["units"],
            word=asked["word"] or WORD,
            region=region,
            folder=asked["folder"],
            states=asked["states"],
            seed=asked["seed"],
            step=step,
        )
    click.echo(report.text())
    sys.exit(0 if report.passed else 1)
