"""The command that draws a robot's motion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from dynagate.cli import parameters
from dynagate.cli.groups import command
from dynagate.cli.look import shown
from dynagate.cli.options import examples
from dynagate.cli.parameters import Value
from dynagate.cli.robot import robot_options
from dynagate.robot import Robot


@command(
    short_help="Draw a robot and its motion.",
    epilog=examples("view iiwa14 --open", "view my_robot.urdf trajectory.npz --output motion.gif"),
)
@robot_options
@click.argument("trajectory", required=False, type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=parameters.File(),
    metavar="FILE",
    help="A file that ends in .svg, which moves in a browser, .gif or .png.  [default: ROBOT.svg]",
)
@click.option(
    "--dt",
    default=0.02,
    show_default=True,
    type=Value(parameters.positive, "a number of more than 0"),
    metavar="SECONDS",
    help="Between steps.",
)
@click.option("--open", "opened", is_flag=True, help="Show it in the browser.")
def view(robot: Robot, trajectory: Path | None, output: Path | None, dt: float, opened: bool) -> None:
    """Draw ROBOT as lines from joint to joint: the motion in TRAJECTORY, or else one joint after the other.

    TRAJECTORY is an .npz file with `q`, (steps, nq) or (batch, steps, nq) in rad and m, as
    numpy.savez(file, q=motion.q) writes it."""
    from dynagate.integrators.pictures import draw, sweep

    q = sweep(robot) if trajectory is None else _read(trajectory)
    shown(draw(robot, q, output or Path(f"{robot.name}.svg"), dt=dt), opened=opened)


def _read(file: Path) -> Any:
    """The configurations of a file. Raises ClickException: it holds none."""
    if not file.is_file():
        raise click.ClickException(f"{file}: no such file; expected an .npz file with q")
    try:
        with np.load(file, allow_pickle=False) as content:
            if "q" in content:
                return content["q"]
            names = ", ".join(content)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise click.ClickException(f"{file} is no .npz file of arrays ({error}); expected one with q") from None
    raise click.ClickException(f"{file} holds {names or 'nothing'}; expected q, (steps, nq) in rad and m")
