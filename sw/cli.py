"""The `dynagate` command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from dynagate import __version__, robots
from dynagate.algorithms import FUNCTIONS


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """URDF in, verified dynamics accelerator out."""


def _design_options(command: Any) -> Any:
    for option in reversed(
        [
            click.argument("robot"),
            click.option(
                "--function",
                "name",
                default="forward_dynamics_gradient",
                type=click.Choice(list(FUNCTIONS)),
                show_default=True,
                help="What to build.",
            ),
            click.option("--ii", default=8, show_default=True, help="Cycles between samples."),
            click.option("--word", default=24, show_default=True, help="Bits of every value."),
            click.option(
                "--frame", default=None, help="Expression frame of the gradients: base, middle, a link index."
            ),
            click.option(
                "--folder",
                default=Path("build/designs"),
                type=click.Path(path_type=Path),
                show_default=True,
                help="Where designs are kept.",
            ),
        ]
    ):
        command = option(command)
    return command


def _options(frame: str | None) -> dict[str, Any]:
    if frame is None:
        return {}
    return {"frame": int(frame) if frame.lstrip("-").isdigit() else frame}


@main.command()
@_design_options
def build(robot: str, name: str, ii: int, word: int, frame: str | None, folder: Path) -> None:
    """Build the Verilog of ROBOT (a shipped robot's name or a URDF file) and print where it lies."""
    from dynagate.fixedpoint.assign import Policy
    from dynagate.hw.build import build as make
    from dynagate.progress import Steps

    with _readable_errors(), Steps() as step:
        made = make(
            robots.load(robot),
            name,
            ii=ii,
            policy=Policy(word=word),
            folder=folder,
            step=step,
            **_options(frame),
        )
    click.echo(made.folder)


@main.command()
@_design_options
@click.option("--states", default=1024, show_default=True, help="Random states to stream.")
@click.option("--seed", default=1, show_default=True, help="Of the states.")
def run(robot: str, name: str, ii: int, word: int, frame: str | None, folder: Path, states: int, seed: int) -> None:
    """Build ROBOT's accelerator, simulate it, stream random states through it and check every result."""
    from dynagate.host.report import check_on_simulator
    from dynagate.progress import Steps

    with _readable_errors(), Steps() as step:
        report = check_on_simulator(
            robots.load(robot),
            name,
            ii=ii,
            word=word,
            folder=folder,
            states=states,
            seed=seed,
            step=step,
            **_options(frame),
        )
    click.echo(report.text())
    sys.exit(0 if report.passed else 1)


@main.command()
@click.argument("robot")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--frame", default=None, help="Expression frame: base, middle, fewest, a link index.")
@click.option("--velocity", type=float, default=None, help="Joint speeds to sample up to, where the file gives none.")
@click.option("--allow-unphysical", is_flag=True, help="Accept inertias that no body has.")
@click.option("--ignore-friction", is_flag=True, help="Leave out Coulomb friction.")
def info(
    robot: str, as_json: bool, frame: str | None, velocity: float | None, allow_unphysical: bool, ignore_friction: bool
) -> None:
    """Print what each function of ROBOT costs in each of its forms: operations, depth, float32 error."""
    from dynagate.info import describe, table
    from dynagate.region import Region

    with _readable_errors():
        loaded = robots.load(robot, allow_unphysical=allow_unphysical, ignore_friction=ignore_friction)
        rows = describe(loaded, Region.of(loaded, velocity=velocity), **_options(frame))
    click.echo(json.dumps([row.as_dict() for row in rows], indent=1) if as_json else table(loaded, rows))


class _readable_errors:
    """Errors that are the user's to mend, without a traceback."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, ValueError | RuntimeError):
            raise click.ClickException(str(error)) from error
