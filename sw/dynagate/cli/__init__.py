"""The `dynagate` command."""

from __future__ import annotations

import click

from dynagate import __version__, robots
from dynagate.cli.check import check
from dynagate.cli.errors import Commands
from dynagate.cli.explain import explain
from dynagate.cli.hardware import bitstream, build, run, synth
from dynagate.cli.installation import clean, doctor
from dynagate.cli.look import report
from dynagate.cli.packaging import package
from dynagate.cli.software import bench, emit, info
from dynagate.cli.studies import closed_loop, sweep
from dynagate.cli.verification import verify
from dynagate.cli.view import view


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"""\b
ROBOT is the path of a URDF file, or a robot that ships: {", ".join(robots.names())}.
Examples:
  dynagate info iiwa14
  dynagate build my_robot.urdf --function forward_dynamics --ii 16
'dynagate COMMAND --help' explains a command's options.""",
)
@click.version_option(__version__)
def main() -> None:
    """URDF in, verified dynamics accelerator out."""


for command in (
    build,
    run,
    verify,
    synth,
    bitstream,
    package,
    report,
    view,
    info,
    check,
    emit,
    sweep,
    closed_loop,
    bench,
    explain,
    doctor,
    clean,
):
    main.add_command(command)
