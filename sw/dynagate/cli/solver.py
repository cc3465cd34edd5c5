"""Options of solvers, --knots and --samples, and what a command does with a solver as its --function."""

from __future__ import annotations

import functools
import sys
from typing import Any

import click
from click.core import ParameterSource

from dynagate.cli.fields import Command, with_options
from dynagate.cli.options import SOLVERS, is_solver, posed_frame
from dynagate.cli.parameters import count
from dynagate.cli.refusals import UsageError
from dynagate.cli.robot import first_given

KNOTS, SAMPLES, DT, WORD, STATES = 32, 64, 0.02, 27, 8
"""Unless a command line says others; states are problems."""
MOST_KNOTS, MOST_SAMPLES = 4096, 65535
TAKEN = {"name", "word", "formats", "words", "units", "folder", "states", "seed", "samples_per_run"}
"""Options that every solver has."""
OF_STEPS = {"dt", "implicit_damping"}
"""Options that solvers of optimal control have too."""


def solver_option(command: Command) -> Command:
    """--knots and --samples. With --function ilqr, mppi or inverse_kinematics_FRAME the command solves problems on a
    processor, and ends.
    """

    @functools.wraps(command)
    def checked(robot: Any, region: Any, knots: int | None, samples: int | None, **rest: Any) -> Any:
        function = rest["name"]
        for option, value, owners in (("knots", knots, SOLVERS), ("samples", samples, SOLVERS[1:])):
            if value is not None and function not in owners:
                raise UsageError(
                    f"--{option} does not apply to {function}; leave it out, or pass --function {' or '.join(owners)}",
                    code="DG-CLI-081",
                )
        if not is_solver(function):
            return command(robot, region=region, **rest)
        _solve(region, KNOTS if knots is None else knots, SAMPLES if samples is None else samples, rest)
        return None

    names = " and ".join(SOLVERS)
    return with_options(
        checked,
        click.option(
            "--knots",
            type=count(MOST_KNOTS, 2),
            help=f"Plan this many torques with --function {names}.  [default: {KNOTS}]",
        ),
        click.option(
            "--samples",
            type=count(MOST_SAMPLES, 1),
            help=f"Sample this many rollouts with --function {SOLVERS[1]}.  [default: {SAMPLES}]",
        ),
    )


def _solve(region: Any, knots: int, samples: int, asked: dict[str, Any]) -> None:
    context, function = click.get_current_context(), asked["name"]
    frame = posed_frame(function)
    if option := first_given(asked.keys() - TAKEN - (set() if frame else OF_STEPS)):
        raise UsageError(f"{option} with --function {function}; expected it left out", code="DG-CLI-082")
    chosen = context.get_parameter_source("samples_per_run") is ParameterSource.COMMANDLINE
    if chosen and function != SOLVERS[1]:
        raise UsageError(
            f"--samples-per-run does not apply to {function}; leave it out, or pass --function {SOLVERS[1]}",
            code="DG-CLI-083",
        )
    samples_per_run = asked["samples_per_run"] if chosen else None
    if samples_per_run is not None and samples % samples_per_run:
        raise UsageError(
            f"--samples-per-run {samples_per_run} of {samples} samples; expected a number that divides them",
            code="DG-CLI-084",
        )
    if asked["units"] is None:
        raise UsageError(
            f"--function {function} without --units; expected a processor's units, such as --units 8", code="DG-CLI-085"
        )
    if asked["word"] and asked["formats"]:
        raise UsageError(
            "--word and --formats are both given; expected one: each decides the formats", code="DG-CLI-086"
        )
    if context.get_parameter_source("states") is not ParameterSource.COMMANDLINE:
        asked["states"] = STATES
    from dynagate.cli.progress import TerminalProgress
    from dynagate.forces.options import StepOptions
    from dynagate.host.report import Checks, report_solver
    from dynagate.host.report.trials import Posing, Reaching, SolverTrial

    word = asked["word"] or WORD
    each = StepOptions(asked["dt"] or DT, implicit_damping=asked["implicit_damping"])
    with TerminalProgress() as progress:
        trial: SolverTrial = (
            Posing.of(frame, region, word) if frame else Reaching.of(function, region, knots, each, samples)
        )
        report = report_solver(
            trial,
            asked["units"],
            folder=asked["folder"],
            word=word,
            formats=asked["formats"],
            words=asked["words"],
            samples_per_run=samples_per_run,
            checks=Checks(asked["states"], seed=asked["seed"]),
            progress=progress,
        )
    click.echo(report.text())
    sys.exit(0 if report.passed else 1)
