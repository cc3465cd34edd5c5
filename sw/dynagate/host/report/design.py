"""Build a design, run it in simulation, and report how its results compare with the other ways to compute them."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import cast

from dynagate.base.progress import Progress, quiet
from dynagate.dynamics import ROLLOUT
from dynagate.fixedpoint.models.files import FORMATS
from dynagate.host.function import Function
from dynagate.host.opening import open
from dynagate.host.report.bodies import BodySection, ProgramSection, body_of
from dynagate.host.report.functions import counts_of, measure_functions
from dynagate.host.report.motions import (
    SolvedSteps,
    compared_motion,
    joined,
    run_steps,
    start_inputs,
    step_text,
)
from dynagate.host.report.sections import Report, Section, TextSection, labeled
from dynagate.host.report.solvers import measure_solver
from dynagate.host.report.trials import SolverTrial
from dynagate.host.rollout_device import RolloutDevice
from dynagate.hw.bodies.program import build_program, build_solver
from dynagate.hw.build import build_request
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.request import DesignRequest
from dynagate.integrators.chip_motion import FAILURES


@dataclass(frozen=True)
class Checks:
    """How much of a design is checked."""

    states: int = 1024
    """Number of uniform states of a function, trajectories of a rollout, or problems of a solver."""
    steps: int = 50
    """Number of steps of each trajectory."""
    seed: int = 1
    """Seed of the states."""


def report_design(
    request: DesignRequest,
    units: int | Core | None = None,
    *,
    folder: str | PathLike[str],
    checks: Checks = Checks(),
    progress: Progress = quiet,
) -> Report:
    """Build a design, run it in simulation, and compare every result with the integers and with float64.

    A design of functions computes uniform states, a quarter as many at the limits of the region and as many near rest.
    A design of rollouts computes trajectories, a third each from states of each kind.

    Args:
        request: The design.
        units: A core or its number of units, for a program; None for a pipelined datapath.
        folder: Folder that designs are kept in.
        checks: How much is checked.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The report.

    Raises:
        ArgumentError: As `dynagate.build` and `dynagate.open`.
    """
    if units is None:
        body = body_of(build_request(request, folder=folder, progress=progress))
    else:
        body = body_of(build_program(request, units, folder=Path(folder), progress=progress))
    built = body.built
    title = f"{built.robot.name} {built.function}, {body.words}"
    if built.function == ROLLOUT:
        return Report(f"{title}, {step_text(built.design.options)}", _motion_sections(body, checks, progress))
    with open(built, progress=progress) as device:
        measured = measure_functions(
            built,
            body.functions,
            cast(Function, device),
            counts_of(checks.states),
            seed=checks.seed,
            goal=request.goal,
            progress=progress,
        )
    return Report(title, (body, body.pace_of_functions(measured), measured))


def _motion_sections(body: BodySection, checks: Checks, progress: Progress) -> tuple[Section, ...]:
    """Run trajectories on a rollout design, and compare them."""
    built = body.built
    starts = start_inputs(built, checks.states, checks.steps, checks.seed)
    arrays = joined(starts)
    with open(built, progress=progress) as opened, open(built, device="fixed") as fixed:
        chip, integers = (cast(RolloutDevice, each).device for each in (opened, fixed))
        progress(f"streaming {len(arrays['q'])} trajectories of {checks.steps} steps")
        simulated = run_steps(chip, arrays)
        sections: list[Section] = [body, body.pace_of_motion(chip, arrays, progress)]
        progress("comparing")
        measured = compared_motion(built, integers, starts, simulated)
    if FAILURES in simulated.values:
        sections.append(SolvedSteps.of(simulated, built.design.options["tolerance"]))
    return (*sections, measured)


def report_solver(
    trial: SolverTrial,
    units: int | Core,
    *,
    folder: str | PathLike[str],
    word: int,
    formats: str | PathLike[str] | None = None,
    words: str | None = None,
    samples_per_run: int | None = None,
    checks: Checks = Checks(states=8),
    progress: Progress = quiet,
) -> Report:
    """Build a solver's program, solve problems on a simulated core, and compare with the integers and with float64.

    Args:
        trial: The solver and its problems.
        units: A core, or its number of units.
        folder: Folder that designs are kept in.
        word: Word length of the core in bits.
        formats: File of formats. Unless given, problems choose the formats.
        words: Number format of the streams.
        samples_per_run: Number of samples in lanes, for a solver that has samples.
        checks: How many problems are solved.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The report.

    Raises:
        ArgumentError: As `build_solver` and `dynagate.open`.
    """
    known = trial.problems(trial.format_problems, checks.seed + 1) if formats is None else {}
    built = build_solver(
        trial.solver,
        known,
        units,
        word=word,
        folder=Path(folder),
        region=trial.region,
        samples_per_run=samples_per_run,
        formats=formats,
        words=words,
        progress=progress,
    )
    pace, measured = measure_solver(built, trial, checks.states, checks.seed, progress)
    body, instructions = ProgramSection(built), built.hardware.schedule.instructions
    kept = f"{instructions.kept} of {1 << built.hardware.core.iteration_bits} values of iterations"
    return Report(
        f"{built.robot.name} {built.function}, {trial.title}, {body.words}",
        (
            TextSection(labeled({"formats": str(built.folder / FORMATS)})),
            body,
            TextSection(labeled({"kept": kept})),
            pace,
            measured,
        ),
    )
