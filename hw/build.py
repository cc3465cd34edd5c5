"""Build a design: a folder with the Verilog of a datapath, its benches and its record, found again by content hash."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dynagate.base import storage, untrusted
from dynagate.base.changed_options import of_call
from dynagate.base.errors import ArgumentError, OptionError
from dynagate.base.explained import checking_first, explained
from dynagate.base.ownership import with_head
from dynagate.base.progress import Progress, quiet, showing
from dynagate.design.datapath import DatapathBody, DesignFunction, ExtraStages, NodeRow, RegisterCount, Ring
from dynagate.design.design import AxiStreams, ChosenFormats, DesignRecord, Field, Sides, Stream, StreamPort
from dynagate.design.ring import COMMAND
from dynagate.design.verilog_list import LIST, PLAIN, list_text
from dynagate.design.words import FIXED, FLOAT32, beats, number_of, words_of
from dynagate.dynamics import CODE, ROLLOUT, FunctionPart, check_named, of_frame, requested
from dynagate.dynamics.recursions.poses import FrameOption
from dynagate.fixedpoint.assign import PROVED, Policy, assign
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.files import FORMATS, FormatsFile, described
from dynagate.fixedpoint.models.files import text_of as text_of_formats
from dynagate.fixedpoint.proof.certificate import certified
from dynagate.fixedpoint.proof.error_bounds import proved_and_sampled
from dynagate.fixedpoint.wordlength.goal import Goal
from dynagate.fixedpoint.wordlength.optimize import optimize
from dynagate.fixedpoint.wordlength.sampled_errors import SampledErrors, sampled_errors
from dynagate.forces import Force
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph import Graph
from dynagate.graph import Port as GraphPort
from dynagate.graph.packing import ZERO
from dynagate.graph.parts import parameter_ports, part_graph, parts_of
from dynagate.graph.region import Region, limits_of
from dynagate.hw import boards
from dynagate.hw.boards.scripts import OUT_OF_CONTEXT, out_of_context
from dynagate.hw.bodies.pipeline import Pipeline
from dynagate.hw.bodies.pipeline_datasheet import datasheet
from dynagate.hw.designs import BuildError, Contents, Design, in_folder
from dynagate.hw.export.identifiers import LEVEL
from dynagate.hw.format_warnings import warn_of_errors, warn_of_placeholders
from dynagate.hw.options import DEFAULT_FOLDER
from dynagate.hw.plan.cost import lookup_tables
from dynagate.hw.plan.plan import Plan, plan
from dynagate.hw.record import record_of
from dynagate.hw.request import DesignRequest
from dynagate.hw.rtl.axi import Axi
from dynagate.hw.rtl.feedback import capacity
from dynagate.hw.rtl.regmap import IDENTITY, VERSION, registers_of, with_ring
from dynagate.hw.units.floating import FROM_FLOAT_LATENCY, to_float_latency
from dynagate.hw.units.raw import FromWord, ToWord
from dynagate.hw.vectors import bench_files
from dynagate.hw.vectors.subject import DATAPATH
from dynagate.hw.vectors.unreached import unreached
from dynagate.hw.vectors.vectors import vectors
from dynagate.integrators.design_graph import graph_of, region_of_steps
from dynagate.integrators.implicit.contact_method import ContactIntegrator
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.integrators.methods import method_text
from dynagate.integrators.motion import Integrator
from dynagate.integrators.step import CARRY
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName, robot_of

if TYPE_CHECKING:
    from dynagate.hw.boards import Board
    from dynagate.hw.plan.cost import Budget
    from dynagate.hw.plan.plan import Stages
    from dynagate.hw.processor.isa.shape import Core
    from dynagate.hw.processor.streams import Cores
    from dynagate.hw.rtl.datapath import Datapath
    from dynagate.hw.rtl.shell import Shell

TOP = "datapath"
"""Name of the Verilog module of a datapath."""
SHELL_TOP = "accelerator"
"""Name of the Verilog module of the AXI shell."""
RING_TOP = "rollout"
"""Name of the Verilog module of the ring."""
ALONE_ON = "vcu118"
"""Board whose device and clock `ooc.tcl` uses in the folder of a design without a board."""
WIDEST_STREAM = 65000
"""Largest number of bits of a payload: a cell of Amaranth's netlists has fewer than 2¹⁶ bits, and control takes some.
"""

Planner = Callable[[FormattedGraph], Plan]
"""Function that plans a formatted graph at an interval of its choice."""


def _check_function(function: str | Sequence[str]) -> None:
    """Raise an error if there is no function of this name. A list is checked with the other options."""
    if isinstance(function, str):
        check_named(function, of_design=True)


@explained
@checking_first(_check_function)
def build(
    robot: RobotOrName,
    function: str | Sequence[str],
    *,
    ii: int = 8,
    units: int | Core | Cores | None = None,
    board: str | Board | None = None,
    per_sample: bool = False,
    word: int | None = None,
    error: float | None = None,
    policy: Policy | None = None,
    goal: Goal | None = None,
    formats: str | os.PathLike[str] | None = None,
    region: Region | None = None,
    certificate: bool = False,
    axi: Axi | None = None,
    budget: Budget | None = None,
    stages: Stages | None = None,
    samples_per_run: int = 1,
    words: str | None = None,
    style: str = PLAIN,
    form: str | None = None,
    frame: FrameOption | None = None,
    mass: Literal["body", "shared"] | None = None,
    prefix: bool = False,
    external_forces: bool = False,
    outputs: Sequence[str] | None = None,
    dt: float | None = None,
    variable_dt: bool = False,
    integrator: str | Integrator | None = None,
    implicit_damping: bool = False,
    constrained: bool = False,
    tolerance: float | None = None,
    linearize: bool = False,
    contacts: RigidContact | None = None,
    forces: str | Force | Sequence[Force | str] = (),
    folder: str | os.PathLike[str] = DEFAULT_FOLDER,
    progress: Progress | None = None,
) -> Design[Any]:
    """Build a design that computes a function of a robot: a pipelined datapath, or with `units` a program.

    A design that is in the folder already is kept, and a damaged one is written again.

    Args:
        robot: The robot, the path of its URDF file, or the name of a robot that ships.
        function: Name of the function, or a list of names that are computed together, as of `dynagate.compile`. A
            design computes "rollout" too: steps of a motion whose states stay on the chip.
        ii: Initiation interval: cycles from a sample to the next.
        units: Multiply-add units of a processor, 2 to 8, or its core. The design is then a program for it.
        board: Name of a board, or its description, in place of `units`: the design is a program for its cores. Their
            word length and number format hold unless `word` is given.
        per_sample: Each sample names one of the functions in the list. All share the datapath.
        word: Word length in bits, short for policy=Policy(word=...); 24 unless given.
        error: Relative L2 error of each output block in 99.9 % of the states, short for goal=Goal(error). Word lengths
            are found for it.
        policy: Word length, binary points and samples.
        goal: Accuracy that word lengths are found for.
        formats: File of formats to use; the folder of each design has one.
        region: Operating region that formats are for; inside the limits of the robot's file unless given.
        certificate: Add an output "certificate" to forward dynamics, a bound of the error of each q̈.
        axi: AXI streams and registers around the datapath.
        budget: Resources that the design may take.
        stages: Register stages beyond the fewest.
        samples_per_run: Samples that a program computes in lanes, 1 to 4.
        words: Format of a program's streams, "float32" or "fixed".
        style: Style of the Verilog: "plain", or "strict" without initial values and blocking assignments to registers,
            with an asynchronous reset and tables as functions.
        form, frame, mass, prefix, external_forces, outputs: Options of the algorithm, as of
            `dynagate.compile`.
        dt: Seconds of a time step; 1e-3 unless given.
        variable_dt: Make the time step of "rollout" an input; `dt` is the largest.
        integrator, implicit_damping, constrained, linearize: Options of "rollout", as of `dynagate.Rollout`.
        tolerance: Tolerance for the integrators that solve equations.
        contacts: Rigid ground that points touch in a "rollout", in place of `integrator`; needs `units`.
        forces: Forces of "rollout", or `dynagate.forces.Friction` for other functions; as objects, or text such as
            "Limits(stiffness=100.0)".
        folder: Folder of all designs, each in a folder of its own.
        progress: Function that receives a line of text before each slow stage. Unless given, a terminal or a
            notebook shows them.

    Returns:
        The design, with `latency`, `interval`, `resources`, `files` and `folder`.

    Raises:
        ArgumentError: An option does not fit the function or the design.
        ArgumentTypeError: An option has another name or type.
        RobotError: There is no such robot, or the algorithm does not know its joints.
        AccuracyError: No formats meet the goal.
        BoardError: There is no such board, or its file has errors.
        BudgetError: The design takes more than the budget.
        BuildError: The folder cannot be written; it then holds nothing new.

    Example:
        >>> design = dynagate.build("two_joint_arm", "forward_dynamics", ii=8, folder=folder)
        >>> design.interval, design.latency > 8
        (8, True)
    """
    call = locals()
    function, axes = of_frame(function, frame)
    row = requested(function, of_design=True, per_sample=per_sample)
    if board is not None:
        from dynagate.hw.processor.board import chosen_cores

        units = chosen_cores(board, units, words)
        word = units.core.word if word is None and policy is None else word
    policy, goal = _shorthands(word, policy, error, goal)
    steps_by = _integrator_text(integrator, contacts)
    algorithm = of_call(AlgorithmOptions, call, frame=axes, integrator=steps_by)
    own = {"robot": robot_of(robot), "function": row.name, "policy": policy, "goal": goal, "algorithm": algorithm}
    request = of_call(DesignRequest, call, **own)
    with showing(progress) as progress:
        if units is not None:
            from dynagate.hw.bodies.program import build_program

            return build_program(request, units, folder=Path(folder), progress=progress)
        return build_request(request, folder=folder, progress=progress)


def _integrator_text(integrator: str | Integrator | None, contacts: RigidContact | None) -> str | None:
    """Return the text of an integrator, or of the rigid contact in its place.

    Raises:
        ArgumentError: Both are given, or the integrator has no text.
    """
    if contacts is None:
        return method_text(integrator) if isinstance(integrator, Integrator) else integrator
    if integrator is not None:
        raise ArgumentError(f"contacts= with integrator={integrator!r:.60}; expected only contacts=", code="DG-HW-034")
    return method_text(ContactIntegrator(contacts))


def _shorthands(
    word: int | None, policy: Policy | None, error: float | None, goal: Goal | None
) -> tuple[Policy | None, Goal | None]:
    """Return the policy and the goal, of which a number may be given instead.

    Raises:
        ArgumentError: A number and the object are both given, or both numbers.
    """
    for name, number, other in (("word", word, policy), ("error", error, goal)):
        if number is not None and other is not None:
            raise ArgumentError(
                f"{name}={number} and {type(other).__name__}(...); expected one of them", code="DG-HW-003"
            )
    if word is not None and (error is not None or goal is not None):
        raise ArgumentError(
            f"word={word} and an error; expected one of them: words are found for an error", code="DG-HW-004"
        )
    return Policy(word=word) if word is not None else policy, Goal(error) if error is not None else goal


@explained
def build_request(
    request: DesignRequest,
    *,
    folder: str | os.PathLike[str] = DEFAULT_FOLDER,
    progress: Progress = quiet,
    planner: Planner | None = None,
) -> Design[Pipeline]:
    """Build the datapath of a request.

    Args:
        request: Robot, function and options.
        folder: Parent folder of designs.
        progress: Function that receives a line of text before each slow stage.
        planner: Chooses the interval once formats are known; replaces `request.ii`.

    Raises:
        ArgumentError: An option does not fit the function or the design.
        AccuracyError: No formats meet the goal.
        BudgetError: The design exceeds the budget.
        BuildError: The folder cannot be written.
    """
    if request.samples_per_run != 1:
        text = f"{request.samples_per_run} of a datapath; expected 1, or a program: units=4 (--units 4)"
        raise OptionError("samples_per_run", text, code="DG-HW-005")
    if request.words is not None:
        shell = f"axi=Axi(words='{request.words}') (--axi)"
        text = f"'{request.words}' of a datapath; expected {shell}, or a program: units=4 (--units 4)"
        raise OptionError("words", text, code="DG-HW-006")
    storage.check_folder(Path(folder), BuildError, "designs")
    storage.sweep(Path(folder))
    robot, axi, options = request.robot, request.axi, request.algorithm.as_dict()
    region = (request.region or Region.of(robot)).of_robot(robot)
    progress(f"tracing {robot.name} {request.function}")
    graph = graph_of(robot, request.function, request.algorithm)
    region = region_of_steps(region, request.algorithm)
    warn_of_placeholders(region)
    formatted, chosen = _formatted(request, graph, region, progress)
    errors = None
    if request.goal is None:
        errors = sampled_errors(formatted, region)
        warn_of_errors(f"{robot.name} {graph.name}", errors)
    formats = text_of_formats(described((formatted,), options))
    if request.certificate:
        progress("bounding the errors of results")
        formatted, certificate = certified(formatted, region, request.policy)
        chosen = replace(chosen, certificate=certificate.as_dict())
    progress("scheduling and binding")
    planned = planner(formatted) if planner else plan(formatted, request.ii, request.stages)
    if request.budget is not None:
        request.budget.check(planned)
    design = design_record(robot, region, planned, chosen, options, axi, request.style)
    check_streams(design)
    what = untrusted.shortened(graph.name).replace(",", "+")
    name = f"{untrusted.file_name(robot.name)}-{what}-ii{planned.ii}-{design.hash[:12]}"
    result = Design(Path(folder) / name, robot, region, design, Pipeline(planned))
    return in_folder(result, (FORMATS, *OUT_OF_CONTEXT), lambda: _contents(result, formats, errors, progress))


def _formatted(
    request: DesignRequest, graph: Graph, region: Region, progress: Progress
) -> tuple[FormattedGraph, ChosenFormats]:
    """Return the graph with formats, and how they were chosen."""
    if request.goal is not None:
        progress("choosing formats")
        number = None if request.axi is None else number_of(request.axi.words)
        optimized = optimize(graph, region, request.goal, request.policy, number=number)
        statement = optimized.statement.as_dict()
        samples = None if request.policy is None else asdict(request.policy)
        return optimized.formatted, ChosenFormats("mixed", samples, asdict(request.goal), statement)
    policy = request.policy or Policy()
    numbers = _numbers(graph, request.axi)
    if request.formats is not None:
        file, chosen = FormatsFile.read(request.formats), ChosenFormats("given")
        file.options_of(graph.robot, graph.name, request.algorithm.as_dict())
        formatted = file.graph(graph)
    else:
        formatted = assign(graph, region, policy, numbers=numbers)
        chosen = ChosenFormats(policy.word, policy=asdict(policy))
    if policy.ranges == PROVED:
        progress("proving ranges and errors")
        chosen = replace(chosen, proved=proved_and_sampled(formatted, region, policy, numbers).as_dict())
    return formatted, chosen


def _numbers(graph: Graph, axi: Axi | None) -> dict[str, str]:
    """Return the number type that the streams of a shell round each port to, by name."""
    if axi is None:
        return {}
    streamed = number_of(axi.words)
    types = {port.name: FLOAT32 if port.parameter else streamed for port in (*graph.inputs, *graph.outputs)}
    return {name: number for name, number in types.items() if number is not None}


def _contents(result: Design[Pipeline], formats: str, errors: SampledErrors | None, progress: Progress) -> Contents:
    """Return the files of a design: its Verilog, its benches and what synthesizes it."""
    from dynagate.hw.rtl.datapath import Datapath

    top = Datapath(result.hardware.plan, result.design.device_hash)
    verilog = _verilog(result, top, progress)
    progress("vectors and benches")
    drawn = vectors(result)
    bench = bench_files(result.design, top.late, drawn)
    missed = unreached(result, drawn[DATAPATH])
    kept = {**verilog, LIST: list_text(verilog), **bench, FORMATS: formats}
    return Contents(kept, datasheet(result, top.late, errors, missed), _synthesis_scripts(result, verilog))


def _synthesis_scripts(result: Design[Pipeline], verilog: Mapping[str, str]) -> dict[str, str]:
    """Return the scripts that synthesize the outermost module out of context, by file name."""
    design, board = result.design, boards.load(ALONE_ON)
    top = SHELL_TOP if design.axi is not None else RING_TOP if design.body.ring is not None else TOP
    clock = "aclk" if top == SHELL_TOP else "clk"
    part, mhz = board.part, board.clock_mhz
    return out_of_context(result.title, design.hash, verilog, top, clock, part=part, clock_mhz=mhz, head=design.head)


def _verilog(result: Design[Pipeline], top: Datapath, progress: Progress) -> dict[str, str]:
    """Return the Verilog of the datapath, the ring and the shell by file name, in the order in which tools read
    them.
    """
    from dynagate.hw.export.netlist import verilog_files
    from dynagate.hw.rtl.feedback import StateFeedback

    head = f"{result.title}; design {result.design.hash}"
    progress("Amaranth: datapath to Verilog")
    style = result.design.body.style
    texts = verilog_files(top, TOP, result.hardware.plan.signal_names, style)
    if (ring := result.design.body.ring) is not None:
        texts |= verilog_files(StateFeedback(result.hardware.plan, dict(ring.carry)), RING_TOP, style=style)
    if result.design.axi is not None:
        progress("Amaranth: shell to Verilog")
        texts |= verilog_files(shell_of(result, top), SHELL_TOP, style=style)
    return {name: with_head(name, text, (head, *result.design.head)) for name, text in texts.items()}


def shell_of(result: Design[Pipeline], datapath: Datapath) -> Shell:
    """Return the accelerator of a design with an AXI shell. Its parameter registers begin with the robot's own
    values.
    """
    from dynagate.hw.rtl.shell import Shell

    axi, ring = result.design.axi, result.design.body.ring
    assert axi is not None
    parameters = [float(x) for values in result.robot.parameters.values() for x in values.ravel()]
    streams = Axi(axi.width, axi.last, axi.word, axi.choice)
    return Shell(datapath, streams, parameters, None if ring is None else dict(ring.carry))


def design_record(
    robot: Robot,
    region: Region,
    planned: Plan,
    chosen: ChosenFormats,
    options: dict[str, Any],
    axi: Axi | None,
    style: str = PLAIN,
) -> DesignRecord[DatapathBody]:
    """Return the record of a plan, with its hash, which covers the source of the gateware.

    Args:
        robot: The robot.
        region: Operating region of the formats.
        planned: Plan of the datapath.
        chosen: How the formats were chosen.
        options: Options of the algorithm that differ from their defaults.
        axi: Options of the AXI shell; None without one.
        style: Style of the Verilog.
    """
    formatted = planned.formatted
    graph = formatted.graph
    body = DatapathBody(
        arithmetic=asdict(formatted.arithmetic),
        ii=planned.ii,
        stages=ExtraStages(**asdict(planned.stages)),
        cycles={name: unit.latency for name, unit in planned.classes.items()},
        counts=asdict(graph.counts()),
        units=dict(sorted(planned.unit_counts().items())),
        dsp_blocks=planned.dsp_blocks(),
        lookup_tables_estimated=dict(lookup_tables(planned)),
        registers=RegisterCount(planned.register_words(), planned.register_bits()),
        mux_inputs=planned.binding.mux_inputs,
        nodes=tuple(_node(planned, i) for i in range(len(graph))),
        functions=_functions(planned, region),
        style=style,
        ring=Ring(tuple(CARRY.items()), capacity(planned.latency, planned.ii)) if graph.name == ROLLOUT else None,
    )
    return record_of(
        body,
        region,
        graph.name,
        options,
        chosen,
        latency=planned.latency,
        stream=Sides(_stream(planned, graph.input_nodes, graph.inputs), _output_stream(planned)),
        axi=None if axi is None else _axi_streams(planned, axi),
    )


def _node(planned: Plan, i: int) -> NodeRow:
    """Return the record of a node."""
    formatted = planned.formatted
    return NodeRow(
        name=formatted.graph.nodes[i].name,
        signal=planned.signal_names[i],
        module=LEVEL.join((TOP, *planned.module(i))),
        width=formatted.formats[i].width,
        frac=formatted.formats[i].frac,
        constant=_constant(formatted, i),
        ready=planned.ready(i) if i in planned.position else None,
    )


def _axi_streams(planned: Plan, axi: Axi) -> AxiStreams:
    """Return the record of the AXI shell."""
    graph, formats = planned.formatted.graph, planned.formatted.formats
    held = parameter_ports(graph)
    entries = [(port.name, k) for port in held for k in range(len(port.nodes))]
    streamed = [formats[i].width for i in graph.input_nodes[: len(graph.input_nodes) - len(entries)]]
    is_ring = graph.name == ROLLOUT
    streamed += [COMMAND.width] if is_ring else []
    results = [[formats[i].width for i in delivery.nodes] for delivery in planned.deliveries]
    words = Sides(words_of(streamed, axi.words), max(words_of(each, axi.words, flag=True) for each in results))
    several = len(planned.deliveries) > 1
    outputs = [f"{each.name}.{name}" if several else name for each in planned.deliveries for name in each.outputs]
    return AxiStreams(
        axi.width,
        axi.last,
        words,
        beats=Sides(beats(words.input, axi.width), beats(words.output, axi.width)),
        conversion=_conversion(axi.words, max(formats[i].width for i in graph.result_nodes)),
        identity=IDENTITY,
        version=VERSION,
        registers=with_ring() if is_ring else registers_of(entries, outputs if axi.choice else ()),
        parameters=tuple(port.name for port in held),
        choice=axi.choice,
        word=axi.words,
    )


def _conversion(words: str, widest: int) -> Sides[int]:
    """Return the cycles of the converters on both streams. widest: bits of the widest number of a result."""
    if words == FIXED:
        return Sides(FromWord.latency, ToWord.latency)
    return Sides(FROM_FLOAT_LATENCY, to_float_latency(widest))


def _constant(formatted: FormattedGraph, node: int) -> tuple[int, int, int] | None:
    """Return a node's own constant as integer, width and fraction bits."""
    if node not in formatted.constants:
        return None
    value, fmt = formatted.constants[node]
    return value, fmt.width, fmt.frac


