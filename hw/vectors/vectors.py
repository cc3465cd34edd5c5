"""Vectors for the benches of a design: random samples, the results of the integer model, and float64 references.

States come from the region, from its limits and from near rest. Some lie far outside, so that values overflow: the
integer model defines the results of the hardware for them, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.design.codec import Words, put_row_bits
from dynagate.dynamics import CODE
from dynagate.fixedpoint.format import Integers, quantize
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import evaluate_integers, quantize_inputs
from dynagate.graph.evaluate import evaluate
from dynagate.graph.parts import needed, part_graph, parts_of
from dynagate.hw.vectors import operations, rounds
from dynagate.hw.vectors.broken import as_entered, drawn_faults, input_beats, result_tags
from dynagate.hw.vectors.built import BuiltDatapath
from dynagate.hw.vectors.directed import chosen, observed
from dynagate.hw.vectors.drawn import SAMPLES, SEED, Arrays, Flags, Ints, Rows, Vectors, drawn_states, result_rows
from dynagate.hw.vectors.operations import Counted
from dynagate.hw.vectors.rings import ring_vectors
from dynagate.hw.vectors.subject import ACCELERATOR, DATAPATH
from dynagate.hw.vectors.wire import Sent, StreamModel


class ExpectedResults(NamedTuple):
    """Expected results of samples."""

    values: dict[int, Integers]
    """Integers by index of the output field; fields that a function's results lack are absent or 0."""
    by_scope: Flags
    """Passes that overflowed, (samples, scopes of the output stream)."""


def vectors(built: BuiltDatapath, count: int = SAMPLES, seed: int = SEED) -> dict[str, Vectors]:
    """Return the vectors of a design, by the module whose bench streams them.

    Args:
        built: The design.
        count: Number of samples.
        seed: Seed of the draw; equal seeds give equal samples.
    """
    states, inside = drawn_states(built, count, seed, lambda pool, chosen: _selected(built, pool, chosen))
    modules = built.design.modules
    is_bare = ACCELERATOR not in modules or built.design.body.ring is not None
    each = _of_datapath(built, states, inside) if is_bare else _of_both(built, states, inside, seed)
    if built.design.body.ring is not None:
        each |= ring_vectors(built, count, seed)
    return {module: each[module] for module in modules}


def _of_datapath(built: BuiltDatapath, states: Arrays, inside: Flags) -> dict[str, Vectors]:
    """Return the vectors of a datapath without a shell."""
    ends = _ends(built, states)
    integers = quantize_inputs(built.formatted, states)
    reference = _reference(built, states, ends, inside)
    return {DATAPATH: _payloads(built, integers, results_of(built, integers, ends), ends, reference)}


def _of_both(built: BuiltDatapath, states: Arrays, inside: Flags, seed: int) -> dict[str, Vectors]:
    """Return the vectors of a datapath and of the shell around it. Both stream the same samples, whose results are
    computed once; some samples of the shell are broken."""
    ends, wire, nodes = _ends(built, states), StreamModel(built.design, built.formatted), built.graph.input_nodes
    parameters = wire.axi.parameters
    first = {name: value[:1].astype(np.float32) for name, value in states.items() if name in parameters}
    count = len(ends)
    states |= {name: np.repeat(value, count, axis=0).astype(np.float64) for name, value in first.items()}
    numbers = _numbers(built, states)
    streamed, held = numbers[:, : len(wire.fields)], numbers[0, len(wire.fields) :]
    wire_numbers, strange = wire.with_invalid_numbers(streamed, seed)
    sent = wire.sent(wire_numbers)
    integers = {nodes[k]: value for k, value in sent.integers.items()}
    fitted = [quantize(x, built.formatted.formats[i]) for x, i in zip(held, nodes[len(wire.fields) :], strict=True)]
    constants = {i: int(each.value) for i, each in zip(nodes[len(wire.fields) :], fitted, strict=True)}
    integers |= {i: np.full(count, value) for i, value in constants.items()}
    unfit = any(bool(each.overflow) for each in fitted)
    results = results_of(built, integers, ends)
    reference = _reference(built, states, ends, inside & ~strange)
    streamed_samples = _Samples(ends, wire_numbers, constants, unfit, results, reference)
    shell, counted = _shelled(built, wire, streamed_samples, seed)
    held_words = {name: value.reshape(-1) for name, value in first.items()}
    shell = shell._replace(operations=operations.datapath_accesses(built.design, held_words, counted))
    return {DATAPATH: _payloads(built, integers, results, ends, reference), ACCELERATOR: shell}


class _Samples(NamedTuple):
    """Samples for a datapath and its shell, none of them broken."""

    ends: Ints
    """The function of each sample, (samples,)."""
    numbers: npt.NDArray[np.float64]
    """Numbers on the stream, (samples, numbers)."""
    constants: Mapping[int, int]
    """Integers of the parameters that registers hold, by node."""
    unfit: bool
    """Whether one of these does not fit its format."""
    results: ExpectedResults
    reference: Rows


