"""The command that shows a design: as a page, a schedule, waveforms, or a comparison of separate functions."""

from __future__ import annotations

import functools
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dynagate.base.option import option
from dynagate.cli import groups, parameters
from dynagate.cli.extras import needs
from dynagate.cli.fields import Command, options_of
from dynagate.cli.hardware import built_as_asked
from dynagate.cli.options import algorithm_options, design_options, examples, outputs_option, seed_option
from dynagate.cli.output import write_text
from dynagate.cli.refusals import CommandError, UsageError
from dynagate.cli.robot import first_given, region_options, robot_options
from dynagate.dynamics import ALL
from dynagate.graph.parts import parts_of

if TYPE_CHECKING:
    from dynagate.cli.progress import TerminalProgress
    from dynagate.hw.bodies.pipeline import Pipeline
    from dynagate.hw.designs import Design

MOST_SAMPLES = 1000

VIEWS = {"page": ".html", "schedule": ".svg", "waves": ".vcd", "together": ""}
"""Views of a report, and the suffix of the file that each writes; "" for a view that is printed."""


@dataclass(frozen=True)
class ReportSubject:
    """The subject of a report.

    Attributes:
        build: Returns the design; it is built first if the command line names a robot.
        compare: Returns the comparison of one datapath for several functions with separate ones; None for a folder.
    """

    build: Callable[[TerminalProgress], Design[Pipeline]]
    compare: Callable[[TerminalProgress], str] | None = None


class DesignOrRobot(parameters.RobotName):
    """The folder of a design, or what `RobotName` takes."""

    name = "design"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not _is_design(value):
            if Path(value).is_dir():
                self.fail(
                    f"no design.json in {value}; expected a folder that `dynagate build` printed",
                    param,
                    ctx,
                    code="DG-CLI-016",
                )
            return super().convert(value, param, ctx)
        return value


def _is_design(value: str) -> bool:
    path = Path(value)
    return (path / "design.json").is_file() or (path.name == "design.json" and path.is_file())


def _of_a_design(**options: Any) -> None:
    """Hold the options of `build` about a design and its algorithm, for their names."""


OF_A_DESIGN = {
    each.name or ""
    for each in design_options(algorithm_options(outputs_option(_of_a_design))).__dict__["__click_params__"]
} - {"name", "ii"}
"""Options of a single design, which a comparison of designs does not take."""


def design_argument(command: Command) -> Command:
    """Add the folder of a design, or a robot with the options of `build`. The command receives a `ReportSubject`."""

    @functools.partial(robot_options, source=DesignOrRobot(), metavar="FOLDER|ROBOT")
    @region_options()
    @design_options
    @algorithm_options
    @outputs_option
    def from_robot(robot: Any, region: Any, *, rest: dict[str, Any], **request: Any) -> Any:
        build = functools.partial(built_as_asked, robot, region, **request)
        return command(
            ReportSubject(
                lambda progress: build(progress=progress), functools.partial(_compared, robot, region, request)
            ),
            **rest,
        )

    @functools.wraps(command)
    def chosen(robot: str, **options: Any) -> Any:
        own = {parameter.name for parameter in command.__dict__.get("__click_params__", ())}
        rest = {name: options.pop(name) for name in own}
        if not _is_design(robot):
            return from_robot(robot, rest=rest, **options)
        _refuse_beside_a_design(own)
        return command(ReportSubject(functools.partial(_kept, robot)), **rest)

    chosen.__dict__["__click_params__"] = [
        *command.__dict__.get("__click_params__", ()),
        *from_robot.__dict__["__click_params__"],
    ]
    return chosen


def _kept(folder: str, progress: TerminalProgress) -> Design[Pipeline]:
    from dynagate.design.files import load_datapath
    from dynagate.hw.rebuild import rebuild

    return rebuild(folder, progress, record=load_datapath(folder))


def _compared(robot: Any, region: Any, request: dict[str, Any], progress: TerminalProgress) -> str:
    """Return the comparison as a text. Raise UsageError if an option says more than functions and interval."""
    from dynagate.hw.plan.together import compare

    context = click.get_current_context()
    is_default = context.get_parameter_source("name") is not ParameterSource.COMMANDLINE
    name = ALL if is_default else request["name"]
    return compare(robot, name, ii=request["ii"], region=region, progress=progress).text()


def _check_compared(subject: ReportSubject) -> None:
    """Raise UsageError for a comparison of a folder, of one function, or with options of a single design."""
    if subject.compare is None:
        raise UsageError("--show together needs a robot, not the folder of a design", code="DG-CLI-017")
    context = click.get_current_context()
    name = context.params["name"]
    if context.get_parameter_source("name") is ParameterSource.COMMANDLINE and not parts_of(name):
        raise UsageError(
            f"--function {name} with --show together; expected several, with commas between, or {ALL}",
            code="DG-CLI-018",
        )
    if option := first_given(OF_A_DESIGN):
        raise UsageError(f"{option} with --show together; expected only --function and --ii", code="DG-CLI-019")