def check_streams(design: DesignRecord[DatapathBody]) -> None:
    """Check the widths of payloads.

    Raises:
        ArgumentError: A payload is wider than Amaranth's netlists accept.
    """
    for side, stream in (("input", design.input), ("output", design.output)):
        if stream.bits > WIDEST_STREAM:
            raise ArgumentError(
                f"{design.function} has {stream.bits} bits of {side}; expected at most {WIDEST_STREAM}: shorter "
                "words, or a function with fewer results",
                code="DG-HW-007",
            )


def _stream(planned: Plan, nodes: Sequence[int], ports: Sequence[GraphPort]) -> Stream:
    """Return the layout of a payload: a field for each of the nodes, from bit 0 up, and the fields of each port.

    Other nodes of the ports are always zero and have no field.
    """
    formatted = planned.formatted
    fields: list[Field] = []
    place: dict[int, int] = {}
    lsb = 0
    for i in nodes:
        fmt = formatted.formats[i]
        place[i] = len(fields)
        fields.append(Field(planned.signal_names[i], lsb, fmt.width, fmt.frac, *formatted.bounds.get(i, ())))
        lsb += fmt.width
    listed = [
        StreamPort(p.name, p.shape, tuple(place.get(i, ZERO) for i in p.nodes), p.unit_vectors, p.switches, p.parameter)
        for p in ports
    ]
    return Stream(lsb, tuple(fields), tuple(listed))


