"""The vectors of a program's bench: the program in parts, samples of random states, the results that the integers give.

The program is loaded before the first sample. Once samples are under way a damaged one follows, which the core refuses,
then another core's, and the right one again. Now and then TLAST cuts a sample short.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from dynagate.design.design import Design, Stream
from dynagate.design.payload import Words
from dynagate.design.program import ProgramDesign
from dynagate.design.words import PER_SAMPLE, WORD
from dynagate.dynamics import CODE
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.evaluate import evaluate_integers, quantise_inputs
from dynagate.fixedpoint.loops import FormattedLoop, LoopIntegers, integers_of
from dynagate.fixedpoint.recirculate import Recirculation
from dynagate.graph.evaluate import evaluate
from dynagate.graph.region import Kind, Region
from dynagate.hw.bench import operations
from dynagate.hw.bench.operations import Answered
from dynagate.hw.bench.rounds import ALONE, NONE, ROUNDS
from dynagate.hw.bench.subject import Subject, subjects
from dynagate.hw.bench.vectors import SAMPLES, SEED, Arrays, Flags, Ints, Vectors, flat, kept_in_limits, of_all_kinds
from dynagate.hw.processor.options import options_of
from dynagate.hw.processor.streams import behind
from dynagate.hw.processor.words import checksum, packets
from dynagate.integrators.chip_motion import ChipMotion
from dynagate.integrators.step import CARRY
from dynagate.robot import Robot

FEW, BUSY = 5_000, 1_000_000
"""Cycles for which samples keep a core busy, at most: in the rounds that every simulator runs, and in all."""
FEWEST = ROUNDS + 3
"""Groups of samples of the former, even if they take longer."""
FORWARD = "forward_dynamics"
"""Whose states a motion begins with."""
PIECES = (1, 2, 1)
"""Samples of trajectories, in turn."""
CUT_EVERY = 16
"""Groups of samples after which one is cut short."""
RELOADED, LOADS = 3, 4
"""The round in whose middle the program is loaded again, and cycles that this takes for each word of it."""

Columns = dict[str, npt.NDArray[Any]]
"""Integers of ports, (batch, numbers)."""
Functions = Sequence[FormattedGraph | FormattedLoop]


class Packet(NamedTuple):
    """What goes over the stream at once. end: of its answer; NONE where none comes. words: all but its tag. answer:
    likewise. flagged: a value of it overflows. reference: float64 numbers."""

    end: int
    words: Words
    answer: Words
    flagged: bool = False
    reference: npt.NDArray[np.float64] | None = None


Group = list[Packet]
"""Samples between which nothing but a cut one comes."""


def in_its_shell(design: ProgramDesign) -> Design:
    """A program as its bench knows it: with the streams of the shell."""
    assert design.shell is not None
    return cast("Design", behind(design, design.shell.width, design.shell.last))


def program_vectors(
    design: ProgramDesign,
    loading: Words,
    functions: Functions,
    region: Region,
    count: int = SAMPLES,
    seed: int = SEED,
) -> Vectors:
    """design: with its shell. loading: what loads the program, (messages, 2). functions: what it computes, on states of
    the region. count: of samples, at most."""
    assert design.shell is not None
    (subject,) = subjects(in_its_shell(design), [])
    turns = 1 if design.loop is None else design.loop.turns
    cycles = max(turns * design.period, design.input.words + design.output.words)
    few, count = (min(count, max(busy * design.shell.cores // cycles, FEWEST)) for busy in (FEW, BUSY))
    if design.loop is None:
        groups = _of_functions(design, functions, region, count, seed)
    else:
        groups = _of_turns(design, functions[0], region, count, seed)
    streamed, bounds = _streamed(subject, loading, groups, few)
    return _vectors(design, subject, streamed, bounds, int(loading[-1, 1]), seed)


# samples


def _of_functions(design: ProgramDesign, functions: Functions, region: Region, count: int, seed: int) -> list[Group]:
    """Samples of all functions in random order."""
    each: list[Group] = []
    for k, formatted in enumerate(functions):
        assert isinstance(formatted, FormattedGraph)
        own = design.of_function(design.functions[k]) if design.functions else design
        each += [[packet] for packet in _of_function(own, k, formatted, region, -(-count // len(functions)), seed + k)]
    return [each[i] for i in np.random.default_rng(seed).permutation(len(each))]


def _of_function(
    design: ProgramDesign, end: int, formatted: FormattedGraph, region: Region, count: int, seed: int
) -> Iterator[Packet]:
    """Samples of one state each, or of several side by side."""
    graph, beside = formatted.graph, design.abreast

    def draw(n: int, own: int, kind: Kind) -> Arrays:
        return region.states(graph, n, own, kind)

    states, inside = of_all_kinds(draw, kept_in_limits(graph), count * beside, seed)
    integers = quantise_inputs(formatted, states)
    result = evaluate_integers(formatted, integers)
    sent, came = _zeros(design.input, count), _zeros(design.output, count)
    for port in graph.inputs:
        _put(sent, design.input, port.name, _columns(integers, port.nodes).reshape(count, -1))
    for port in graph.outputs:
        _put(came, design.output, port.name, _columns(result.value, port.nodes).reshape(count, -1))
    for own in design.input.ports:
        if own.name == CODE.name:  # the block that the function begins with
            sent[:, 0] = int(design.input.fields[own.fields[0]].range[0])
    flagged = np.asarray(result.overflow.reshape(count, beside).any(axis=1))
    came[:, design.output.overflow // WORD] = flagged
    exact = evaluate(graph, states)
    reference = np.concatenate([exact[port.name].reshape(count, -1) for port in graph.outputs], axis=1)
    known = np.asarray(inside.reshape(count, beside).all(axis=1))
    for k in range(count):
        yield Packet(end, sent[k], came[k], bool(flagged[k]), reference[k] if known[k] else None)


class _Turns(NamedTuple):
    """Of trajectories. begin: integers of the states that they begin with. inputs: of each turn. results: of each turn,
    and where it overflowed, (batch, turns). reference: float64 outputs, (batch, turns, numbers), NaN where unknown."""

    begin: Columns
    inputs: list[Columns]
    results: list[Columns]
    overflow: Flags
    reference: npt.NDArray[np.float64]


def _of_turns(
    design: ProgramDesign,
    formatted: FormattedGraph | FormattedLoop,
    region: Region,
    count: int,
    seed: int,
) -> list[Group]:
    """Trajectories of PIECES samples, as many at a time as there are cores, since each goes on with its own."""
    assert design.loop is not None
    assert design.shell is not None
    loop, cores = design.loop, design.shell.cores
    pieces = [PIECES[k % len(PIECES)] for k in range(max(count * len(PIECES) // (cores * sum(PIECES)), FEWEST))]
    batch, longest = len(pieces) * cores, max(PIECES) * loop.turns
    states, inside = _starts(formatted, region, batch * longest, seed)
    each = {name: x.reshape(batch, longest, *x.shape[1:]) for name, x in states.items()}
    turns = (
        _graph_turns(formatted, each)
        if isinstance(formatted, FormattedGraph)
        else _loop_turns(formatted, each, design, region.robot)
    )
    known = np.asarray(inside.reshape(batch, longest).all(axis=1))
    late = np.logical_or.accumulate(turns.overflow, axis=1)
    groups: list[Group] = []
    for g, size in enumerate(pieces):
        own = range(g * cores, (g + 1) * cores)
        packets_of = {(i, p): _piece(design, turns, i, p, known[i], late[i]) for i in own for p in range(size)}
        groups.append([packets_of[i, p] for p in range(size) for i in own])
    return groups


def _starts(formatted: FormattedGraph | FormattedLoop, region: Region, count: int, seed: int) -> tuple[Arrays, Flags]:
    if isinstance(formatted, FormattedLoop):
        return of_all_kinds(lambda n, own, kind: region.sample(FORWARD, n, own, kind=kind), set(), count, seed)
    graph = formatted.graph
    return of_all_kinds(lambda n, own, kind: region.states(graph, n, own, kind), kept_in_limits(graph), count, seed)


def _graph_turns(formatted: FormattedGraph, each: Arrays) -> _Turns:
    """each: (batch, turns, ...), of the states those of the first turn count."""
    graph, carried = formatted.graph, set(CARRY.values())
    longest = next(iter(each.values())).shape[1]
    rows = [quantise_inputs(formatted, {name: x[:, k] for name, x in each.items()}) for k in range(longest)]
    own = {i for port in graph.inputs if port.name in carried for i in port.nodes}
    loop = Recirculation(formatted, CARRY, {i: rows[0][i] for i in own})
    done = [loop.turn({i: x for i, x in row.items() if i not in own}) for row in rows]
    inputs = [{p.name: _columns(row, p.nodes) for p in graph.inputs} for row in rows]
    state = {name: x[:, 0] for name, x in each.items()}
    exact = []
    with np.errstate(all="ignore"):
        for k in range(longest):
            results = evaluate(graph, {**state, **{name: x[:, k] for name, x in each.items() if name not in carried}})
            state |= {target: results[source] for source, target in CARRY.items()}
            exact.append(flat(results))
    return _Turns(
        {name: columns for name, columns in inputs[0].items() if name in carried},
        inputs,
        [{p.name: _columns(turn.values, p.nodes) for p in graph.outputs} for turn in done],
        np.stack([turn.own for turn in done], axis=1),
        np.stack(exact, axis=1),
    )


def _loop_turns(formatted: FormattedLoop, each: Arrays, design: ProgramDesign, robot: Robot) -> _Turns:
    motion = ChipMotion.of(robot, options_of(design), design.core["word"])
    begun = motion.begun(each["q"][:, 0], each["qd"][:, 0])
    begin = integers_of(formatted, begun)
    loop, per_turn = LoopIntegers(formatted, begin), formatted.loop.per_turn
    batch, longest = each["q"].shape[:2]
    inputs, results, overflow = [], [], []
    for k in range(longest):
        own = integers_of(formatted, {name: each[name][:, k] for name in per_turn})
        values, _ = loop.turn(own)
        overflow.append(loop.overflow)
        inputs.append({name: np.stack(columns, axis=1) for name, columns in own.items()})
        results.append({p.name: np.stack([x.value for x in values[p.name]], axis=1) for p in design.output.ports})
    with np.errstate(all="ignore"):
        exact = motion.exact(each["q"][:, 0], each["qd"][:, 0], each["tau"])
    columns = [
        exact.get(p.name, np.full((batch, longest, len(p.fields)), np.nan)).reshape(batch, longest, -1)
        for p in design.output.ports
    ]
    begins = {name: np.stack(values, axis=1) for name, values in begin.items()}
    return _Turns(begins, inputs, results, np.stack(overflow, axis=1), np.concatenate(columns, axis=2))


def _piece(design: ProgramDesign, turns: _Turns, i: int, piece: int, known: bool, late: Flags) -> Packet:
    """A sample of trajectory i."""
    assert design.loop is not None
    loop = design.loop
    sent, came = _zeros(design.input, 1), _zeros(design.output, 1)
    sent[0, loop.start] = piece == 0
    if piece == 0:
        for name, columns in turns.begin.items():
            _put(sent, design.input, name, columns[i : i + 1])
    first = piece * loop.turns
    carried = {target for _, target in loop.carry}
    for k in range(loop.turns):
        for name, columns in turns.inputs[first + k].items():
            if name not in carried:
                _put(sent, design.input, name, columns[i : i + 1], k * loop.inputs)
        for name, columns in turns.results[first + k].items():
            _put(came, design.output, name, columns[i : i + 1], k, loop.outputs)
    overflow = turns.overflow[i, first : first + loop.turns]
    flagged = bool(overflow.any())
    came[0, design.output.overflow // WORD] = (1 | int(np.argmax(overflow)) << 1) if flagged else 0
    rows = turns.reference[i, first : first + loop.turns]
    usable = known and not late[first + loop.turns - 1] and not np.isinf(rows).any()
    return Packet(0, sent[0], came[0], flagged, rows.reshape(-1) if usable else None)


def _columns(values: Mapping[int, Any], nodes: Sequence[int]) -> npt.NDArray[Any]:
    return np.stack([np.asarray(values[i]) for i in nodes], axis=1)


def _zeros(stream: Stream, count: int) -> Words:
    return np.zeros((count, stream.words), np.uint32)


def _put(
    words: Words,
    stream: Stream,
    name: str,
    columns: npt.NDArray[Any],
    turn: int = 0,
    strides: Sequence[int] | None = None,
) -> None:
    """Integers of a port into words, (rows, words). turn, strides: words from the first turn's, of each field."""
    (port,) = (port for port in stream.ports if port.name == name)
    for place, column in zip(port.fields, columns.T, strict=True):
        if place >= 0:
            more = turn if strides is None else turn * strides[place]
            words[:, stream.fields[place].lsb // WORD + more] = (column.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)


# packets in their order


def _parts(end: int, loading: Words, answer: int) -> Group:
    """A program in parts. answer: to the last one; a core has no program before that."""
    rows = packets(loading)
    return [Packet(end, row, np.array([answer * (k == len(rows) - 1)], np.uint32)) for k, row in enumerate(rows)]


def _reloaded(end: int, loading: Words) -> Group:
    """A damaged program, one for another core, whose checksum is right, and the program again."""
    damaged, foreign = loading.copy(), loading[[0, -1]]
    damaged[len(loading) // 2, 1] ^= 1
    foreign[0, 1] ^= 1
    foreign[1, 1] = checksum(loading[:0])
    return [*_parts(end, damaged, 0), *_parts(end, foreign, 0), *_parts(end, loading, 1)]


def _streamed(subject: Subject, loading: Words, groups: list[Group], few: int) -> tuple[list[Packet], Ints]:
    """All packets in their order, and how many there are until the end of each round. few: samples of the first
    ROUNDS rounds, about."""
    parts, cut = len(subject.names) - 1, subject.silent_beats
    axi = subject.design.axi
    assert axi is not None
    streamed = _parts(parts, loading, 1)
    sizes = np.cumsum([len(group) for group in groups])
    first = min(max(int(np.searchsorted(sizes, few)) + 1, FEWEST), len(groups))
    first = len(groups) if len(groups) - first < ROUNDS else first
    alone = min(ALONE, first // 8)
    ends = np.linspace(alone, first, ROUNDS).round().astype(int)[1:]
    if first < len(groups):
        ends = np.append(ends, np.linspace(first, len(groups), ROUNDS).round().astype(int)[1:])
    round_of_it = RELOADED if loading.size * LOADS < FEW or first == len(groups) else ROUNDS - 1 + RELOADED
    reload = (ends[round_of_it - 1] + ends[round_of_it]) // 2
    bounds = []
    for k, group in enumerate(groups):
        if k == reload:
            streamed += _reloaded(parts, loading)
        for place, packet in enumerate(group):
            if cut and k > alone and k % CUT_EVERY == 0 and place == len(group) - 1:
                streamed.append(Packet(NONE, packet.words[: cut * axi.lanes], packet.answer[:0]))
            streamed.append(packet)
        if k + 1 == alone or k + 1 in ends:
            bounds.append(len(streamed))
    return streamed, np.array(bounds, np.int64)


def _vectors(
    design: ProgramDesign, subject: Subject, streamed: list[Packet], bounds: Ints, crc: int, seed: int
) -> Vectors:
    axi, shell = subject.design.axi, design.shell
    assert axi is not None
    assert shell is not None
    tags = np.random.default_rng(seed).integers(1 << 32, size=len(streamed)).astype(np.uint32)
    last = np.isin(np.arange(len(streamed)), bounds - 1) | (axi.last == PER_SAMPLE)
    expected = np.zeros((len(streamed), subject.longest_result, axi.lanes + 1), np.uint32)
    inputs = []
    for k, packet in enumerate(streamed):
        if packet.end == NONE:
            inputs.append(_beats(packet.words, axi.lanes, True))
            continue
        inputs.append(_beats(np.append(packet.words, tags[k]), axi.lanes, bool(last[k])))
        answer = _beats(np.append(packet.answer, tags[k]), axi.lanes, bool(last[k]))
        expected[k, : len(answer)] = answer
    counted = []
    for stop in sorted({ROUNDS, len(bounds)}):
        after = streamed[bounds[0] : bounds[stop - 1]]
        flagged = np.array([each.flagged for each in after if each.end < len(subject.names) - 1], np.bool_)
        counted.append(Answered(stop, flagged, sum(each.end == NONE for each in after)))
    return Vectors(
        np.concatenate(inputs),
        expected,
        np.array([each.end for each in streamed], np.int64),
        _masks(design, subject),
        [each.reference for each in streamed],
        bounds,
        operations.of_cores(subject.design, shell.cores, crc, counted),
    )


def _beats(words: Words, lanes: int, last: bool) -> Words:
    """A packet in beats, (beats, words of a beat and one whose lowest bit is TLAST)."""
    padded = np.concatenate([words, np.zeros(-len(words) % lanes, np.uint32)]).reshape(-1, lanes)
    ends = np.zeros((len(padded), 1), np.uint32)
    ends[-1] = last
    return np.concatenate([padded, ends], axis=1)


def _masks(design: ProgramDesign, subject: Subject) -> Words:
    """Of each function, ones where its results have bits: one with fewer numbers than others ends with words that mean
    nothing."""
    axi = subject.design.axi
    assert axi is not None
    masks = np.zeros((len(subject.names), subject.longest_result, axi.lanes + 1), np.uint32)
    own = [design.of_function(function) for function in design.functions] or [design]
    for k, each in enumerate(own):
        words = np.zeros(axi.beats.output * axi.lanes, np.uint32)
        for f, field in enumerate(each.output.fields):
            for turn in range(1 if design.loop is None else design.loop.turns):
                words[field.lsb // WORD + turn * (0 if design.loop is None else design.loop.outputs[f])] = 0xFFFFFFFF
        words[each.output.overflow // WORD :] = 0xFFFFFFFF
        masks[k, :, :-1] = words.reshape(-1, axi.lanes)
    masks[-1, : subject.out_beats[-1], :-1] = 0xFFFFFFFF
    masks[:, :, -1] = 1
    return masks
