"""The vectors of a design's bench: payloads of random states, the payloads that the integers give, the float reference.

States come from the region, from its limits and from near rest. A part lies far outside, so that values overflow: what
hardware makes of them is defined too, by the same integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.design.payload import Words, pack_integers
from dynagate.dynamics import CODE
from dynagate.fixedpoint.evaluate import evaluate_integers, quantise_inputs
from dynagate.fixedpoint.format import Integers
from dynagate.graph.evaluate import evaluate
from dynagate.graph.parts import needed, part_graph, parts_of, pooled
from dynagate.graph.region import Kind, part_states

if TYPE_CHECKING:
    from dynagate.hw.build import Build

SAMPLES = 1000
SEED = 1
SHARES: dict[Kind, float] = {"uniform": 0.6, "limits": 0.2, "rest": 0.1}
"""The rest of the samples lies `BEYOND` times as far out as states at the limits."""
BEYOND = 3.0

Arrays = dict[str, npt.NDArray[np.float64]]


class Vectors(NamedTuple):
    """inputs, expected: payload words, (samples, words). ends: of each sample, the place of its function among several.
    masks: of each function, the payload bits that its results have, (functions, words). reference: the float64 numbers
    of each sample's outputs, row-major; None for one beyond the region."""

    inputs: Words
    expected: Words
    ends: npt.NDArray[np.int64]
    masks: Words
    reference: list[npt.NDArray[np.float64] | None]


def vectors(built: Build, count: int = SAMPLES, seed: int = SEED) -> Vectors:
    """So many samples of a design, the same ones for the same seed."""
    states, inside = _states(built, count, seed)
    integers = quantise_inputs(built.formatted, states)
    parts = parts_of(built.graph.name)
    ends = np.zeros(count, np.int64)
    for k, delivery in enumerate(built.plan.deliveries):
        if parts:
            ends[states[CODE.name].reshape(count) == delivery.code] = k
    return Vectors(
        _input_payloads(built, integers, count),
        _expected(built, integers, ends),
        ends,
        _masks(built),
        _reference(built, states, ends, inside),
    )


def _states(built: Build, count: int, seed: int) -> tuple[Arrays, npt.NDArray[np.bool_]]:
    """States of all kinds in random order, and which of them lie in the region."""
    counts = {kind: round(share * count) for kind, share in SHARES.items()}
    drawn = [_drawn(built, max(n, 1), seed, kind) for kind, n in counts.items()]
    left = count - sum(counts.values())
    drawn.append(_beyond(built, _drawn(built, max(left, 1), seed + 1, "limits")))
    sizes = [*counts.values(), left]
    states = {key: np.concatenate([part[key][:n] for part, n in zip(drawn, sizes, strict=True)]) for key in drawn[0]}
    order = np.random.default_rng(seed).permutation(count)
    inside = np.arange(count) < count - left
    return {key: np.asarray(value[order], np.float64) for key, value in states.items()}, inside[order]


def _drawn(built: Build, count: int, seed: int, kind: Kind) -> Arrays:
    """States of a kind; of several functions those of each take turns."""
    graph, region = built.graph, built.region
    if not (parts := parts_of(graph.name)):
        return region.states(graph, count, seed, kind)
    each = {part.name: part_states(part_graph(graph, part), part, region, count, seed, kind) for part in parts}
    pool = pooled(graph.name, each, count)
    return {port.name: pool.get(port.name, np.zeros((count, *port.shape))) for port in graph.inputs}


def _beyond(built: Build, states: Arrays) -> Arrays:
    """States so far out that some values overflow. Switches, codes and unit vectors stay what they are."""
    kept = {port.name for port in built.graph.inputs if port.switches or port.unit_vectors or port.name == CODE.name}
    return {key: value if key in kept else BEYOND * value for key, value in states.items()}


def _input_payloads(built: Build, integers: Mapping[int, Integers], count: int) -> Words:
    return pack_integers(built.design.input, {k: integers[i] for k, i in enumerate(built.graph.input_nodes)}, count)


def _expected(built: Build, integers: Mapping[int, Integers], ends: npt.NDArray[np.int64]) -> Words:
    """Payloads of the results; what a function's results lack is 0."""
    sink, graph = built.design.output, built.graph
    payloads = np.zeros((len(ends), sink.words), np.uint32)
    place = {i: k for k, i in enumerate(graph.result_nodes)}
    parts = parts_of(graph.name)
    for end, delivery in enumerate(built.plan.deliveries):
        rows = np.flatnonzero(ends == end)
        if not len(rows):
            continue
        here = {i: value[rows] for i, value in integers.items()}
        if parts:
            part = parts[end]
            number = {i: k for k, i in enumerate(needed(graph, part))}
            nothing = np.zeros(len(rows), np.int64)  # of a function whose results are always zero, masked
            values = evaluate_integers(
                built.formatted.of_part(part), {number[i]: value for i, value in here.items() if i in number}
            )
            columns = {place[i]: values.value[number[i]] if i in number else nothing for i in delivery.nodes}
            scopes = part_graph(graph, part).scopes
        else:
            values = evaluate_integers(built.formatted, here)
            columns = {place[i]: values.value[i] for i in delivery.nodes}
            scopes = graph.scopes
        words = pack_integers(sink, columns, len(rows))
        for scope, flags in zip(scopes, values.by_scope.T, strict=True):
            word, bit = divmod(sink.overflow + sink.scopes.index(scope), 32)
            words[:, word] |= flags.astype(np.uint32) << np.uint32(bit)
        _put(words, sink.overflow + len(sink.scopes), sink.bits, end)
        payloads[rows] = words
    return payloads


def _masks(built: Build) -> Words:
    """Of each function, ones where its results have bits."""
    sink, parts = built.design.output, parts_of(built.graph.name)
    place = {i: k for k, i in enumerate(built.graph.result_nodes)}
    masks = np.zeros((len(built.plan.deliveries), sink.words), np.uint32)
    for end, delivery in enumerate(built.plan.deliveries):
        own = set(needed(built.graph, parts[end])) if parts else set(delivery.nodes)
        for i in own.intersection(delivery.nodes):
            field = sink.fields[place[i]]
            _put(masks[end : end + 1], field.lsb, field.lsb + field.width, -1)
        _put(masks[end : end + 1], sink.overflow, sink.bits, -1)
    return masks


def _put(words: Words, low: int, stop: int, value: int) -> None:
    """Writes the low bits of a number into bits `low` to `stop` of every row."""
    for bit in range(low, stop):
        words[:, bit // 32] |= np.uint32((value >> (bit - low) & 1) << (bit % 32))


def _reference(
    built: Build, states: Arrays, ends: npt.NDArray[np.int64], inside: npt.NDArray[np.bool_]
) -> list[npt.NDArray[np.float64] | None]:
    graph, parts = built.graph, parts_of(built.graph.name)
    rows: list[npt.NDArray[np.float64] | None] = [None] * len(ends)
    for end in range(len(built.plan.deliveries)):
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
        flat = np.concatenate([value.reshape(len(chosen), -1) for value in results.values()], axis=1)
        for row, values in zip(chosen, flat, strict=True):
            rows[row] = values
    return rows
