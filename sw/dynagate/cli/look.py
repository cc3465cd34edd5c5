"""Commands that show a design: report, schedule, wave."""

from __future__ import annotations

import functools
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynagate.cli import groups, parameters
from dynagate.cli.extras import needs
from dynagate.cli.hardware import built_as_asked
from dynagate.cli.options import algorithm_options, design_options, examples, outputs_option, seed_option
from dynagate.cli.output import write_text
from dynagate.cli.parameters import count
from dynagate.cli.robot import Command, first_given, region_options, robot_options

if TYPE_CHECKING:
    from dynagate.cli.progress import ProgressLine
    from dynagate.hw.build import Build

MOST_SAMPLES = 1000

Builder = Callable[["ProgressLine"], "Build"]


class DesignOrRobot(parameters.RobotName):
    """The folder of a design, or what `RobotName` takes."""

    name = "design"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not _is_design(value):
            if Path(value).is_dir():
                self.fail(f"no design.json in {value}; expected a folder that `dynagate build` printed", param, ctx)
            return super().convert(value, param, ctx)
        return value


def _is_design(value: str) -> bool:
    path = Path(value)
    return (path / "design.json").is_file() or (path.name == "design.json" and path.is_file())


def design_argument(command: Command) -> Command:
    """The folder of a design, or a robot with the options of `build`. The command gets what makes a `Build` of
    progress, as `builder`."""

    @functools.partial(robot_options, source=DesignOrRobot(), metavar="FOLDER|ROBOT")
    @region_options()
    @design_options
    @algorithm_options
    @outputs_option
    def from_robot(robot: Any, region: Any, *, rest: dict[str, Any], **request: Any) -> Any:
        return command(builder=lambda progress: built_as_asked(robot, region, progress=progress, **request), **rest)

    @functools.wraps(command)
    def chosen(robot: str, **options: Any) -> Any:
        own = {parameter.name for parameter in command.__dict__.get("__click_params__", ())}
        rest = {name: options.pop(name) for name in own}
        if not _is_design(robot):
            return from_robot(robot, rest=rest, **options)
        _refuse_beside_a_design(own)
        return command(builder=lambda progress: _kept(robot, progress), **rest)

    chosen.__dict__["__click_params__"] = [
        *command.__dict__.get("__click_params__", ()),
        *from_robot.__dict__["__click_params__"],
    ]
    return chosen


def _kept(folder: str, progress: ProgressLine) -> Build:
    from dynagate.views.kept import kept_build

    return kept_build(folder, progress)


def _refuse_beside_a_design(own: set[str | None]) -> None:
    """Raises UsageError: an option of what to build, where it has been built."""
    if option := first_given({each.name for each in click.get_current_context().command.params} - own):
        raise click.UsageError(
            f"{option} beside the folder of a design; expected a robot, or the folder alone: the design is already "
            "built"
        )


def shown(file: Path, *, opened: bool) -> None:
    """Print where a file lies, and open it in the browser."""
    click.echo(file)
    if opened and not webbrowser.open(file.resolve().as_uri()):
        raise click.ClickException(f"no browser to open {file} with; open it by hand")


def output_option(suffix: str, text: str) -> Callable[[Command], Command]:
    """Where the file goes. suffix: of its name. text: the option's help."""
    return click.option("--output", type=parameters.File(suffix), metavar="FILE", help=text)


@groups.command(
    short_help="Show a design as one HTML page.",
    epilog=examples("report iiwa14 --ii 8 --error 1e-3 --open", "report two_joint_arm --output arm.html"),
)
@needs("hw", "amaranth", "scipy", "jinja2")
@design_argument
@output_option(".html", "The page's file.  [default: report.html in the design's folder]")
@click.option("--open", "opened", is_flag=True, help="Show it in the browser.")
def report(builder: Builder, output: Path | None, opened: bool) -> None:
    """Write a design as one HTML page: robot, datapath, schedule, units, widths, errors, resources.

    The argument is the folder of a design, or a robot, which is built first. The page needs no network."""
    from dynagate.cli.progress import ProgressLine

    with ProgressLine() as progress:
        built = builder(progress)
        progress("drawing the page")
        from dynagate.views.page import page

        text = page(built)
    target = output or built.folder / "report.html"
    write_text(target, text)
    shown(target, opened=opened)


@groups.command(
    short_help="Print a design's schedule, or draw it.",
    epilog=examples("schedule two_joint_arm --function inverse_dynamics --ii 2", "schedule iiwa14 --open"),
)
@needs("hw", "amaranth", "scipy")
@design_argument
@output_option(".svg", "Draw it into this SVG file.  [default with --open: schedule.svg in the design's folder]")
@click.option("--open", "opened", is_flag=True, help="Draw it and show it in the browser.")
def schedule(builder: Builder, output: Path | None, opened: bool) -> None:
    """Print when each pass of a design works, the chain of its pivots cycle by cycle, and the units in use.

    The argument is the folder of a design, or a robot, which is built first."""
    from dynagate.cli.progress import ProgressLine

    with ProgressLine() as progress:
        built = builder(progress)
    from dynagate.hw.timeline import text
    from dynagate.views.gantt import draw_schedule

    click.echo(text(built.robot.name, built.plan))
    if output or opened:
        target = output or built.folder / "schedule.svg"
        write_text(target, draw_schedule(built.robot.name, built.plan) + "\n")
        shown(target, opened=opened)


@groups.command(
    short_help="Write waveforms, and a GTKWave file.",
    epilog=examples("wave two_joint_arm --ii 4 --samples 4", "wave two_joint_arm --output arm.vcd"),
)
@needs("hw", "amaranth", "scipy")
@design_argument
@output_option(".vcd", "The VCD file; the GTKWave file lies beside it.  [default: wave.vcd in the design's folder]")
@click.option("--samples", default=2, show_default=True, type=count(MOST_SAMPLES), help="Random states to stream.")
@seed_option
def wave(builder: Builder, output: Path | None, samples: int, seed: int) -> None:
    """Simulate a few samples and write what every node does as a VCD file, with a GTKWave file that groups the nodes by
    pass and link.

    The argument is the folder of a design, or a robot, which is built first. Amaranth's own simulator runs, which takes
    minutes a sample for a large robot."""
    from dynagate.cli.progress import ProgressLine

    with ProgressLine() as progress:
        built = builder(progress)
        progress(f"simulating {samples} samples")
        from dynagate.sim.waveform import write_waves

        inputs = built.region.states(built.graph, samples, seed)
        files = write_waves(built, inputs, output or built.folder / "wave.vcd")
    for file in files:
        click.echo(file)
    click.echo(f"gtkwave {files[-1]}", err=True)