def _shelled(built: BuiltDatapath, wire: StreamModel, samples: _Samples, seed: int) -> tuple[Vectors, Counted]:
    """Return the vectors of a shell without register accesses, and the expected counts after all samples.

    On the AXI streams, samples of one function follow each other, so that results keep their order.
    """
    axi, count = wire.axi, len(samples.ends)
    order = np.argsort(samples.ends, kind="stable")
    ends, functions = samples.ends[order], len(built.hardware.plan.deliveries)
    bounds = rounds.bounds([int((ends == end).sum()) for end in range(functions)])
    broken = drawn_faults(axi, functions, count, int(bounds[0]), seed)
    cut = broken.beats < axi.beats.input
    sent = as_entered(wire, wire.sent(samples.numbers[order]), broken)
    results = _recomputed(built, samples, order, sent, np.flatnonzero(cut))
    bad = sent.bad | samples.unfit
    flagged = np.asarray(results.by_scope.any(axis=1))
    last = np.isin(np.arange(count), bounds - 1) | cut
    tags = np.random.default_rng(seed).integers(1 << 32, size=count)
    whole = wire.beats(wire.sent(samples.numbers[order]).words, tags, last, axi.beats.input)
    there = ~broken.dropped
    unusable = np.asarray(bad | flagged | broken.unusable)
    vectors = Vectors(
        input_beats(axi, whole, broken),
        _received(built, wire, results, ends, unusable, result_tags(axi, tags, whole, broken), last),
        np.where(there, ends, rounds.NONE),
        _beat_masks(built, wire),
        [None if unusable[k] else samples.reference[i] for k, i in enumerate(order)],
        bounds,
        [],
    )
    misaligned, holes = broken.misaligned, bool((broken.hole >= 0).any())
    return vectors, Counted(bad[there], flagged[there], results.by_scope[there], misaligned, holes)


def _recomputed(built: BuiltDatapath, samples: _Samples, order: Ints, sent: Sent, which: Ints) -> ExpectedResults:
    """Return the results in the order of the stream. which: indices of samples whose integers differ."""
    results = ExpectedResults({k: x[order] for k, x in samples.results.values.items()}, samples.results.by_scope[order])
    nodes = built.graph.input_nodes
    integers = {nodes[k]: value[which] for k, value in sent.integers.items()}
    integers |= {i: np.full(len(which), value) for i, value in samples.constants.items()}
    again = results_of(built, integers, samples.ends[order][which])
    for k, value in again.values.items():
        results.values[k][which] = value
    results.by_scope[which] = again.by_scope
    return results


def _received(
    built: BuiltDatapath,
    wire: StreamModel,
    results: ExpectedResults,
    ends: Ints,
    unusable: Flags,
    tags: Ints,
    last: Flags,
) -> Words:
    """Return results in beats. ends: index of the function of each."""
    place = {i: k for k, i in enumerate(built.graph.result_nodes)}
    longest = wire.axi.beats.output
    beats = np.zeros((len(ends), longest, wire.axi.lanes + 1), np.uint32)
    for end, delivery in enumerate(built.hardware.plan.deliveries):
        rows = np.flatnonzero(ends == end)
        fields = [place[i] for i in delivery.nodes]
        values = {k: results.values[k][rows] for k in fields}
        words = wire.received(fields, values, unusable[rows])
        own = end_beats(built, end)
        beats[rows, :own] = wire.beats(words, tags[rows], last[rows], own)
    return beats


def end_beats(built: BuiltDatapath, end: int) -> int:
    """Return the beats of a function's results on AXI streams."""
    functions = built.design.functions
    axi = built.design.of_function(functions[end]).axi if functions else built.design.axi
    assert axi is not None
    return axi.beats.output


def _beat_masks(built: BuiltDatapath, wire: StreamModel) -> Words:
    """Return masks with ones at the result bits of each function."""
    ends = len(built.hardware.plan.deliveries)
    masks = np.zeros((ends, wire.axi.beats.output, wire.axi.lanes + 1), np.uint32)
    for end in range(ends):
        masks[end, : end_beats(built, end)] = 0xFFFFFFFF
    masks[:, :, -1] &= np.uint32(1)
    return masks


def _numbers(built: BuiltDatapath, states: Arrays) -> npt.NDArray[np.float64]:
    """Return the numbers of samples, (samples, numbers), in the order of the graph's inputs."""
    count = len(next(iter(states.values())))
    return np.concatenate([states[port.name].reshape(count, -1) for port in built.graph.inputs], axis=1)


def _payloads(
    built: BuiltDatapath, integers: Mapping[int, Integers], results: ExpectedResults, ends: Ints, reference: Rows
) -> Vectors:
    """Return the vectors of the bare datapath."""
    count, sink = len(ends), built.design.output
    inputs = built.design.input.codec.from_columns([integers[i] for i in built.graph.input_nodes])
    payloads = sink.codec.from_columns([results.values[k] for k in range(len(sink.fields))])
    put_row_bits(payloads, sink.overflow, results.by_scope)
    above = sink.overflow + len(sink.scopes)
    put_row_bits(payloads, above, ends[:, None] >> np.arange(sink.bits - above) & 1 > 0)
    bounds = rounds.bounds([count])
    return Vectors(inputs[:, None], payloads[:, None], ends, _masks(built)[:, None], reference, bounds, [])


