"""The command that draws a robot's motion."""

from __future__ import annotations

import io
import math
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from dynagate.base.arguments import REAL
from dynagate.base.errors import ArgumentError
from dynagate.base.option import option
from dynagate.base.storage import MAX_FILE_BYTES, read_file
from dynagate.cli import parameters
from dynagate.cli.fields import options_of
from dynagate.cli.groups import command
from dynagate.cli.look import shown
from dynagate.cli.options import examples
from dynagate.cli.parameters import NumberType
from dynagate.cli.refusals import CommandError, UsageError
from dynagate.cli.robot import robot_options
from dynagate.robot import Robot, robots


@dataclass(frozen=True)
class ViewOptions:
    """How a motion is drawn or shown."""

    output: Path | None = option(
        "Write this file: .svg, which moves in a browser, .gif, .png or .html.  [default: ROBOT.svg]",
        None,
        unit="FILE",
        type=parameters.File(),
    )
    dt: float = option(
        "Show states that are this far apart in time, s.",
        0.02,
        unit="SECONDS",
        type=NumberType(parameters.positive, "a number of more than 0"),
    )
    theme: str = option(
        "Draw for a light or dark page; auto follows the reader's browser.", "auto", choices=("auto", "light", "dark")
    )
    opened: bool = option("Open the file in the browser.", False, name="--open")
    turn: bool = option(
        "Show the robot and its motion as an interactive view in the browser, instead of writing a file.", False
    )
    meshes: Path | None = option(
        "Read mesh files from this folder only.  [default: the robot's package, or its file's folder]",
        None,
        unit="FOLDER",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
    )
    port: int = option("Serve the page at this port, with --turn.", 8080, type=click.IntRange(1, 65535))


@command(
    short_help="Draw a robot and its motion.",
    epilog=examples("view iiwa14 --open", "view my_robot.urdf trajectory.npz --turn"),
)
@robot_options
@click.argument("trajectory", required=False, type=click.Path(path_type=Path))
@options_of(ViewOptions)
@click.pass_context
def view(context: click.Context, robot: Robot, trajectory: Path | None, options: ViewOptions) -> None:
    """Draw ROBOT and its motion to a file, or show it in the browser with `--turn`.

    Without TRAJECTORY, one joint moves after the other. The robot has the shapes and meshes of its URDF file, else
    capsules along its links.

    TRAJECTORY is an .npz file with `q`, (steps, nq) or (batch, steps, nq) in rad and m. In Python,
    numpy.savez(file, q=motion.q) writes it.
    """
    from dynagate.views.scene.pictures import Shapes, draw, sweep

    q = sweep(robot) if trajectory is None else read_trajectory(trajectory)
    file = Path(robots.file_of(context.params["robot"]))
    urdf = file if file.suffix == ".urdf" else None
    chosen: dict[str, Any] = {"dt": options.dt, "theme": options.theme, "shapes": Shapes(urdf, options.meshes)}
    if options.turn:
        if options.output or options.opened:
            raise UsageError(
                "--turn with --output or --open; expected one: a page is shown, or a file drawn", code="DG-CLI-100"
            )
        _turned(robot, q if q.ndim < 3 else q[0], port=options.port, **chosen)
        return
    target = options.output or Path(f"{robot.name}.svg")
    draw(robot, q, target, **chosen)
    shown(target, opened=options.opened)


def _turned(robot: Robot, q: Any, **options: Any) -> None:
    """Show a robot in the browser until Ctrl-C. options: as `dynagate.view` takes them."""
    from dynagate.views.scene import browser

    with browser.view(robot, q, **options) as shown_until:
        click.echo(f"{shown_until.url}, until Ctrl-C")
        try:
            shown_until.wait()
        except KeyboardInterrupt:
            click.echo()


def read_trajectory(file: Path) -> Any:
    """Return the configurations of a file. Raises ClickException: it holds none."""
    if not os.path.isfile(file):
        raise CommandError(f"{file}: no such file; expected an .npz file with q", code="DG-CLI-101")
    try:
        with zipfile.ZipFile(io.BytesIO(read_file(file))) as content:
            names = [name.removesuffix(".npy") for name in content.namelist()]
            if "q" in names:
                return _array(content)
    except (OSError, ValueError, EOFError, RuntimeError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        text = str(error.strerror if isinstance(error, OSError) else error)
        raise CommandError(
            f"{file} is no .npz file of arrays ({text:.200}); expected one with q", code="DG-CLI-102"
        ) from None
    held = ", ".join(names)[:200] or "nothing"
    raise CommandError(f"{file} holds {held}; expected q, (steps, nq) in rad and m", code="DG-CLI-103")


def _array(content: zipfile.ZipFile) -> Any:
    """Return the array q of an .npz file. What its header claims is compared with its size before any memory is
    allocated. Raises ArgumentError and errors of zipfile."""
    size = content.getinfo("q.npy").file_size
    if size > MAX_FILE_BYTES:
        raise ArgumentError(f"q has {size} bytes; expected at most {MAX_FILE_BYTES}", code="DG-CLI-104")
    data = io.BytesIO(content.read("q.npy"))
    version = np.lib.format.read_magic(data)
    if version not in HEADERS:
        raise ArgumentError(
            f"q has version {version[0]}.{version[1]} of the format; expected 1.0 or 2.0", code="DG-CLI-105"
        )
    shape, columns_first, dtype = HEADERS[version](data)
    left = size - data.tell()
    if dtype.kind not in REAL or math.prod(shape) * dtype.itemsize != left:
        raise ArgumentError(
            f"q has dtype {dtype} and shape {shape!r:.80} in {left} bytes; expected real numbers that fit",
            code="DG-CLI-106",
        )
    return np.frombuffer(data.read(), dtype).reshape(shape, order="F" if columns_first else "C")


HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
"""How numpy reads the header of an array, by the version of the format."""