def _refuse_beside_a_design(own: set[str | None]) -> None:
    """Raises UsageError: an option of what to build, where it has been built."""
    if option := first_given({each.name for each in click.get_current_context().command.params} - own):
        raise UsageError(
            f"{option} with the folder of a design; expected a robot, or only the folder: the design is already built",
            code="DG-CLI-020",
        )


def shown(file: Path, *, opened: bool) -> None:
    """Print where a file lies, and open it in the browser."""
    click.echo(file)
    if opened and not webbrowser.open(file.resolve().as_uri()):
        raise CommandError(f"no browser to open {file} with; open it by hand", code="DG-CLI-021")


def _checked_output(output: Path | None, show: str, opened: bool) -> Path | None:
    """Return the file to write, once the options fit what is shown."""
    context, suffix = click.get_current_context(), VIEWS[show]
    if show != "waves" and (option := first_given({"samples", "seed"})):
        raise UsageError(f"{option} needs --show waves", code="DG-CLI-022")
    if opened and show not in ("page", "schedule"):
        raise UsageError("--open needs --show page or --show schedule", code="DG-CLI-023")
    if output is None:
        return None
    if not suffix:
        raise UsageError(f"--output with --show {show}; expected it left out: the result is printed", code="DG-CLI-024")
    parameter = next(each for each in context.command.params if each.name == "output")
    return parameters.File(suffix).convert(output, parameter, context)


@dataclass(frozen=True)
class ReportOptions:
    """Kind of report, and the file that it is written to."""

    show: str = option(
        "Write an HTML page, print the schedule, write waveforms, or compare one datapath with separate ones.",
        "page",
        choices=tuple(VIEWS),
    )
    output: Path | None = option(
        "Write this file: .html, .svg or .vcd."
        "  [default: report.html, schedule.svg or wave.vcd in the design's folder]",
        None,
        unit="FILE",
        type=parameters.File(),
    )
    opened: bool = option("Show the page, or a drawing of the schedule, in the browser.", False, name="--open")
    samples: int = option("Simulate this many random states with --show waves.", 2, most=MOST_SAMPLES)


@groups.command(
    short_help="Show a design: page, schedule, waveforms, comparison.",
    epilog=examples(
        "report iiwa14 --ii 8 --error 1e-3 --open",
        "report two_joint_arm --show schedule --ii 2",
        "report two_joint_arm --show waves --samples 4",
        "report iiwa14 --show together --ii 8",
    ),
)
@needs("hw", "amaranth", "scipy", "jinja2")
@design_argument
@options_of(ReportOptions)
@seed_option
def report(subject: ReportSubject, options: ReportOptions, seed: int) -> None:
    """Show a design: its page, its schedule, its waveforms, or what several functions cost in one datapath.

    The argument is the folder of a design, or a robot, which is built first.

    \b
    page      robot, datapath, schedule, units, widths, errors and resources as one HTML file; needs no network
    schedule  when each pass works, and the chain of pivots cycle by cycle; with --output or --open a drawing
    waves     what every node does, as a VCD file, with a GTKWave file that groups nodes by pass and link
    together  what datapaths of single functions of ROBOT cost, and one of all of them"""
    from dynagate.cli.progress import TerminalProgress

    show, opened = options.show, options.opened
    output = _checked_output(options.output, show, opened)
    if show == "together":
        _check_compared(subject)
        assert subject.compare is not None
        with TerminalProgress() as progress:
            text = subject.compare(progress)
        click.echo(text)
        return
    with TerminalProgress() as progress:
        built = subject.build(progress)
        if show == "page":
            _write_page(built, output, opened, progress)
        elif show == "waves":
            _write_waves(built, output, options.samples, seed, progress)
    if show == "schedule":
        _print_schedule(built, output, opened)


def _write_page(built: Design[Pipeline], output: Path | None, opened: bool, progress: TerminalProgress) -> None:
    progress("drawing the page")
    from dynagate.views.page import page

    text, target = page(built), output or built.folder / "report.html"
    write_text(target, text)
    shown(target, opened=opened)


def _print_schedule(built: Design[Pipeline], output: Path | None, opened: bool) -> None:
    from dynagate.hw.plan.timeline import text
    from dynagate.views.gantt import draw_schedule

    click.echo(text(built.robot.name, built.hardware.plan))
    if output or opened:
        target = output or built.folder / "schedule.svg"
        write_text(target, draw_schedule(built.robot.name, built.hardware.plan) + "\n")
        shown(target, opened=opened)


def _write_waves(
    built: Design[Pipeline], output: Path | None, samples: int, seed: int, progress: TerminalProgress
) -> None:
    progress(f"simulating {samples} samples")
    from dynagate.sim.waveform import write_waves

    inputs = built.region.states(built.graph, samples, seed)
    files = write_waves(built, inputs, output or built.folder / "wave.vcd")
    for file in files:
        click.echo(file)
    click.echo(f"gtkwave {files[-1]}", err=True)
