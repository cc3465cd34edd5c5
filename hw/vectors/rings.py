"""Vectors for the bench of a ring, bare and in its shell: steps of trajectories, and the results of the integer model.

The first rounds show the results of every step, the next ones of every third step; in the last rounds a register ends
the trajectories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.design.codec import Words, put_row_bits
from dynagate.design.ring import ring_design
from dynagate.design.words import WORD
from dynagate.fixedpoint.format import Integers
from dynagate.fixedpoint.models.evaluate import quantize_inputs
from dynagate.fixedpoint.models.feedback import STOP, FeedbackModel, FeedbackStep, StepOrder
from dynagate.graph.evaluate import evaluate
from dynagate.hw.vectors import operations, rounds
from dynagate.hw.vectors.built import BuiltDatapath
from dynagate.hw.vectors.drawn import Arrays, Flags, Ints, Rows, Vectors, drawn_states, result_rows
from dynagate.hw.vectors.operations import AccessKind, Counted, RegisterAccess
from dynagate.hw.vectors.rounds import NONE, ROUNDS
from dynagate.hw.vectors.subject import ACCELERATOR, ROLLOUT
from dynagate.hw.vectors.wire import STRANGE, StreamModel, insert_tkeep, kept_bytes

LONGEST, ALIKE = 8, 5
"""Number of steps of the trajectories that a register ends."""


class StreamedPart(NamedTuple):
    """Rounds with the same register settings."""

    rounds: range
    """The rounds."""
    every: int
    """Value of the register `every`."""
    steps: int
    """Value of the register `steps`."""


PARTS = (StreamedPart(range(9), 0, 0), StreamedPart(range(9, 13), 3, 0), StreamedPart(range(13, ROUNDS), 0, ALIKE))
"""Register settings of all rounds."""


class StreamedSteps(NamedTuple):
    """Steps in the order in which they enter the ring; arrays are (steps,)."""

    columns: dict[int, Integers]
    """Integers of the inputs, by index of the field."""
    commands: Ints
    """Commands of the steps."""
    bad: Flags
    """Steps with an input that does not fit."""
    values: dict[int, Integers]
    """Integers of the results, by index of the field."""
    by_scope: Flags
    """Passes that overflowed, (steps, scopes)."""
    flagged: Flags
    """Steps that overflowed, or that follow such a step or one with a bad input."""
    shown: Flags
    """Steps whose results are sent."""
    words: Words | None
    """Words on AXI streams, if there are any."""
    reference: Rows
    """Float64 outputs."""


def ring_vectors(built: BuiltDatapath, count: int, seed: int) -> dict[str, Vectors]:
    """Return the vectors of this many steps, for the ring and for the shell around it."""
    wire = None if built.design.axi is None else StreamModel(built.design, built.formatted)
    sizes = _sizes(count)
    parts = [_part(built, wire, part, size, seed + k) for k, (part, size) in enumerate(zip(PARTS, sizes, strict=True))]
    bounds = rounds.bounds(sizes, [len(part.rounds) for part in PARTS])
    count = sum(sizes)
    last = np.isin(np.arange(count), bounds - 1)
    tags = np.random.default_rng(seed).integers(1 << 32, size=count)
    whole = _joined(parts)
    result = {ROLLOUT: _bare(built, whole, last, tags, bounds)}
    if wire is not None:
        result[ACCELERATOR] = _shelled(built, wire, whole, last, tags, bounds)
    return result


def _sizes(count: int) -> list[int]:
    """Return the number of steps of each part; that of the last part is a multiple of ALIKE."""
    last = max(round(count * len(PARTS[2].rounds) / ROUNDS / ALIKE), 2) * ALIKE
    second = round(count * len(PARTS[1].rounds) / ROUNDS)
    return [max(count - second - last, LONGEST), max(second, LONGEST), last]


def _joined(parts: Sequence[StreamedSteps]) -> StreamedSteps:
    """Return the steps of all parts in sequence."""

    def one(name: str) -> Any:
        first, *others = (getattr(part, name) for part in parts)
        if isinstance(first, dict):
            return {key: np.concatenate([value, *(other[key] for other in others)]) for key, value in first.items()}
        if isinstance(first, list):
            return [*first, *(row for other in others for row in other)]
        return None if first is None else np.concatenate([first, *others])

    return StreamedSteps(**{name: one(name) for name in StreamedSteps._fields})


def _part(built: BuiltDatapath, wire: StreamModel | None, part: StreamedPart, size: int, seed: int) -> StreamedSteps:
    """Return steps of trajectories of random lengths, or of trajectories that a register ends."""
    assert built.design.body.ring is not None
    steps = _lengths(part, size, seed)
    longest, batch = int(steps.max()), len(steps)
    order = StepOrder.of(steps, built.design.body.ring.capacity)
    states, inside = drawn_states(built, batch * longest, seed)
    carry, count = dict(built.design.body.ring.carry), len(order.step)
    for name in carry.values():  # the stream repeats where a trajectory started
        first = states[name].reshape(batch, longest, -1)[:, :1]
        states[name] = np.repeat(first, longest, axis=1).reshape(states[name].shape)
    beyond = ~np.asarray(inside.reshape(batch, longest).all(axis=1))
    commands = order.commands(steps) & (~STOP if part.steps else -1)
    at = order.trajectory * longest + order.step
    integers, bad, words = _integers(built, wire, states, at, commands, seed)
    rows, late = _evaluated(built, integers, bad.reshape(batch, longest), carry)
    chosen = order.step, order.trajectory
    flagged = np.stack([row.flagged for row in rows])[chosen] | late[order.trajectory, order.step]
    ends = order.step + 1 == steps[order.trajectory]
    reference = _reference(built, states, (batch, longest), carry, beyond)
    return StreamedSteps(
        {k: integers[i][at] for k, i in enumerate(built.graph.input_nodes)},
        commands,
        bad[at],
        {k: np.stack([row.values[i] for row in rows])[chosen] for k, i in enumerate(built.graph.result_nodes)},
        np.stack([row.by_scope for row in rows])[chosen],
        flagged,
        ends | ((order.step + 1) % max(part.every, 1) == 0),
        words,
        [None if flagged[k] else reference[at[k]] for k in range(count)],
    )


def _lengths(part: StreamedPart, size: int, seed: int) -> Ints:
    """Return the number of steps of each trajectory; their sum is `size`."""
    if part.steps:
        return np.full(size // part.steps, part.steps)
    drawn = np.random.default_rng(seed).integers(1, LONGEST + 1, size)
    steps = drawn[: int(np.searchsorted(np.cumsum(drawn), size)) + 1]
    steps[-1] -= steps.sum() - size
    return steps


def _integers(
    built: BuiltDatapath, wire: StreamModel | None, states: Arrays, at: Ints, commands: Ints, seed: int
) -> tuple[dict[int, Integers], Flags, Words | None]:
    """Return the integers of the inputs by node, which of them do not fit, and the words of streamed steps.

    at: indices of the streamed steps.
    """
    graph = built.graph
    if wire is None:
        integers = quantize_inputs(built.formatted, states)
        bad = np.arange(len(next(iter(states.values())))) % STRANGE == STRANGE // 2  # reported as unfit by the stream
        return integers, bad, None
    count = len(next(iter(states.values())))
    numbers = np.concatenate([states[port.name].reshape(count, -1) for port in graph.inputs], axis=1)
    numbers, _ = wire.with_invalid_numbers(numbers, seed)
    asked = np.zeros((count, 1))
    asked[at, 0] = ~commands & 3  # what a step says on an AXI stream
    sent = wire.sent(np.concatenate([numbers, asked], axis=1))
    return {i: sent.integers[k] for k, i in enumerate(graph.input_nodes)}, sent.bad, sent.words[at]


def _evaluated(
    built: BuiltDatapath, integers: Mapping[int, Integers], bad: Flags, carry: Mapping[str, str]
) -> tuple[list[FeedbackStep], Flags]:
    """Compute the steps of all trajectories, and which follow or have an input that does not fit, (trajectories,
    steps).
    """
    batch, longest = bad.shape
    carried = {i for port in built.graph.inputs if port.name in carry.values() for i in port.nodes}
    each = {i: value.reshape(batch, longest) for i, value in integers.items()}
    loop = FeedbackModel(built.formatted, carry, {i: each[i][:, 0] for i in carried})
    rows = [loop.advance({i: value[:, k] for i, value in each.items() if i not in carried}) for k in range(longest)]
    return rows, np.logical_or.accumulate(bad, axis=1)


def _reference(
    built: BuiltDatapath, states: Arrays, shape: tuple[int, int], carry: Mapping[str, str], beyond: Flags
) -> list[npt.NDArray[np.float64] | None]:
    """Return the outputs of all steps in float64."""
    batch, longest = shape
    each = {name: value.reshape(batch, longest, *value.shape[1:]) for name, value in states.items()}
    state = {name: value[:, 0] for name, value in each.items()}
    rows: list[npt.NDArray[np.float64] | None] = [None] * (batch * longest)
    with np.errstate(all="ignore"):
        for k in range(longest):
            state |= {name: value[:, k] for name, value in each.items() if name not in carry.values()}
            results = evaluate(built.graph, state)
            state |= {target: results[source] for source, target in carry.items()}
            for j, values in enumerate(result_rows(results)):
                if not beyond[j] and np.isfinite(values).all():
                    rows[j * longest + k] = values
    return rows


def _bare(built: BuiltDatapath, part: StreamedSteps, last: Flags, tags: Ints, bounds: Ints) -> Vectors:
    """Return the vectors of the bare ring."""
    design = ring_design(built.design)
    fields = len(built.graph.input_nodes)
    signed = tags - ((tags >> 31) << 32)
    columns = [*(part.columns[k] for k in range(fields)), part.commands + 4 * part.bad + 8 * last, signed]
    results = design.output.codec.from_columns([part.values[k] for k in range(len(design.output.fields))])
    bits = [*part.by_scope.T, part.flagged, last, *((tags >> k & 1).astype(bool) for k in range(32))]
    put_row_bits(results, design.output.overflow, np.stack(bits, axis=1))
    masks = np.full((1, 1, design.output.words), 0xFFFFFFFF, np.uint32)
    masks[0, 0, -1] >>= np.uint32(-design.output.bits % 32)
    settings = [
        RegisterAccess(part.rounds.start, AccessKind.WRITE, address, word)
        for part in PARTS
        for address, word in ((0, part.steps), (4, part.every))
    ]
    inputs = design.input.codec.from_columns(columns)[:, None]
    return Vectors(inputs, results[:, None], _ends(part), masks, part.reference, bounds, settings)


def _ends(part: StreamedSteps) -> Ints:
    """Return the end of each step's result."""
    return np.where(part.shown, 0, NONE)


