"""The `dynagate` command."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from dynagate import __version__, robots
from dynagate.algorithms import FUNCTIONS
from dynagate.region import Region
from dynagate.robot import Robot


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """URDF in, verified dynamics accelerator out."""


def _robot_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The robot and the states it is asked about: command gets them as a Robot and a Region."""

    @functools.wraps(command)
    def loaded(robot: str, lock: Sequence[str], **rest: Any) -> Any:
        reading = {name: rest.pop(name) for name in ("floating_base", "allow_unphysical", "ignore_friction")}
        texts = {name: rest.pop(name) for name in ("velocity", "acceleration", "effort")}
        with _readable_errors():
            found = robots.load(robot, lock=_named_numbers("lock", lock), **reading)
            limits: dict[str, Any] = {
                name: "limits" if name == "effort" and given == ("limits",) else _one_or_named(name, "joints", given)
                for name, given in texts.items()
            }
            return command(found, Region.of(found, **limits), **rest)

    return _with(
        loaded,
        click.argument("robot"),
        click.option("--floating-base", is_flag=True, help="The root link moves freely instead of being the base."),
        click.option("--lock", multiple=True, metavar="JOINT=POSITION", help="Hold a joint, as if it were fixed."),
        click.option(
            "--velocity",
            multiple=True,
            metavar="[JOINT=]LIMIT",
            help="Speeds to count on instead of the file's limits, rad/s or m/s.",
        ),
        click.option(
            "--acceleration",
            multiple=True,
            metavar="[JOINT=]LIMIT",
            help="Accelerations to count on instead of 10 rad/s² or m/s²; torques are what they take.",
        ),
        click.option(
            "--effort",
            multiple=True,
            metavar="limits | [JOINT=]LIMIT",
            help="Torques to count on instead, N m or N: the file's limits, or these.",
        ),
        click.option("--allow-unphysical", is_flag=True, help="Accept inertias that no body has."),
        click.option("--ignore-friction", is_flag=True, help="Leave out Coulomb friction."),
    )


def _design_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return _with(
        command,
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
            "--error",
            "errors",
            multiple=True,
            metavar="[BLOCK=]NUMBER",
            help="Find words for this relative L2 error of 99.9 % of the states, of all output blocks or of some.",
        ),
        click.option(
            "--target",
            default="DSP48E2",
            show_default=True,
            help="With --error, the multiplier to fill: DSP48E2, DSP48E1 or 18x18.",
        ),
        click.option(
            "--stages", multiple=True, metavar="multiply=N | add=N", help="More registers behind products, sums."
        ),
        click.option("--formats", type=click.Path(path_type=Path), help="Take the formats from this file."),
        click.option(
            "--folder",
            default=Path("build/designs"),
            type=click.Path(path_type=Path),
            show_default=True,
            help="Where designs are kept.",
        ),
    )