def _output_stream(planned: Plan) -> Stream:
    """Return the layout of results, with overflow bits and the index of the function."""
    graph = planned.formatted.graph
    stream = _stream(planned, graph.result_nodes, graph.outputs)
    end = (len(planned.deliveries) - 1).bit_length()
    return replace(stream, bits=stream.bits + len(graph.scopes) + end, overflow=stream.bits, scopes=graph.scopes)


def _inputs_of(graph: Graph, part: FunctionPart) -> tuple[tuple[str, str], ...]:
    """Return the inputs of a function by name, and the input of the graph for each."""
    names = [port.name for port in part_graph(graph, part).inputs if port.name != CODE.name]
    return tuple((name, dict(part.inputs).get(name, name)) for name in names)


def _functions(planned: Plan, region: Region) -> tuple[DesignFunction, ...]:
    """Describe each function of a graph of several functions."""
    graph = planned.formatted.graph
    place = {i: k for k, i in enumerate(graph.result_nodes)}
    ports = {port.name: port for port in graph.outputs}
    functions = []
    for part, delivery in zip(parts_of(graph.name), planned.deliveries, strict=False):
        outputs = [ports[argument.name] for argument in part.function.outputs]
        functions.append(
            DesignFunction(
                part.name,
                part.code,
                _inputs_of(graph, part),
                {own: tuple(bounds) for own, bounds in limits_of(part, region).items()},
                delivery.cycle,
                tuple(
                    StreamPort(port.name, port.shape, tuple(place.get(i, ZERO) for i in port.nodes)) for port in outputs
                ),
                tuple(place[i] for i in delivery.nodes),
            )
        )
    return tuple(functions)
