"""Vectors for the bench of a program: samples of random states, and the results of the integer model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.design.codec import Words
from dynagate.design.design import DesignRecord
from dynagate.design.program import ProgramBody
from dynagate.design.words import FIXED
from dynagate.dynamics import CODE
from dynagate.fixedpoint.format import Format, Integers
from dynagate.fixedpoint.formatted import Formatted, FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate_integers, quantize_inputs
from dynagate.fixedpoint.models.feedback import FeedbackModel
from dynagate.fixedpoint.models.loops import FormattedLoop, LoopTrajectories
from dynagate.forces.options import AlgorithmOptions
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Kind, Region
from dynagate.graph.steps import GRAPH, LOOP, SCAN, UNTIL, refused, table
from dynagate.hw.vectors.directed import chosen, observed
from dynagate.hw.vectors.drawn import (
    SAMPLES,
    SEED,
    Arrays,
    Flags,
    Vectors,
    draw_states,
    kept_in_limits,
    pool_of,
    result_rows,
)
from dynagate.hw.vectors.packets import (
    FEW,
    FEWEST,
    Entered,
    Group,
    Packet,
    entered,
    put,
    results,
    streamed_vectors,
)
from dynagate.hw.vectors.subject import is_tested
from dynagate.hw.vectors.wire import with_invalid_numbers
from dynagate.integrators.chip_motion import ChipMotion
from dynagate.integrators.step import CARRY
from dynagate.robot import Robot

BUSY = 1_000_000
"""Largest number of cycles for which samples keep a core busy."""
PIECES = (1, 2, 1)
"""Number of samples in which each trajectory is sent, used cyclically."""

Columns = dict[str, Words]
"""Words of ports, (batch, numbers)."""
Functions = Sequence[Formatted]
"""Formatted steps of each function."""


def program_vectors(
    design: DesignRecord[ProgramBody],
    loading: Words,
    functions: Functions,
    region: Region,
    count: int = SAMPLES,
    seed: int = SEED,
) -> Vectors:
    """Return the vectors for the bench of a program.

    Args:
        design: Record with its shell.
        loading: Messages that load the program, (messages, 2).
        functions: Formatted steps of each function.
        region: Operating region of the states.
        count: Largest number of samples.
        seed: Seed of the draw.
    """
    assert design.body.shell is not None
    iterations = 1 if design.body.loop is None else design.body.loop.steps
    cycles = max(iterations * design.body.period, design.input.words + design.output.words)
    few, count = (min(count, max(busy * design.body.shell.cores // cycles, FEWEST)) for busy in (FEW, BUSY))
    if design.body.loop is None:
        groups = _of_functions(design, functions, region, count, seed)
    else:
        groups = _of_iterations(design, functions[0], region, count, seed)
    return streamed_vectors(design, loading, groups, few, seed)


def _of_functions(
    design: DesignRecord[ProgramBody], functions: Functions, region: Region, count: int, seed: int
) -> list[Group]:
    """Return samples of all functions in random order."""
    each: list[Group] = []
    for k, formatted in enumerate(graph for each in functions for graph in each.graphs()):
        own = design.of_function(design.functions[k]) if design.functions else design
        each += [[packet] for packet in _of_function(own, k, formatted, region, -(-count // len(functions)), seed + k)]
    return [each[i] for i in np.random.default_rng(seed).permutation(len(each))]


def _of_function(
    design: DesignRecord[ProgramBody], end: int, formatted: FormattedGraph, region: Region, count: int, seed: int
) -> Iterator[Packet]:
    """Yield samples of one function, with one state each or several."""
    graph, beside, kept = formatted.graph, design.body.samples_per_run, kept_in_limits(formatted.graph)

    def draw(n: int, own: int, kind: Kind) -> Arrays:
        return region.states(graph, n, own, kind)

    pool = None  # the self-test of the core reaches overflows and tables
    if not is_tested(design):
        pool = pool_of(formatted, lambda states, most: _selected(formatted, states, most))
    states, inside = draw_states(draw, kept, count * beside, seed, pool)
    states, strange = _strange(design, states, kept, seed)
    own = entered(design, states, _formats(formatted))
    result = evaluate_integers(formatted, _by_node(formatted, own.integers))
    codecs = design.wire
    sent, came = codecs.input.zeros(count), codecs.output.zeros(count)
    for port in graph.inputs:
        put(sent, codecs.input, design.input, port.name, own.words[port.name].reshape(count, -1))
    for port in graph.outputs:
        words = results(design, [result.value[i] for i in port.nodes], [formatted.formats[i] for i in port.nodes])
        put(came, codecs.output, design.output, port.name, words.reshape(count, -1))
    for each in design.input.ports:
        if each.name == CODE.name:  # the block that the function begins with
            code = np.full((count, 1), int(design.input.fields[each.fields[0]].range[0]))
            codecs.input.put_integers(sent, code, each.fields)
    flagged, bad, known = (
        np.asarray(over(flags.reshape(count, beside), axis=1), np.bool_)
        for over, flags in ((np.any, result.overflow), (np.any, own.bad), (np.all, inside & ~strange))
    )
    codecs.output.put_flags(came, flagged | bad)
    with np.errstate(all="ignore"):
        exact = evaluate(graph, states)
    reference = np.concatenate([exact[port.name].reshape(count, -1) for port in graph.outputs], axis=1)
    for k in range(count):
        rows = reference[k] if known[k] else None
        yield Packet(end, sent[k], came[k], bool(flagged[k]), bool(bad[k]), rows)


def _selected(formatted: FormattedGraph, states: Arrays, count: int) -> npt.NDArray[np.int64]:
    """Return the indices of at most `count` states that cover most overflows and table entries."""
    return chosen(observed(formatted, quantize_inputs(formatted, states)), count)


def _strange(
    design: DesignRecord[ProgramBody], states: Arrays, kept: Collection[str], seed: int
) -> tuple[Arrays, Flags]:
    """Replace a number of some samples by NaN or infinity, on float streams, and return which samples."""
    names = [name for name in states if name not in kept]
    count = len(next(iter(states.values())))
    if design.body.stream_words == FIXED or not names:
        return states, np.zeros(count, np.bool_)
    numbers = result_rows({name: states[name] for name in names})
    numbers, strange = with_invalid_numbers(numbers, range(numbers.shape[1]), seed)
    ends = np.cumsum([states[name][0].size for name in names])
    parts = zip(names, np.split(numbers, ends[:-1], axis=1), strict=True)
    return {**states, **{name: part.reshape(states[name].shape) for name, part in parts}}, strange


def _formats(formatted: FormattedGraph) -> dict[str, list[Format]]:
    """Return the formats of the entries of a graph's inputs, by name."""
    return {port.name: [formatted.formats[i] for i in port.nodes] for port in formatted.graph.inputs}