def _algorithm_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets them as one mapping, `algorithm`."""

    @functools.wraps(command)
    def gathered(*robot: Any, form: str | None, frame: str | None, mass: str | None, prefix: bool, **rest: Any) -> Any:
        link = frame is not None and frame.lstrip("-").isdigit()
        given = {"form": form, "frame": int(frame) if frame is not None and link else frame, "mass": mass}
        given["prefix"] = prefix or None
        return command(*robot, algorithm={key: value for key, value in given.items() if value is not None}, **rest)

    return _with(
        gathered,
        click.option("--form", default=None, help="Algorithm that computes the function; its first form by default."),
        click.option(
            "--frame", default=None, help="Frame of the gradients: base, middle, fewest, accurate, a link index."
        ),
        click.option("--mass", default=None, help="Where the gradients take M from: body or shared."),
        click.option("--prefix", is_flag=True, help="Gradients with prefix products and sums: fewer levels."),
    )


def _with(command: Callable[..., Any], *options: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def _named_numbers(option: str, texts: Iterable[str]) -> dict[str, float]:
    """NAME=NUMBER each; a number alone is under the empty name."""
    found = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            found[name] = float(number)
        except ValueError:
            raise ValueError(f"--{option} {text}; expected a number after the joint's name and '='") from None
    return found


def _words(option: str, text: str) -> range:
    first, _, last = text.partition(":")
    if not first.isdigit() or not (last or first).isdigit():
        raise ValueError(f"--{option} {text}; expected two numbers such as 12:32")
    return range(int(first), int(last or first) + 1)


def _goal(errors: Sequence[str], target: str) -> Any:
    """What --error and --target ask for, or None."""
    from dynagate.fixedpoint.goal import MULTIPLIERS, Goal

    if target not in MULTIPLIERS:
        raise ValueError(f"--target {target}; expected one of {', '.join(MULTIPLIERS)}")
    limits = _one_or_named("error", "blocks", errors)
    return None if limits is None else Goal(limits, dsp=MULTIPLIERS[target])


def _stages(texts: Sequence[str]) -> Any:
    from dynagate.hw.plan import Stages

    return Stages(**{name: int(number) for name, number in _limited("stages", texts, ("multiply", "add")).items()})


def _limited(option: str, texts: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    """Named numbers, of these names alone."""
    found = _named_numbers(option, texts)
    for name in found:
        if name not in names:
            raise ValueError(f"--{option} {name}; expected {' or '.join(names)}")
    return found


def _one_or_named(option: str, kind: str, texts: Sequence[str]) -> float | dict[str, float] | None:
    """A number for all of a kind, or numbers by name; None where nothing is given."""
    named = _named_numbers(option, texts)
    if "" not in named:
        return named or None
    if len(named) > 1:
        raise ValueError(f"--{option}: one limit for all {kind}, or limits by name; expected not both")
    return named[""]


@main.command()
@_robot_options
@_design_options
@_algorithm_options
@click.option("--axi", type=int, default=None, metavar="BITS", help="Add AXI streams of so many bits, and registers.")
@click.option("--tlast", default="sample", show_default=True, help="With --axi: TLAST per sample or batch.")
@click.option(
    "--budget", "budgets", multiple=True, metavar="dsp=N | lut=N | register_bits=N", help="Refuse to take more."
)
@click.option("--report", is_flag=True, help="Print the datasheet.")
def build(
    robot: Robot, region: Region, axi: int | None, tlast: str, budgets: Sequence[str], report: bool, **given: Any
) -> None:
    """Build the Verilog of ROBOT (a shipped robot's name or a URDF file) and print where it lies."""
    from dynagate.hw.axi import Axi
    from dynagate.hw.cost import Budget
    from dynagate.progress import Steps

    limits = _limited("budget", budgets, ("dsp", "lut", "register_bits"))
    budget = Budget(**{name: int(limit) for name, limit in limits.items()})
    shell = None if axi is None else Axi(axi, tlast)
    with Steps() as step:
        made = _build(robot, region, axi=shell, budget=budget, step=step, **given)
    if report:
        click.echo((made.folder / "datasheet.md").read_text())
    click.echo(made.folder)


def _build(
    robot: Robot,
    region: Region,
    name: str,
    word: int,
    errors: Sequence[str],
    target: str,
    stages: Sequence[str],
    algorithm: dict[str, Any],
    **given: Any,
) -> Any:
    """`dynagate.build` from the options of the command line."""
    from dynagate.fixedpoint.assign import Policy
    from dynagate.hw.build import build as make

    goal = _goal(errors, target)
    policy = Policy(word=word) if goal is None else None
    return make(
        robot,
        name,
        region=region,
        goal=goal,
        policy=policy,
        stages=_stages(stages),
        **given,
        **algorithm,
    )


@main.command()
@_robot_options
@_design_options
@_algorithm_options
@click.option("--family", "families", multiple=True, default=("xcup",), show_default=True, help="xcup, xc7 or ecp5.")
def synth(robot: Robot, region: Region, families: Sequence[str], **given: Any) -> None:
    """Synthesise ROBOT's datapath with Yosys, count what it takes, and check the paths between its registers."""
    from dynagate.hw.synth import synthesise, table
    from dynagate.progress import Steps

    with Steps() as step:
        made = _build(robot, region, step=step, **given)
        found = [synthesise(made, family, step=step) for family in families]
    click.echo(table(made, found))
    click.echo(made.folder)


@main.command()
@_robot_options
@_design_options
@_algorithm_options
@click.option("--states", default=1024, show_default=True, help="Random states to stream.")
@click.option("--seed", default=1, show_default=True, help="Of the states.")
def run(
    robot: Robot,
    region: Region,
    name: str,
    algorithm: dict[str, Any],
    errors: Sequence[str],
    target: str,
    stages: Sequence[str],
    **given: Any,
) -> None:
    """Build ROBOT's accelerator, simulate it, stream random states through it and check every result."""
    from dynagate.host.report import check_on_simulator
    from dynagate.progress import Steps

    given |= {"goal": _goal(errors, target), "stages": _stages(stages), **algorithm}
    with Steps() as step:
        report = check_on_simulator(robot, name, region=region, step=step, **given)
    click.echo(report.text())
    sys.exit(0 if report.passed else 1)


@main.command()
@_robot_options
@_algorithm_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def info(robot: Robot, region: Region, as_json: bool, algorithm: dict[str, Any]) -> None:
    """Print what each function of ROBOT costs in each of its forms: operations, depth, float32 error."""
    from dynagate.info import describe, table

    form = algorithm.pop("form", None)
    rows = [row for row in describe(robot, region, **algorithm) if form in (None, row.form)]
    click.echo(json.dumps([row.as_dict() for row in rows], indent=1) if as_json else table(robot, rows))


@main.command()
@_robot_options
@click.option("--function", "name", default="forward_dynamics_gradient", type=click.Choice(list(FUNCTIONS)))
@_algorithm_options
@click.option("--cuda", is_flag=True, help="Write CUDA, float32, instead of C.")
@click.option("--pack", is_flag=True, help="Leave out entries that are always zero or equal to one before.")
@click.option("--folder", required=True, type=click.Path(path_type=Path), help="Where the files go.")
def emit(
    robot: Robot, region: Region, name: str, cuda: bool, pack: bool, folder: Path, algorithm: dict[str, Any]
) -> None:
    """Write a function of ROBOT as C, for programs without Python (examples/c), and print the files."""
    from dynagate.graph import trace
    from dynagate.graph.packing import packed
    from dynagate.native.cuda import emit_cuda
    from dynagate.native.emit import emit as emitted
    from dynagate.native.emit import kernel_name

    graph, packing = trace(robot, name, **algorithm), None
    if pack:
        graph, packing = packed(graph)
    files = {f"{kernel_name(graph)}.cu": emit_cuda(graph, packing=packing)} if cuda else emitted(graph, packing).files
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text)
        click.echo(folder / file)


