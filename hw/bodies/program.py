"""Build a program: compile a function or a solver for a processor core and write the folder of its design."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from dynagate.base import storage, untrusted
from dynagate.base.errors import ArgumentError
from dynagate.base.progress import Progress, quiet
from dynagate.control.chip import ChipSolver
from dynagate.design.design import ChosenFormats, DesignRecord
from dynagate.design.files import sealed
from dynagate.design.program import PROGRAM, ProgramBody, ProgramShell, program_digest, words_bytes
from dynagate.design.verilog_list import LIST, list_text
from dynagate.fixedpoint.assign import PROVED, Policy
from dynagate.fixedpoint.format import SATURATE, Arithmetic
from dynagate.fixedpoint.models.files import FORMATS, FormatsFile, described, text_of
from dynagate.fixedpoint.models.loops import FormattedLoop
from dynagate.fixedpoint.proof.error_bounds import proved_and_sampled
from dynagate.fixedpoint.wordlength.confidence import state
from dynagate.fixedpoint.wordlength.goal import Goal
from dynagate.fixedpoint.wordlength.sampled_errors import SampledErrors, sampled_errors
from dynagate.graph.region import Region
from dynagate.graph.steps import GRAPH
from dynagate.hw.bodies.program_datasheet import datasheet
from dynagate.hw.bodies.scheduled_program import ScheduledProgram
from dynagate.hw.designs import BuildError, Contents, Design, in_folder
from dynagate.hw.format_warnings import warn_of_errors, warn_of_placeholders
from dynagate.hw.options import MOST_ITERATIONS
from dynagate.hw.processor.compiled import CompiledProgram, compiled_program
from dynagate.hw.processor.compiler.batched_iterations import batched_iterations, counts
from dynagate.hw.processor.compiler.instructions import SUM, ProgramError
from dynagate.hw.processor.compiler.loops import loop_instructions
from dynagate.hw.processor.compiler.schedule import schedule
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule
from dynagate.hw.processor.compiler.solver import formatted_solver
from dynagate.hw.processor.compiler.spans import latency_spans
from dynagate.hw.processor.compiler.stream_layout import streams_of
from dynagate.hw.processor.compiler.words import messages
from dynagate.hw.processor.core_spec import CoreSpec
from dynagate.hw.processor.isa.packets import Words
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.policy import file_policy, request_policy
from dynagate.hw.processor.streams import TOP, Cores, core_verilog, with_bench_streams
from dynagate.hw.record import record_of
from dynagate.hw.request import DesignRequest
from dynagate.hw.vectors import bench_files
from dynagate.hw.vectors.calls import LONGEST_CALL, solver_vectors
from dynagate.hw.vectors.drawn import Vectors
from dynagate.hw.vectors.programs import program_vectors

ENOUGH = 0.97
"""Largest share of the cycles that may remain for more samples per run to count as faster."""
FEW_STATES = 8192
"""Number of states on which a word length is tried first."""


def build_program(
    request: DesignRequest,
    units: int | Core | Cores,
    *,
    folder: Path,
    progress: Progress = quiet,
) -> Design[ScheduledProgram]:
    """Compile a function for a processor core and write the folder of the design.

    Args:
        request: Robot, function and options.
        units: A core, cores behind one stream, or a number of multiply-add units. For a number, the program is for the
            smallest such core that holds it.
        folder: Parent folder of designs.
        progress: Function that receives a line of text before each slow stage.

    Raises:
        ArgumentError: The request has an option that a processor does not have.
        ProgramError: The program does not fit the core.
    """
    spec = CoreSpec.resolve(units)
    storage.check_folder(folder, BuildError, "programs")
    policy = request_policy(request, spec)
    region = (request.region or Region.of(request.robot)).of_robot(request.robot)
    warn_of_placeholders(region)
    progress(f"tracing {request.robot.name} {request.function}")
    if request.goal is None:
        file = None if request.formats is None else FormatsFile.read(request.formats)
        compiled = compiled_program(request, spec, region, policy, progress, file)
        chosen = _chosen(policy, file, compiled)
        if policy.ranges == PROVED:
            progress("proving ranges and errors")
            (formatted,) = compiled.schedule.instructions.formatted.graphs()
            chosen = replace(chosen, proved=proved_and_sampled(formatted, region, policy).as_dict())
    else:
        compiled, chosen = _accurate(request, request.goal, spec, region, policy, progress)
    scheduled, certificate = compiled.schedule, compiled.certificate
    chosen = replace(chosen, certificate=None if certificate is None else certificate.as_dict())

    def drawn(design: DesignRecord[ProgramBody], words: Words) -> Vectors:
        return program_vectors(design, words, scheduled.instructions.functions, region)

    return _built(
        region,
        compiled,
        chosen,
        folder,
        _Bench(replace(spec.with_shell(scheduled.core), style=request.style), drawn),
        request.samples_per_run,
        progress,
        errors=None if request.goal is not None else _errors(scheduled, region),
    )


def build_solver(
    solver: ChipSolver,
    problems: Mapping[str, Any],
    units: int | Core | Cores,
    *,
    word: int,
    folder: Path,
    region: Region | None = None,
    samples_per_run: int | None = None,
    formats: str | PathLike[str] | None = None,
    words: str | None = None,
    progress: Progress = quiet,
) -> Design[ScheduledProgram]:
    """Compile a solver of optimal control problems for a processor core and write the folder of the design.

    Args:
        solver: The solver.
        problems: Inputs (batch, ·) by name of problems that the formats come from, as in `formatted_solver`. If
            `formats` is given, they are only used for the bench, and may be empty.
        units: A core, cores behind one stream, or a number of multiply-add units.
        word: Word length in bits.
        folder: Parent folder of designs.
        region: Operating region in the record; inside the robot's limits unless given.
        samples_per_run: Samples in lanes, for a solver that has samples; unless given, the number with the fewest
            cycles.
        formats: File of formats to use.
        words: Number format of the streams, "float32" or "fixed".
        progress: Function that receives a line of text before each slow stage.

    Raises:
        ArgumentError: `samples_per_run` does not divide the samples, too few problems have a solution, or the core has
            no such streams.
        FormatsError: The file is for another solver.
        ProgramError: The program, or the values that it keeps for its knots, do not fit the core.
    """
    spec = CoreSpec.resolve(units)
    storage.check_folder(folder, BuildError, "programs")
    _check_plan(solver, spec)
    spec.check_stream_format(words)
    asked = _counts(solver, samples_per_run)
    policy = Policy(word if spec.grows else spec.core.word, arithmetic=Arithmetic(overflow=SATURATE))
    robot, loop = solver.robot, solver.blocks.loop
    region = region or Region.of(robot)
    file = None if formats is None else FormatsFile.read(formats)
    if file is None:
        progress(f"solving {len(next(iter(problems.values())))} problems of {robot.name} in float64")
        formatted = formatted_solver(solver, problems, policy)
    else:
        file.options_of(robot.name, loop.name, solver.described)
        formatted = file.loop(solver.blocks)
        policy = file_policy(formatted.graphs(), spec, policy, file)
    shape = spec.with_functions(f"{robot.name} {loop.name}", list(formatted.graphs()), policy, words)
    progress("fusing and scheduling")
    count, scheduled = _fastest(formatted, solver.samples, asked, shape, spec)
    compiled = CompiledProgram(
        scheduled, {**solver.described, "samples_per_run": count}, described((formatted,), solver.described)
    )

    def drawn(design: DesignRecord[ProgramBody], words: Words) -> Vectors:
        return solver_vectors(design, words, next(scheduled.instructions.formatted.loops()), solver, problems)

    has_bench = bool(problems) and scheduled.period <= LONGEST_CALL
    bench = _Bench(spec.with_shell(scheduled.core), drawn) if has_bench else None
    return _built(region, compiled, _chosen(policy, file, compiled), folder, bench, progress=progress)


def _counts(solver: ChipSolver, samples_per_run: int | None) -> list[int]:
    """Return the numbers of samples per run to try."""
    iterations = {loop.name: loop.max_iterations for loop in solver.blocks.loop.inner_loops()}.get(solver.samples, 1)
    if samples_per_run is None:
        return counts(iterations)
    if type(samples_per_run) is not int or not 1 <= samples_per_run <= MOST_ITERATIONS or iterations % samples_per_run:
        what = (
            f"expected 1 to {MOST_ITERATIONS} that divide its {iterations} samples" if solver.samples else "expected 1"
        )
        raise ArgumentError(
            f"samples_per_run {samples_per_run!r} of {solver.blocks.loop.name}; {what}", code="DG-CORE-001"
        )
    return [samples_per_run]


def _fastest(
    formatted: FormattedLoop, samples: str, counts: Sequence[int], shape: Core, spec: CoreSpec
) -> tuple[int, ProgramSchedule]:
    """Return the number of samples per run with the fewest cycles, and its program.

    The core that holds the program with the first number bounds the others.

    Args:
        formatted: The solver's loop.
        samples: Name of the loop over samples.
        counts: Numbers to try, the smallest first.
        shape: Core to schedule for.
        spec: Limits of the core.

    Raises:
        ProgramError: The program with the first number does not fit.
    """
    fused = formatted.mapped(shape.fused)
    best, *others = counts
    program_of = spec.fitted(schedule(loop_instructions(batched_iterations(fused, samples, best)), shape))
    largest = spec.largest(program_of.core)
    for count in others:
        scheduled = schedule(loop_instructions(batched_iterations(fused, samples, count)), shape)
        if any(need > 1 << getattr(largest, bits) for bits, (_, need) in scheduled.required_capacity.items()):
            break
        scheduled = spec.fitted(scheduled)
        if scheduled.longest > ENOUGH * program_of.longest:
            break
        best, program_of = count, scheduled
    return best, program_of


def _chosen(policy: Policy, file: FormatsFile | None, compiled: CompiledProgram) -> ChosenFormats:
    """Return the record of how formats were chosen without a goal."""
    if file is None:
        return ChosenFormats(policy.word, policy=asdict(policy))
    return ChosenFormats("given", file=compiled.formats)


@dataclass(frozen=True)
class _Bench:
    """The bench of a program."""

    cores: Cores
    """Cores that run the program in the bench."""
    drawn: Callable[[DesignRecord[ProgramBody], Words], Vectors]
    """Function that returns the vectors, given the record and the messages that load the program."""


def _built(
    region: Region,
    compiled: CompiledProgram,
    chosen: ChosenFormats,
    folder: Path,
    bench: _Bench | None = None,
    samples: int = 1,
    progress: Progress = quiet,
    errors: SampledErrors | None = None,
) -> Design[ScheduledProgram]:
    """Write the folder of a program, unless it is there, and return the design. samples: samples per run."""
    robot, scheduled, words = region.robot, compiled.schedule, messages(compiled.schedule)
    cores = None if bench is None else bench.cores
    design = _described(region, compiled.options, chosen, scheduled, words, samples, cores)
    what = "+".join(untrusted.shortened(interface.name) for interface in scheduled.instructions.interfaces)
    more = f"-samples{samples}" if samples > 1 else ""
    name = f"{untrusted.file_name(robot.name)}-{what}-units{scheduled.core.units}{more}"
    place = folder / f"{name}-{design.hash[:12]}"
    result = Design(place, robot, region, design, ScheduledProgram(scheduled))

    def contents() -> Contents:
        files = {} if bench is None else _bench_files(design, words, bench, progress)
        kept = {**files, FORMATS: text_of(compiled.formats)}
        return Contents(kept, datasheet(result, errors), binaries={PROGRAM: words_bytes(words)})

    return in_folder(result, (FORMATS,), contents)


def _errors(scheduled: ProgramSchedule, region: Region) -> SampledErrors | None:
    """Measure the errors of a program of one function in sampled states, and warn if they are large.

    A program with loops has none: its formats come from problems, not from states.
    """
    functions = scheduled.instructions.functions
    if len(functions) != 1 or functions[0].kind != GRAPH:
        return None
    (formatted,) = functions[0].graphs()
    errors = sampled_errors(formatted, region)
    warn_of_errors(f"{region.robot.name} {formatted.graph.name}", errors)
    return errors


def _accurate(
    request: DesignRequest, goal: Goal, spec: CoreSpec, region: Region, policy: Policy, progress: Progress
) -> tuple[CompiledProgram, ChosenFormats]:
    """Return the program with the shortest word that meets a goal, and how its formats were chosen.

    Raises:
        ProgramError: No word length meets the goal.
    """
    fault = ""
    for word in spec.words:
        own = replace(policy, word=word)
        progress(f"words of {word} bits")
        compiled = compiled_program(request, spec, region, own, progress)
        (formatted,) = compiled.schedule.instructions.formatted.graphs()
        for fresh in (min(goal.fresh, FEW_STATES), goal.fresh):  # most words are refused by a few
            statement = state(formatted, region, replace(goal, fresh=fresh))
            fault = next(statement.faults(goal), "")
            if fault:
                break
        else:
            return compiled, ChosenFormats(word, asdict(own), asdict(goal), statement.as_dict())
    raise ProgramError(
        f"{request.robot.name} {request.function} in words of {spec.words[-1]} bits: {fault}; expected a larger error, "
        "or a datapath, which has longer words",
        code="DG-CORE-002",
    )


def _check_plan(solver: ChipSolver, spec: CoreSpec) -> None:
    """Check that the core can keep a solver's plan between calls.

    Raises:
        ProgramError: The plan does not fit, whatever else the program keeps.
    """
    plan = sum(math.prod(port.shape) for port in solver.blocks.loop.inputs if port.name in solver.plan.values())
    room = 1 << spec.largest(spec.core).iteration_bits
    if plan > room:
        knots = solver.options.knots
        raise ProgramError(
            f"a plan of {knots} knots of {solver.robot.name} takes {plan} values of iterations, {plan - room} more "
            f"than the core's {room}; expected at most {room * knots // plan} knots",
            code="DG-CORE-003",
        )


def _described(
    region: Region,
    options: dict[str, Any],
    chosen: ChosenFormats,
    scheduled: ProgramSchedule,
    words: Words,
    samples: int,
    cores: Cores | None,
) -> DesignRecord[ProgramBody]:
    """Return the record of a program."""
    listed = scheduled.instructions.listed
    stream, functions, loop = streams_of(scheduled)
    body = ProgramBody(
        core=asdict(scheduled.core),
        core_hash=scheduled.core.hash,
        period=scheduled.period,
        words=scheduled.words,
        instructions=len(listed),
        functions_used=sum(each.kind != SUM for each in listed),
        places=scheduled.depths,
        program="",
        loop=loop,
        functions=functions,
        samples_per_run=samples,
        shell=None if cores is None else _shell(scheduled, cores),
    )
    design = record_of(
        body,
        region,
        ",".join(interface.name for interface in scheduled.instructions.interfaces),
        options,
        chosen,
        latency=scheduled.cycles,
        stream=stream,
    )
    digest = program_digest(words_bytes(words), design)
    return sealed(replace(design, body=replace(body, program=digest)))


def _shell(scheduled: ProgramSchedule, cores: Cores) -> ProgramShell:
    """Return the description of the shell that the bench simulates."""
    axi = cores.axi
    return ProgramShell(axi.width, axi.last, cores.cores, latency_spans(scheduled, axi.lanes), cores.style)


def _bench_files(design: DesignRecord[ProgramBody], words: Words, bench: _Bench, progress: Progress) -> dict[str, str]:
    """Return the Verilog of the cores and the program's bench, by path in the design's folder."""
    cores = bench.cores
    path = core_verilog(cores.core, cores.axi, cores.cores, style=cores.style, progress=progress)
    verilog = {f"{TOP}.v": path.read_text(encoding="utf-8")}
    progress("vectors and benches")
    none_late = [0] * max(len(design.functions), 1)
    files = bench_files(with_bench_streams(design), none_late, {TOP: bench.drawn(design, words)})
    return {**verilog, LIST: list_text(verilog), **files}
