"""Compile a request to a program for a core, before the program is described and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dynagate.base.progress import Progress
from dynagate.dynamics import ROLLOUT
from dynagate.fixedpoint.assign import Policy, assign
from dynagate.fixedpoint.formatted import Formatted, FormattedGraph
from dynagate.fixedpoint.models.files import TOLERANCE, FormatsFile, described
from dynagate.fixedpoint.models.loops import FormattedLoop
from dynagate.fixedpoint.proof.certificate import Certificate, ProcessorModel, certified
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import Graph
from dynagate.graph.parts import parts_of
from dynagate.graph.region import Region
from dynagate.graph.steps import GRAPH, LOOP, SCAN, UNTIL, refused, table
from dynagate.hw.processor.compiler.batched_samples import batched_graph
from dynagate.hw.processor.compiler.instructions import Instructions, instructions, together
from dynagate.hw.processor.compiler.loops import loop_instructions
from dynagate.hw.processor.compiler.motion import motion_and_formats
from dynagate.hw.processor.compiler.schedule import schedule
from dynagate.hw.processor.compiler.scheduled import ProgramSchedule
from dynagate.hw.processor.core_spec import CoreSpec
from dynagate.hw.processor.isa.shape import Core
from dynagate.hw.processor.policy import file_policy
from dynagate.hw.request import DesignRequest
from dynagate.integrators.chip_motion import ChipMotion, solves
from dynagate.integrators.design_graph import graph_of
from dynagate.integrators.step import CARRY


@dataclass(frozen=True)
class CompiledProgram:
    """A compiled program and what its record needs."""

    schedule: ProgramSchedule
    options: dict[str, Any]
    """Options of the algorithm, including a tolerance that the compiler found."""
    formats: dict[str, Any]
    """Content of the file of formats."""
    certificate: Certificate | None = None
    """Bound of the error of each result, if one was requested."""


def compiled_program(
    request: DesignRequest,
    spec: CoreSpec,
    region: Region,
    policy: Policy,
    progress: Progress,
    file: FormatsFile | None = None,
) -> CompiledProgram:
    """Compile a request.

    Args:
        request: Robot, function and options.
        spec: Core to compile for, or the size to find one.
        region: Operating region that formats are for.
        policy: Word length and binary points.
        progress: Function that receives a line of text before each slow stage.
        file: Formats to use instead of those that the policy gives.

    Raises:
        FormatsError: The file is for another request.
        ProgramError: The program does not fit the core.
    """
    robot, function, algorithm = request.robot, request.function, request.algorithm
    names = [part.name for part in parts_of(function)] or [function]
    options = algorithm.as_dict()
    if file is not None:
        options = [file.options_of(robot.name, name, options) for name in names][-1]
    formatted: list[Formatted] = []
    if function == ROLLOUT and solves(algorithm):
        if file is None:
            algorithm, loop = motion_and_formats(robot, algorithm, region, policy)
            options = algorithm.as_dict()
        else:
            loop = file.loop(ChipMotion.of(robot, algorithm, file.word(function), options.get(TOLERANCE)).blocks)
        formatted.append(loop)
    else:
        for name in names:
            if len(names) > 1:
                progress(f"formats of {name}")
            graph = graph_of(robot, name, AlgorithmOptions.of_record(options))
            formatted.append(assign(graph, region, policy) if file is None else file.graph(graph))
    graphs = [graph for each in formatted for graph in each.graphs()]
    if file is not None:
        policy = file_policy(graphs, spec, policy, file)
    shape = spec.with_functions(f"{robot.name} {function}", graphs, policy, request.words)
    whole, certificate = list(formatted), None
    if request.certificate:
        (one,) = graphs
        progress("bounding the errors of results")
        one, certificate = certified(one, region, policy, ProcessorModel(shape.word, shape.fused))
        whole = [one]
    progress("fusing and scheduling")
    programs = [INSTRUCTIONS[each.kind](each, shape, request.samples_per_run) for each in whole]
    scheduled = spec.fitted(schedule(programs[0] if len(programs) == 1 else together(programs), shape))
    return CompiledProgram(scheduled, options, described(formatted, options), certificate)


def _graph_instructions(formatted: FormattedGraph, shape: Core, samples: int) -> Instructions:
    whole = shape.fused(formatted)
    return replace(instructions(batched_graph(whole, samples), _carried(whole.graph)), functions=(whole,))


def _loop_instructions(formatted: FormattedLoop, shape: Core, samples: int) -> Instructions:
    return loop_instructions(formatted.mapped(shape.fused))


INSTRUCTIONS: Mapping[str, Callable[[Any, Core, int], Instructions]] = table(
    "hw.processor.compiled.INSTRUCTIONS",
    {
        GRAPH: _graph_instructions,
        LOOP: _loop_instructions,
        UNTIL: _loop_instructions,
        SCAN: refused("a program", "a graph or a loop"),
    },
)
"""Functions that make instructions for each kind of step, given the core and the samples in one run."""


def _carried(graph: Graph) -> dict[int, int]:
    """Return, for a step of a rollout, the result nodes and the input nodes that they become in the next step."""
    if graph.name != ROLLOUT:
        return {}
    sources, targets = ({port.name: port.nodes for port in ports} for ports in (graph.outputs, graph.inputs))
    return {s: t for a, b in CARRY.items() for s, t in zip(sources[a], targets[b], strict=True)}