@main.command()
@_robot_options
@click.option("--function", "name", default="forward_dynamics_gradient", type=click.Choice(list(FUNCTIONS)))
@_algorithm_options
@click.option("--word", default="12:32", show_default=True, metavar="FIRST:LAST", help="Word lengths.")
@click.option("--policy", "policies", multiple=True, help="global, word or optimised; all unless given.")
@click.option("--states", default=4096, show_default=True, help="Random states per point.")
@click.option("--jobs", default=1, show_default=True, help="Processes.")
@click.option("--backend", default="loky", show_default=True, help="joblib's: loky, or dask or ray for a cluster.")
@click.option("--cluster", default=None, help="Address of the Dask scheduler, with --backend dask.")
@click.option("--folder", required=True, type=click.Path(path_type=Path), help="CSV, JSON, PNG; resumes from it.")
def sweep(
    robot: Robot,
    region: Region,
    name: str,
    word: str,
    policies: Sequence[str],
    states: int,
    jobs: int,
    backend: str,
    cluster: str | None,
    folder: Path,
    algorithm: dict[str, Any],
) -> None:
    """Measure error and cost over word lengths and policies."""
    from contextlib import nullcontext
    from dataclasses import asdict

    from dynagate.fixedpoint.sweep import POLICIES, draw, write_csv
    from dynagate.fixedpoint.sweep import sweep as swept
    from dynagate.graph import trace
    from tqdm import tqdm

    words = _words("word", word)
    graph = trace(robot, name, **algorithm)
    client: Any = nullcontext()
    if cluster:
        from distributed import Client

        client = Client(cluster)
    with client, tqdm(unit="point") as bar:

        def step(done: int, of: int) -> None:
            bar.total = of
            bar.update(done - bar.n)

        points = swept(
            graph,
            region,
            words,
            policies or POLICIES,
            states=states,
            jobs=jobs,
            backend=backend,
            results=folder / "points.jsonl",
            step=step,
        )
    write_csv(points, folder / "sweep.csv")
    (folder / "sweep.json").write_text(json.dumps([asdict(point) for point in points], indent=1) + "\n")
    draw(points, f"{robot.name} {name}", folder / "sweep.png")
    click.echo(f"{'policy':<12}{'word':>5}{'median':>10}{'error':>10}{'overflow':>10}{'DSP':>8}{'LUT':>9}{'bits':>9}")
    for p in points:
        click.echo(
            f"{p.policy:<12}{p.word:>5}{p.median:>10.1e}{p.error:>10.1e}{p.overflow:>10.1e}{p.dsp:>8}{p.lut:>9}"
            f"{p.register_bits:>9}"
        )


