"""The command that checks the physics of a robot's file."""

from __future__ import annotations

import json
import sys

import click

from dynagate.cli.groups import command
from dynagate.cli.options import examples
from dynagate.cli.parameters import RobotName


@command(
    short_help="Check the physics of a robot's file.",
    epilog=examples("check my_robot.urdf", "check my_robot.urdf --strict", "check iiwa14 --json"),
)
@click.argument("robot", type=RobotName())
@click.option(
    "--trust-robot",
    is_flag=True,
    help="Trust this xacro or MJCF file, which can run code and open other files.",
)
@click.option("--strict", is_flag=True, help="Fail on warnings too, not only on errors.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of lines.")
def check(robot: str, trust_robot: bool, strict: bool, as_json: bool) -> None:
    """Check the physics of ROBOT before use, and print each error with its place, number and probable cause.

    The checks concern inertias, centers of mass, densities, limits, axes, pairs on the left and right, torques of
    gravity against limits, and the condition of the mass matrix. The exit status is 1 if there are errors, or warnings
    with --strict, else 0.
    """
    from dynagate.checks.check import check as findings_of
    from dynagate.checks.finding import LEVELS
    from dynagate.cli.errors import as_options

    findings = findings_of(robot, trust=trust_robot)
    counts = {level: sum(finding.level == level for finding in findings) for level in LEVELS}
    if as_json:
        click.echo(json.dumps([finding.as_dict() for finding in findings], indent=1))
    else:
        for finding in findings:
            click.echo(as_options(str(finding)))
        named = [f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items()]
        click.echo(f"{robot}: {', '.join(named)}")
    sys.exit(1 if counts["error"] or (strict and counts["warning"]) else 0)