def _ends(built: BuiltDatapath, states: Arrays) -> Ints:
    """Return, for each sample, the index of its function among several."""
    ends = np.zeros(len(next(iter(states.values()))), np.int64)
    if parts_of(built.graph.name):
        for k, delivery in enumerate(built.hardware.plan.deliveries):
            ends[states[CODE.name].reshape(-1) == delivery.code] = k
    return ends


def results_of(built: BuiltDatapath, integers: Mapping[int, Integers], ends: Ints) -> ExpectedResults:
    """Compute the results of samples.

    Args:
        built: The design.
        integers: Integers of the inputs, by node.
        ends: Index of each sample's function.
    """
    sink, graph, count = built.design.output, built.graph, len(ends)
    place = {i: k for k, i in enumerate(graph.result_nodes)}
    results = ExpectedResults(
        {k: np.zeros(count, np.int64) for k in place.values()}, np.zeros((count, len(sink.scopes)), bool)
    )
    for part in functions_of(built, integers, ends):
        values = evaluate_integers(part.formatted, part.inputs)
        for i in part.nodes:
            if i in part.number:  # a result that is always zero is in no function's part
                results.values[place[i]][part.rows] = values.value[part.number[i]]
        for scope, flags in zip(part.formatted.graph.scopes, values.by_scope.T, strict=True):
            results.by_scope[part.rows, sink.scopes.index(scope)] = flags
    return results


class FunctionSamples(NamedTuple):
    """Samples of one function of a datapath."""

    rows: Ints
    """Indices of the samples."""
    formatted: FormattedGraph
    """The graph of the function."""
    inputs: dict[int, Integers]
    """Integers of the inputs, by node of that graph."""
    nodes: tuple[int, ...]
    """Nodes of the datapath's graph that are results of the function."""
    number: Mapping[int, int]
    """Node of the function's graph, by node of the datapath's."""


def functions_of(built: BuiltDatapath, integers: Mapping[int, Integers], ends: Ints) -> Iterator[FunctionSamples]:
    """Yield the samples of each function that has any. Arguments are those of `results_of`."""
    graph, parts = built.graph, parts_of(built.graph.name)
    for end, delivery in enumerate(built.hardware.plan.deliveries):
        rows = np.flatnonzero(ends == end)
        if not len(rows):
            continue
        here = {i: value[rows] for i, value in integers.items()}
        formatted, number = built.formatted, {i: i for i in delivery.nodes}
        if parts:
            number = {i: k for k, i in enumerate(needed(graph, parts[end]))}
            formatted = built.formatted.of_part(parts[end])
            here = {number[i]: value for i, value in here.items() if i in number}
        yield FunctionSamples(rows, formatted, here, delivery.nodes, number)


def _selected(built: BuiltDatapath, pool: Arrays, count: int) -> Ints:
    """Return the indices of at most `count` states of a pool that cover most overflows and table entries."""
    integers, ends = quantize_inputs(built.formatted, pool), _ends(built, pool)
    share = -(-count // len(built.hardware.plan.deliveries))
    picked = [
        part.rows[chosen(observed(part.formatted, part.inputs), share)] for part in functions_of(built, integers, ends)
    ]
    return np.concatenate(picked)[:count]


def _masks(built: BuiltDatapath) -> Words:
    """Return masks with ones at the result bits of each function."""
    sink, parts = built.design.output, parts_of(built.graph.name)
    place = {i: k for k, i in enumerate(built.graph.result_nodes)}
    masks = np.zeros((len(built.hardware.plan.deliveries), sink.words), np.uint32)
    for end, delivery in enumerate(built.hardware.plan.deliveries):
        own = set(needed(built.graph, parts[end])) if parts else set(delivery.nodes)
        which = [place[i] for i in own.intersection(delivery.nodes)]
        sink.codec.put_integers(masks[end : end + 1], np.full((1, len(which)), -1), which)
    put_row_bits(masks, sink.overflow, np.ones((len(masks), sink.bits - sink.overflow), np.bool_))
    return masks


def _reference(built: BuiltDatapath, states: Arrays, ends: Ints, inside: Flags) -> Rows:
    """Return the float64 outputs of samples inside the region."""
    graph, parts = built.graph, parts_of(built.graph.name)
    rows: Rows = [None] * len(ends)
    for end in range(len(built.hardware.plan.deliveries)):
        chosen = np.flatnonzero((ends == end) & inside)
        if not len(chosen):
            continue
        own = {key: value[chosen] for key, value in states.items()}
        if parts:
            alone = part_graph(graph, parts[end])
            shared = dict(parts[end].inputs)
            own = {port.name: own[shared.get(port.name, port.name)] for port in alone.inputs}
            results = evaluate(alone, own)
        else:
            results = evaluate(graph, own)
        for row, values in zip(chosen, result_rows(results), strict=True):
            rows[row] = values
    return rows