@main.command("closed-loop")
@_robot_options
@click.option("--global", "global_words", default="17:24", show_default=True, help="Words of one global format.")
@click.option("--word", "own_words", default="8:14", show_default=True, help="Words with a point per node.")
@click.option("--error", "errors", type=float, multiple=True, default=(0.3, 0.1), help="Errors of optimised formats.")
@click.option("--rtl", "rtl_words", type=int, multiple=True, help="Words of datapaths in simulation, in the loop.")
def closed_loop(
    robot: Robot,
    region: Region,
    global_words: str,
    own_words: str,
    errors: Sequence[float],
    rtl_words: Sequence[int],
) -> None:
    """Control ROBOT (iiwa14, two_joint_arm) with derivatives in ever fewer bits, by trajectory optimisation and MPC."""
    try:
        from dynagate.mpc.experiment import REACHES, experiment, table
    except ImportError:
        raise ValueError("the closed loop needs Crocoddyl: pip install 'dynagate[mpc]'") from None
    from dynagate.progress import Steps

    if robot.name not in REACHES:
        raise ValueError(f"no reach is kept for robot '{robot.name}'; expected one of {', '.join(REACHES)}")
    settings: dict[str, Sequence[float]] = {
        "global": _words("global", global_words),
        "word": _words("word", own_words),
        "optimised": errors,
        "rtl": rtl_words,
    }
    with Steps() as step:
        found = experiment(robot, REACHES[robot.name], region, settings, step)
    click.echo(table(*found))


@main.command()
@_robot_options
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Keep the figures as JSON.")
@click.option("--figures", type=click.Path(path_type=Path), help="Draw PNG figures into this folder.")
@click.option("--batch", "batches", type=int, multiple=True, help="Samples in a batch; may be given again.")
@click.option("--threads", default=2, show_default=True, help="Of the threaded measurements.")
@click.option("--ii", default=8, show_default=True, help="Cycles between samples of the modelled datapath.")
@click.option("--no-pinocchio", is_flag=True, help="Leave Pinocchio out, which compiles for minutes the first time.")
@click.option("--pinocchio-float32", is_flag=True, help="Measure the error of its float32 too: 8 GB to compile.")
def bench(
    robot: Robot,
    region: Region,
    json_file: Path | None,
    figures: Path | None,
    batches: Sequence[int],
    threads: int,
    ii: int,
    no_pinocchio: bool,
    pinocchio_float32: bool,
) -> None:
    """Measure the gradient of ROBOT's forward dynamics on every device that is here, beside Pinocchio."""
    from dynagate.bench import report
    from dynagate.bench.comparison import BATCHES, compare
    from dynagate.progress import Steps

    with Steps() as step:
        result = compare(
            robot,
            region,
            batches=batches or BATCHES,
            threads=threads,
            ii=ii,
            pinocchio=not no_pinocchio,
            pinocchio_single=pinocchio_float32,
            step=step,
        )
    if json_file:
        json_file.write_text(json.dumps(result, indent=1) + "\n")
    if figures:
        report.figures(result, figures)
    click.echo(report.text(result))


class _readable_errors:
    """Errors that are the user's to mend, without a traceback."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, ValueError | RuntimeError):
            raise click.ClickException(str(error)) from error
