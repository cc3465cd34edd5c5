"""Robot + function -> a folder with a program for a core: design.json, program.bin and a datasheet."""

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
from dynagate.fixedpoint.proof.error_bounds import beside
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
from dynagate.hw.processor.compiler.spans import spans
from dynagate.hw.processor.compiler.stream_layout import streams_of
from dynagate.hw.processor.compiler.words import messages
from dynagate.hw.processor.core_spec import CoreSpec
from dynagate.hw.processor.isa.packets import Words
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.policy import file_policy, request_policy
from dynagate.hw.processor.streams import TOP, Cores, core_verilog, in_its_shell
from dynagate.hw.record import record_of
from dynagate.hw.request import DesignRequest
from dynagate.hw.vectors import bench_files
from dynagate.hw.vectors.calls import LONGEST_CALL, solver_vectors
from dynagate.hw.vectors.drawn import Vectors
from dynagate.hw.vectors.programs import program_vectors

ENOUGH = 0.97
"""Fraction of the cycles that must remain: a larger batch per run counts as faster only below it."""
FEW_STATES = 8192
"""States that a word is tried on before all."""


def build_program(
    request: DesignRequest,
    units: int | Core | Cores,
    *,
    folder: Path,
    progress: Progress = quiet,
) -> Design[ScheduledProgram]:
    """Write a program into a folder of its own and return it.

    units: a core, cores behind one stream, or a number of units: the program is then for the smallest such core that
    holds it. Raises ValueError: the request has an option that a processor does not have; ProgramError: the program
    does not fit.
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
            chosen = replace(chosen, proved=beside(formatted, region, policy).as_dict())
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
        _Bench(spec.with_shell(scheduled.core), drawn),
        request.samples_per_run,
        progress,
        errors=None if request.goal is not None else _errors(scheduled, region),
    )


def build_solver(
    solver: ChipSolver,
    problems: Mapping[str, Any],
    units: int | Core,
    *,
    word: int,
    folder: Path,
    region: Region | None = None,
    samples_per_run: int | None = None,
    formats: str | PathLike[str] | None = None,
    words: str | None = None,
    progress: Progress = quiet,
) -> Design[ScheduledProgram]:
    """Write the program of a solver for a core, or for the smallest core with a number of units, into a folder of its
    own. problems: those that its formats come from, as `formatted_solver` takes them. region: what the design's
    file says of states; the robot's limits unless given. samples_per_run: samples in one run, for a solver that has
    samples; unless given, the number in `compiler.batched_iterations.counts` with the fewest cycles. formats: a file
    of them instead of problems, which are then not solved, and of which its bench has calls where there are any.
    words: what the core's streams carry, as of `DesignRequest`.

    Raises ValueError as `formatted_solver`, `samples_per_run` does not divide the samples, or the core has no such
    streams; FormatsError: the file is not this solver's; ProgramError: the program, or what it keeps of its knots, does
    not fit.
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
        progress(f"solving {len(problems['q'])} problems of {robot.name} in float64")
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
    """Return the numbers of samples in one run to try. Raises ValueError."""
    iterations = {loop.name: loop.most_turns for loop in solver.blocks.loop.inner_loops()}.get(solver.samples, 1)
    if samples_per_run is None:
        return counts(iterations)
    if type(samples_per_run) is not int or not 1 <= samples_per_run <= MOST_ITERATIONS or iterations % samples_per_run:
        what = (
            f"expected 1 to {MOST_ITERATIONS} that divide its {iterations} samples" if solver.samples else "expected 1"
        )
        raise ArgumentError(f"samples_per_run {samples_per_run!r} of {solver.blocks.loop.name}; {what}")
    return [samples_per_run]


def _fastest(
    formatted: FormattedLoop, samples: str, counts: Sequence[int], shape: Core, spec: CoreSpec
) -> tuple[int, ProgramSchedule]:
    """Return the number of samples per run that takes the fewest cycles, and its program.

    samples: name of the loop over samples. counts: the numbers that are tried, the smallest first. The core that holds
    the program with the first number bounds the others. Raises ProgramError: the first number does not fit.
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
    """How formats were chosen that need no goal."""
    if file is None:
        return ChosenFormats(policy.word, policy=asdict(policy))
    return ChosenFormats("given", file=compiled.formats)


@dataclass(frozen=True)
class _Bench:
    """cores: in which a program's bench runs it. drawn: the vectors, of the design and what loads the program."""

    cores: Cores
    drawn: Callable[[DesignRecord[ProgramBody], Words], Vectors]


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
    """In its folder, unless it is there. samples: in one run."""
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
    """Return the program with the shortest word that meets a goal, and its errors in fresh states. Raises ProgramError:
    no word meets the goal."""
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
        "or a datapath, which has longer words"
    )


def _check_plan(solver: ChipSolver, spec: CoreSpec) -> None:
    """Check the size of a solver's plan, which stays in the core until the next call. Raises ProgramError: the plan
    does not fit, whatever else the program keeps."""
    plan = sum(math.prod(port.shape) for port in solver.blocks.loop.inputs if port.name in solver.plan.values())
    room = 1 << spec.largest(spec.core).turn_bits
    if plan > room:
        knots = solver.options.knots
        raise ProgramError(
            f"a plan of {knots} knots of {solver.robot.name} takes {plan} values of turns, {plan - room} more than "
            f"the core's {room}; expected at most {room * knots // plan} knots"
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
    axi = cores.axi
    return ProgramShell(axi.width, axi.last, cores.cores, spans(scheduled, axi.lanes))


def _bench_files(design: DesignRecord[ProgramBody], words: Words, bench: _Bench, progress: Progress) -> dict[str, str]:
    """The Verilog of cores and the bench that runs a program in them, by their place in the program's folder."""
    cores = bench.cores
    verilog = {
        f"{TOP}.v": core_verilog(cores.core, cores.axi, cores.cores, progress=progress).read_text(encoding="utf-8")
    }
    progress("vectors and benches")
    none_late = [0] * max(len(design.functions), 1)
    files = bench_files(in_its_shell(design), none_late, {TOP: bench.drawn(design, words)})
    return {**verilog, LIST: list_text(verilog), **files}