def _shelled(
    built: BuiltDatapath, wire: StreamModel, part: StreamedSteps, last: Flags, tags: Ints, bounds: Ints
) -> Vectors:
    """Return the vectors of the ring in its shell."""
    assert part.words is not None
    axi = wire.axi
    place = {i: k for k, i in enumerate(built.graph.result_nodes)}
    words = wire.received([place[i] for i in built.hardware.plan.deliveries[0].nodes], part.values, part.flagged)
    settings = {part.rounds.start: {"steps": part.steps, "every": part.every} for part in PARTS}
    counted = Counted(part.bad, part.flagged[part.shown], part.by_scope[part.shown])
    masks = np.full((1, axi.beats.output, axi.lanes + 1), 0xFFFFFFFF, np.uint32)
    masks[:, :, -1] = 1
    odd = np.arange(len(tags)) % 2 == 1
    keep = kept_bytes(axi.beats.input, axi.width, WORD // 8 * (axi.words.input % axi.lanes + 1), odd)
    return Vectors(
        insert_tkeep(wire.beats(part.words, tags, last, axi.beats.input), keep),
        wire.beats(words, tags, last, axi.beats.output),
        _ends(part),
        masks,
        part.reference,
        bounds,
        operations.datapath_accesses(built.design, {}, counted, settings),
    )
