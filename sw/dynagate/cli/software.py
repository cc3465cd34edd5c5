"""Commands that hardware is not needed for: info, emit, bench."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynagate.base.errors import ArgumentError
from dynagate.base.option import option
from dynagate.base.storage import read_file
from dynagate.bench.options import BenchOptions
from dynagate.cli import parameters
from dynagate.cli.extras import needs, require
from dynagate.cli.fields import Command, options_of
from dynagate.cli.groups import command
from dynagate.cli.options import (
    algorithm_options,
    examples,
    folder_option,
    function_option,
    integer_options,
    outputs_option,
)
from dynagate.cli.output import is_special, write_text, written_together
from dynagate.cli.refusals import CommandError, UsageError
from dynagate.cli.robot import first_given, region_options, robot_options
from dynagate.cli.rollout import step_options
from dynagate.design.files import content_hash
from dynagate.dynamics import ROLLOUT
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.certificate import CERTIFICATE
from dynagate.graph.region import Region
from dynagate.native.platforms import PLATFORMS
from dynagate.robot import Robot

if TYPE_CHECKING:
    from dynagate.cli.progress import TerminalProgress
    from dynagate.fixedpoint.wordlength.goal import Goal
    from dynagate.graph import Graph

CHECKSUM = "checksum"
"""Entry of a file of figures that an interrupted run goes on with: the sha256 of all other entries."""
TESTED_SPEED = 1.0
"""rad/s or m/s, of the states in the test vector of --single."""


@command(
    short_help="List what each function costs, in each form.",
    epilog=examples("info iiwa14", "info my_robot.urdf --function rnea", "info my_robot.urdf --form aba --json"),
)
@robot_options
@region_options(usual=True)
@function_option("Show only this function", default=None)
@algorithm_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def info(robot: Robot, region: Region, name: str | None, as_json: bool, algorithm: AlgorithmOptions) -> None:
    """Print what each function of ROBOT costs in each of its forms: operations, depth, float32 error."""
    from dynagate.cli.info import describe, table
    from dynagate.cli.progress import TerminalProgress

    with TerminalProgress() as progress:
        rows = describe(robot, region, function=name, algorithm=algorithm, progress=progress)
    click.echo(json.dumps([row.as_dict() for row in rows], indent=1) if as_json else table(robot, rows))


@dataclass(frozen=True)
class EmitOptions:
    """Kind of the source that is written."""

    cuda: bool = option("Write CUDA, float32, instead of C.", False)
    integers: bool = option("Write C without floats: the integers of a datapath, one state.", False)
    single: str | None = option("Write small C for one state, in this type.", None, choices=("float32", "float64"))
    pack: bool = option("Leave out entries that are always zero or equal to an earlier entry.", False)
    cmake: Path | None = option(
        "Write a CMake project of C and C++17 into this folder, instead of --folder.",
        None,
        unit="FOLDER",
        type=parameters.Folder(),
    )
    fmu: Path | None = option(
        "Write a functional mock-up unit of FMI 3.0 into this file, with the steps of --dt, instead of --folder.",
        None,
        unit="FILE",
        type=parameters.File(".fmu"),
    )
    platforms: tuple[str, ...] = option(
        "Put a binary for this system into the file of --fmu, by default only for this computer (repeatable).",
        (),
        name="--platform",
        choices=tuple(PLATFORMS),
    )

    def __post_init__(self) -> None:
        for name in ("integers", "single", "cmake", "fmu"):
            for other in ("single", "cuda", "pack", "integers", "cmake"):
                if name != other and getattr(self, name) and getattr(self, other):
                    raise ArgumentError(f"{name} and {other} are both given; expected one", code="DG-CLI-072")
        if self.platforms and self.fmu is None:
            raise ArgumentError("platforms without fmu; expected both: other files are sources", code="DG-CLI-108")


def of_steps(command: Command) -> Command:
    """With --fmu the function is "step", which has the options of time steps."""

    @functools.wraps(command)
    def checked(*robot: Any, options: EmitOptions, **rest: Any) -> Any:
        if options.fmu is not None:
            if first_given({"name"}) and rest["name"] != "step":
                raise UsageError(
                    "--fmu and --function are both given; expected one: a unit has its own functions", code="DG-CLI-073"
                )
            rest["name"] = "step"
        return command(*robot, options=options, **rest)

    return checked


@command(
    short_help="Write a function as C or CUDA source.",
    epilog=examples(
        "emit iiwa14 --folder generated",
        "emit iiwa14 --cmake iiwa14_cpp",
        "emit iiwa14 --cmake rollout --function rollout --dt 0.01 --integrator rk4",
        "emit iiwa14 --fmu iiwa14.fmu --dt 0.001 --integrator rk4 --platform x86_64-linux --platform x86_64-windows",
        "emit iiwa14 --function forward_dynamics --cuda --folder cuda",
        "emit iiwa14 --function inverse_dynamics --integers --word 24 --folder integers",
        "emit iiwa14 --function inverse_dynamics --single float32 --folder single",
    ),
)
@robot_options
@region_options(only_with="integers")
@function_option("Write this function", motions=True)
@options_of(EmitOptions)
@of_steps
@algorithm_options
@step_options
@outputs_option
@integer_options
@folder_option("Write the files into this folder.")
def emit(
    robot: Robot,
    region: Region | None,
    name: str,
    options: EmitOptions,
    folder: Path | None,
    algorithm: AlgorithmOptions,
    **formats: Any,
) -> None:
    """Write a function of ROBOT as C, for programs without Python (examples/c), and print the files.

    --cmake writes a CMake project with a C++17 header, a test and an example, whose C has no extensions.
    --fmu writes a unit for simulators such as OpenModelica, Simulink and Gazebo.

    Options of the region and of formats, such as --velocity, --word or --certificate, need --integers."""
    from dynagate.cli.progress import TerminalProgress
    from dynagate.dynamics.functions.record import SCAN
    from dynagate.graph import trace
    from dynagate.graph.certificate import check_certificate
    from dynagate.integrators.design_graph import graph_of, region_of_steps

    target = _target(folder, options)
    if name == ROLLOUT and region is None:
        _write_rollout(robot, options, algorithm, target)
        return
    if options.fmu is not None:
        _write_fmu(robot, algorithm, options.fmu, options.platforms)
        return
    if formats["goal"] is not None:
        require("--error", "hw", "scipy")
    if formats["certificate"]:
        check_certificate(name, algorithm, robot)
    if algorithm.form == SCAN:
        unfit: dict[str, Any] = {"--integers": options.integers, "--single": options.single, "--cmake": options.cmake}
        unfit["--outputs"] = algorithm.outputs
        for other, value in unfit.items():
            if value:
                raise UsageError(f"--form {SCAN} and {other} are both given; expected one", code="DG-CLI-074")
    with TerminalProgress() as progress:
        progress(f"tracing {robot.name} {name}")
        if algorithm.form == SCAN:
            _write(target, _scan(robot, name, options.cuda, algorithm))
            return
        if region is not None:
            graph = graph_of(robot, name, algorithm)
            _write(target, _integers(graph, region_of_steps(region, algorithm), progress, **formats))
        else:
            _write(target, _floats(trace(robot, name, algorithm), robot, options, algorithm, progress))


def _target(folder: Path | None, options: EmitOptions) -> Path:
    """Return the folder or file that is written.

    Raises:
        UsageError: The command line names none, or several.
    """
    targets = {"--folder": folder, "--cmake": options.cmake, "--fmu": options.fmu}
    named = [name for name, value in targets.items() if value]
    if len(named) > 1:
        raise UsageError(
            f"{' and '.join(named)} are all given; expected one: each names what is written", code="DG-CLI-075"
        )
    target = folder or options.cmake or options.fmu
    if target is None:
        raise UsageError(
            "Missing option '--folder'; expected --folder FOLDER, --cmake FOLDER or --fmu FILE", code="DG-CLI-076"
        )
    return target


def _write_rollout(robot: Robot, options: EmitOptions, algorithm: AlgorithmOptions, folder: Path) -> None:
    """Write a rollout as a CMake project, and print the files."""
    from dynagate.cli.progress import TerminalProgress
    from dynagate.dynamics.steps.step import DEFAULT_STEP
    from dynagate.host.rollouts import Rollout

    if options.cmake is None:
        raise UsageError(
            f"--function {ROLLOUT} without --cmake or --integers; expected one of them: no other option writes loops",
            code="DG-CLI-077",
        )
    if algorithm.variable_dt or algorithm.tolerance is not None:
        raise UsageError("--variable-dt or --tolerance with --cmake; expected them left out", code="DG-CLI-078")
    with TerminalProgress() as progress:
        progress(f"tracing {robot.name} {ROLLOUT}")
        rollout = Rollout(
            robot,
            1,
            DEFAULT_STEP if algorithm.dt is None else algorithm.dt,
            integrator=algorithm.integrator,
            form=algorithm.form,
            forces=algorithm.forces,
            linearize=algorithm.linearize,
            implicit_damping=algorithm.implicit_damping,
            constrained=algorithm.constrained,
            device="numpy",
        )
        progress("writing C")
        with written_together(folder) as scratch:
            files = rollout.write_cmake(scratch, Region.of(robot, velocity=TESTED_SPEED))
    for file in files:
        click.echo(folder / file.name)


def _write_fmu(robot: Robot, algorithm: AlgorithmOptions, file: Path, platforms: Sequence[str]) -> None:
    from dynagate.cli.progress import TerminalProgress
    from dynagate.native.fmu import Fmu

    with TerminalProgress() as progress, written_together(file.resolve().parent) as scratch:
        unit = Fmu(robot, algorithm)
        progress(f"tracing and compiling {robot.name}")
        unit.write(scratch / file.name, platforms)
    click.echo(file)


def _floats(
    graph: Graph, robot: Robot, options: EmitOptions, algorithm: AlgorithmOptions, progress: TerminalProgress
) -> Mapping[str, str]:
    """Return the files of a function in floating point, by name."""
    from dynagate.graph.packing import packed
    from dynagate.graph.single_precision import check_single_precision
    from dynagate.native.cuda import emit_cuda
    from dynagate.native.emit import emit as emitted
    from dynagate.native.package import graph_package
    from dynagate.native.package_files import package_files
    from dynagate.native.single import emit_single
    from dynagate.native.source import kernel_name

    if options.single != "float64":
        only_single = options.cuda or options.single is not None
        check_single_precision(robot, graph, algorithm, warns=not only_single)
    progress(f"writing {'CUDA' if options.cuda else 'C'}")
    if options.cmake is not None:
        return package_files(graph_package(graph, robot, Region.of(robot, velocity=TESTED_SPEED)))
    if options.single is not None:
        return emit_single(graph, Region.of(robot, velocity=TESTED_SPEED), options.single)
    packing = None
    if options.pack:
        graph, packing = packed(graph)
    if options.cuda:
        return {f"{kernel_name(graph)}.cu": emit_cuda(graph, packing=packing)}
    return emitted(graph, packing).files


def _write(folder: Path, files: Mapping[str, str]) -> None:
    with written_together(folder) as scratch:
        for file, text in files.items():
            (scratch / file).write_text(text)
    for file in files:
        click.echo(folder / file)


def _scan(robot: Robot, name: str, cuda: bool, algorithm: AlgorithmOptions) -> dict[str, str]:
    """C or CUDA of a loop over links."""
    from dynagate.graph.scan_trace import trace_scan
    from dynagate.native.cuda_loop import emit_cuda_loop
    from dynagate.native.loop import emit_loop
    from dynagate.native.source import kernel_name

    loop = trace_scan(robot, name, forces=algorithm.forces)
    return {f"{kernel_name(loop)}.cu": emit_cuda_loop(loop)} if cuda else dict(emit_loop(loop).files)


def _integers(
    graph: Graph,
    region: Region,
    progress: TerminalProgress,
    *,
    word: int,
    goal: Goal | None,
    formats: Path | None,
    proved: bool,
    certificate: bool,
) -> dict[str, str]:
    """The C file of a graph in formats chosen as for a datapath."""
    from dynagate.fixedpoint.assign import PROVED, SAMPLED, Policy, assign
    from dynagate.fixedpoint.emit import emit_integers
    from dynagate.fixedpoint.models.files import read_formats
    from dynagate.fixedpoint.proof.certificate import certified
    from dynagate.fixedpoint.proof.error_bounds import proved_and_sampled
    from dynagate.integrators.step import CARRY

    progress("choosing formats")
    policy = Policy(word=word, ranges=PROVED if proved else SAMPLED)
    if goal is not None:
        from dynagate.fixedpoint.wordlength.optimize import optimize

        formatted = optimize(graph, region, goal).formatted
    elif formats is not None:
        formatted = read_formats(graph, formats)
    else:
        formatted = assign(graph, region, policy)
    known: dict[str, str] = {}
    if proved:
        progress("proving ranges and errors")
        shown = proved_and_sampled(formatted, region, policy)
        known = {name: block.text() for name, block in shown.blocks.items()} | {"ranges": shown.text()}
    if certificate:
        progress("bounding the errors of results")
        formatted, content = certified(formatted, region, policy)
        known[CERTIFICATE] = content.text()
    progress("writing C of integers")
    return emit_integers(formatted, region, known, CARRY if graph.name == ROLLOUT else {})


@dataclass(frozen=True)
class BenchOutput:
    """Files that the figures of a comparison are written to."""

    json_file: Path | None = option(
        "Write the figures as JSON after each part. The same command continues an interrupted run.",
        None,
        name="--json",
        unit="FILE",
        type=parameters.File(),
    )
    record_file: Path | None = option(
        "Add the figures to FILE with machine, date, commit and command, as docs/figures.json has them.",
        None,
        name="--record",
        unit="FILE",
        type=parameters.File(),
    )
    figures: Path | None = option(
        "Draw three figures as SVG into this folder.", None, unit="FOLDER", type=parameters.Folder()
    )


@command(
    short_help="Measure the gradient on every available device.",
    epilog=examples(
        "bench iiwa14 --no-pinocchio",
        "bench iiwa14 --boards",
        "bench iiwa14 --batch 256 --batch 4096 --json figures.json",
    ),
)
@needs("bench", "amaranth", "scipy")
@robot_options
@region_options()
@options_of(BenchOutput, "output")
@options_of(BenchOptions)
@click.option("--boards", "boards_alone", is_flag=True, help="Model the boards and measure their driver, nothing else.")
def bench(robot: Robot, region: Region, options: BenchOptions, output: BenchOutput, boards_alone: bool) -> None:
    """Measure the gradient of ROBOT's forward dynamics on every available device, compared with Pinocchio.

    For each board, the output has the shortest interval that fits, the modeled rates of datapath and link, and the
    measured time of the driver on this computer.
    """
    if boards_alone:
        _refuse_beside_boards()

    from dynagate.bench import record, report
    from dynagate.bench.boards import board_rows, board_table
    from dynagate.bench.comparison import compare
    from dynagate.bench.cores import core_rows, core_table
    from dynagate.cli.progress import TerminalProgress

    json_file, record_file = output.json_file, output.record_file
    if record_file and record_file.exists():
        record.read(record_file)
    result: dict[str, Any] = {"robot": robot.name}

    def keep(figures_so_far: dict[str, Any]) -> None:
        if json_file and not is_special(json_file):
            as_read = json.loads(json.dumps(figures_so_far))
            _write_json(json_file, {**as_read, CHECKSUM: content_hash(as_read)})

    with TerminalProgress() as progress:
        if not boards_alone:
            result = compare(
                robot,
                region,
                options,
                progress=progress,
                begun=_begun(json_file),
                keep=keep,
            )
        tables = []
        if not isinstance(result.get("fpga_modeled"), str):  # else datapaths are left out
            rows = board_rows(robot, region, progress=progress)
            programs = core_rows(robot, region, progress=progress)
            tables = [board_table(rows), core_table(programs)]
            result["boards_modeled"] = [asdict(row) for row in rows]
            result["cores_modeled"] = [asdict(row) for row in programs]
    if not boards_alone:
        tables = [report.text(result) + "\n", *tables]
    for table in tables:
        click.echo(table)
    if json_file:
        _write_json(json_file, result)
    if record_file:
        write_text(record_file, record.added(result, record_file, " ".join(["dynagate", *sys.argv[1:]])))
    if output.figures:
        from dynagate.bench.figures import figures as draw_figures

        with written_together(output.figures) as scratch:
            draw_figures(result, scratch)


def _write_json(json_file: Path, result: dict[str, Any]) -> None:
    write_text(json_file, json.dumps(result, indent=1) + "\n")


def _begun(json_file: Path | None) -> dict[str, Any] | None:
    """Return the figures that an interrupted run left in the file, or None without any.

    Raises:
        ClickException: The figures are not those that the run wrote.
    """
    try:
        content = None if json_file is None or is_special(json_file) else json.loads(read_file(json_file).decode())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or "asked" not in content:
        return None
    checksum = content.pop(CHECKSUM, None)
    if checksum != content_hash(content):
        raise CommandError(
            f"{json_file} was changed after an interrupted run wrote it: its checksum is {checksum!s:.16}, its content "
            f"has {content_hash(content):.16}; expected the file as it was, or another --json for a new run",
            code="DG-CLI-079",
        )
    return content


def _refuse_beside_boards() -> None:
    """Raises UsageError: an option of a measurement that --boards leaves out."""
    option = first_given(
        ("figures", "record_file", "batches", "threads", "ii", "no_pinocchio", "pinocchio_float32", "everything")
    )
    if option:
        raise UsageError(
            f"--boards and {option} are both given; expected one: the boards need no {option}", code="DG-CLI-080"
        )