def _by_node(formatted: FormattedGraph, integers: Mapping[str, Sequence[Integers]]) -> dict[int, Integers]:
    """Return the integers of a graph's inputs, by node."""
    ports = formatted.graph.inputs
    return {i: x for p in ports if p.name in integers for i, x in zip(p.nodes, integers[p.name], strict=True)}


class _Iterations(NamedTuple):
    """Trajectories of a program."""

    begin: Columns
    """Words of the initial states."""
    inputs: list[Columns]
    """Words of the inputs of each step."""
    results: list[Columns]
    """Words of the results of each step."""
    overflow: Flags
    """Steps that overflowed, (batch, steps)."""
    bad: Flags
    """Steps with an input that is NaN or does not fit, (batch, steps)."""
    reference: npt.NDArray[np.float64]
    """Float64 outputs, (batch, steps, numbers), NaN if unknown."""


def _of_iterations(
    design: DesignRecord[ProgramBody],
    formatted: Formatted,
    region: Region,
    count: int,
    seed: int,
) -> list[Group]:
    """Return trajectories in samples of PIECES, one trajectory per core at a time.

    Args:
        design: Record with its shell and its loop.
        formatted: Formatted step.
        region: Operating region of the initial states and inputs.
        count: Largest number of samples in all trajectories. Each core gets FEWEST trajectories or more in any case.
        seed: Seed of the draw.
    """
    assert design.body.loop is not None
    assert design.body.shell is not None
    loop, cores = design.body.loop, design.body.shell.cores
    pieces = [PIECES[k % len(PIECES)] for k in range(max(count * len(PIECES) // (cores * sum(PIECES)), FEWEST))]
    batch, longest = len(pieces) * cores, max(PIECES) * loop.steps
    states, inside = _starts(design, formatted, region, batch * longest, seed)
    each = {name: x.reshape(batch, longest, *x.shape[1:]) for name, x in states.items()}
    iterations = ITERATIONS[formatted.kind](formatted, each, design, region.robot)
    known = np.asarray(inside.reshape(batch, longest).all(axis=1) & ~iterations.bad.any(axis=1))
    late = np.logical_or.accumulate(iterations.overflow, axis=1)
    groups: list[Group] = []
    for g, size in enumerate(pieces):
        own = range(g * cores, (g + 1) * cores)
        packets_of = {(i, p): _piece(design, iterations, i, p, known[i], late[i]) for i in own for p in range(size)}
        groups.append([packets_of[i, p] for p in range(size) for i in own])
    return groups


def _starts(
    design: DesignRecord[ProgramBody], formatted: Formatted, region: Region, count: int, seed: int
) -> tuple[Arrays, Flags]:
    """Return the initial states of trajectories, and which lie in the region."""
    if formatted.as_graph is None:
        kept = {"q"} if region.robot.quaternions() else set[str]()  # as of `kept_in_limits`
        motion = _motion(design, region.robot)
        return draw_states(lambda n, own, kind: motion.starts(region, n, own, kind), kept, count, seed)
    graph = formatted.as_graph.graph
    return draw_states(lambda n, own, kind: region.states(graph, n, own, kind), kept_in_limits(graph), count, seed)


def _motion(design: DesignRecord[ProgramBody], robot: Robot) -> ChipMotion:
    """Return the steps of a design that solve equations, in integers."""
    return ChipMotion.of(robot, AlgorithmOptions.of_record(design.options), design.body.core["word"])


def _graph_iterations(
    formatted: FormattedGraph, each: Arrays, design: DesignRecord[ProgramBody], robot: Robot
) -> _Iterations:
    """Compute trajectories of a graph of one step. each: inputs (batch, steps, ...); of states only the first step
    counts.
    """
    graph, carried, formats = formatted.graph, set(CARRY.values()), _formats(formatted)
    longest = next(iter(each.values())).shape[1]
    begun = entered(design, {name: x[:, 0] for name, x in each.items() if name in carried}, formats)
    later = {name: x for name, x in each.items() if name not in carried}
    rows = [entered(design, {name: x[:, k] for name, x in later.items()}, formats) for k in range(longest)]
    loop = FeedbackModel(formatted, CARRY, _by_node(formatted, begun.integers))
    done = [loop.advance(_by_node(formatted, row.integers)) for row in rows]
    state = {name: x[:, 0] for name, x in each.items()}
    exact = []
    with np.errstate(all="ignore"):
        for k in range(longest):
            ends = evaluate(graph, {**state, **{name: x[:, k] for name, x in later.items()}})
            state |= {target: ends[source] for source, target in CARRY.items()}
            exact.append(result_rows(ends))
    formats_out = {p.name: [formatted.formats[i] for i in p.nodes] for p in graph.outputs}
    return _Iterations(
        begun.words,
        [row.words for row in rows],
        [
            {
                p.name: results(design, [iteration.values[i] for i in p.nodes], formats_out[p.name])
                for p in graph.outputs
            }
            for iteration in done
        ],
        np.stack([iteration.own for iteration in done], axis=1),
        _bad(begun, rows),
        np.stack(exact, axis=1),
    )


def _loop_iterations(
    formatted: FormattedLoop, each: Arrays, design: DesignRecord[ProgramBody], robot: Robot
) -> _Iterations:
    """Compute trajectories of a loop of one step."""
    motion = _motion(design, robot)
    formats = {port.name: formatted.input_formats(port.name) for port in formatted.inputs}
    begun = entered(design, motion.begun(each["q"][:, 0], each["qd"][:, 0]), formats)
    loop, per_iteration = LoopTrajectories(formatted, begun.integers), formatted.loop.per_iteration
    batch, longest = each["q"].shape[:2]
    rows, came, overflow = [], [], []
    for k in range(longest):
        rows.append(entered(design, {name: each[name][:, k] for name in per_iteration}, formats))
        came.append(iteration_results(design, loop, rows[-1].integers))
        overflow.append(loop.overflow)
    with np.errstate(all="ignore"):
        exact = motion.exact(each["q"][:, 0], each["qd"][:, 0], each["tau"])
    columns = [
        exact.get(p.name, np.full((batch, longest, len(p.fields)), np.nan)).reshape(batch, longest, -1)
        for p in design.output.ports
    ]
    return _Iterations(
        begun.words,
        [row.words for row in rows],
        came,
        np.stack(overflow, axis=1),
        _bad(begun, rows),
        np.concatenate(columns, axis=2),
    )


ITERATIONS: Mapping[str, Callable[[Any, Arrays, DesignRecord[ProgramBody], Robot], _Iterations]] = table(
    "hw.vectors.programs.ITERATIONS",
    {
        GRAPH: _graph_iterations,
        LOOP: _loop_iterations,
        UNTIL: _loop_iterations,
        SCAN: refused("a program", "a graph or a loop"),
    },
)
"""Functions that compute trajectories for each kind of step, from the states and inputs of all steps."""


def iteration_results(
    design: DesignRecord[ProgramBody], loop: LoopTrajectories, inputs: Mapping[str, Sequence[Integers]]
) -> Columns:
    """Return the words of a step's results."""
    values, _ = loop.advance(inputs)
    ports = (port.name for port in design.output.ports)
    return {name: results(design, [x.value for x in values[name]], [x.format for x in values[name]]) for name in ports}


def _bad(begun: Entered, rows: Sequence[Entered]) -> Flags:
    """Return the steps with bad inputs, (batch, steps). States belong to the first step."""
    bad = np.stack([row.bad for row in rows], axis=1)
    bad[:, 0] |= begun.bad
    return bad


def _piece(
    design: DesignRecord[ProgramBody], iterations: _Iterations, i: int, piece: int, known: bool, late: Flags
) -> Packet:
    """Return one sample with steps of trajectory i."""
    assert design.body.loop is not None
    loop = design.body.loop
    source, sink = design.wire.input, design.wire.output
    sent, came = source.zeros(1), sink.zeros(1)
    source.put(sent, np.full((1, 1), float(piece == 0)), [len(design.input.fields)])
    if piece == 0:
        for name, columns in iterations.begin.items():
            put(sent, source, design.input, name, columns[i : i + 1])
    first = piece * loop.steps
    for k in range(loop.steps):
        own_inputs = source.moved([k * loop.inputs] * len(source.slots))
        own_results = sink.moved([k * stride for stride in loop.outputs])
        for name, columns in iterations.inputs[first + k].items():
            put(sent, own_inputs, design.input, name, columns[i : i + 1])
        for name, columns in iterations.results[first + k].items():
            put(came, own_results, design.output, name, columns[i : i + 1])
    own = slice(first, first + loop.steps)
    overflow, bad = iterations.overflow[i, own], bool(iterations.bad[i, own].any())
    flagged = bool(overflow.any())
    iteration = int(np.argmax(overflow)) if flagged and not bad else 0
    sink.put_flags(came, (flagged or bad) | iteration << 1)
    rows = iterations.reference[i, own]
    usable = known and not late[first + loop.steps - 1] and not np.isinf(rows).any()
    return Packet(0, sent[0], came[0], flagged, bad, rows.reshape(-1) if usable else None)
