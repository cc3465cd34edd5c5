"""Word lengths of least cost for an accuracy: bits where the outputs feel them, and one DSP block a product.

A DSP48E2 multiplies 27 × 18 bits, so every product needs a narrow operand (`fixedpoint.narrow`). All other words are as
long as makes the last bit of each worth as much (`fixedpoint.words`). How much noise that may be is tried and measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.assign import (
    LARGEST_WORD,
    FormattedGraph,
    Policy,
    assign_word,
    fixed_factor,
    frac_for,
    sampled_states,
)
from dynagate.fixedpoint.confidence import measured, quantile_bound
from dynagate.fixedpoint.narrow import Vertex, cheapest_cover
from dynagate.fixedpoint.noise import block_gains, crowding, gains, variance
from dynagate.fixedpoint.ranges import Ranges, sampled_ranges
from dynagate.fixedpoint.words import SHORTEST, Words
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate, evaluate_nodes
from dynagate.region import Region

Array = npt.NDArray[np.float64]
ATTEMPTS, SETTLING = 12, 4
"""Budgets tried, at most and at least: each is corrected by what the one before was measured to give."""

SHARED = 24
"""Word of angles, sines, cosines, divisors and inverses, tried before the widest: a reciprocal of up to 25 bits takes
one Newton step."""

CROWD = 0.1
"""Noise that a node may have in its range, beside the guard bits."""

DEAR = 1e4
"""Price of narrowing a divisor or its inverse: all of them share a unit, and so a width."""

SPARED = 1e-3
"""Noise, of all that is allowed, that it takes to give a product a second block."""

TAIL, DRAWS = 10.0, 8
"""The noise in so many times the states that the quantile leaves out is what counts, with so many signs for each."""

DSP_BITS = 40
"""What a multiplier block weighs beside bits of registers and adders: it holds about as many in its pipeline."""

GAIN_STATES = 512
ROOM = 0.96
"""Part of the target that is aimed at."""


@dataclass(frozen=True)
class Multiplier:
    """A hardware multiplier of signed operands: bits of the wide one and of the narrow one."""

    name: str
    wide: int
    narrow: int

    def blocks(self, a: int, b: int) -> int:
        """Blocks that a product of a and b bits takes; a part has one bit less than an operand, but for the sign's."""

        def tiles(wide: int, narrow: int) -> int:
            return math.ceil(max(wide - 1, 1) / (self.wide - 1)) * math.ceil(max(narrow - 1, 1) / (self.narrow - 1))

        return min(tiles(a, b), tiles(b, a))


DSP48E2 = Multiplier("DSP48E2", 27, 18)
DSP48E1 = Multiplier("DSP48E1", 25, 18)
MULT18X18 = Multiplier("18x18", 18, 18)
MULTIPLIERS = {m.name: m for m in (DSP48E2, DSP48E1, MULT18X18)}


class AccuracyError(ValueError):
    """No formats of the allowed words reach the target; the text says what is reachable and which node stops it."""


@dataclass(frozen=True)
class Goal:
    """What is wanted: relative L2 error of every output block at most `error` in a `quantile` of the region's states.

    error: for all blocks, or by the name of each (a block without one may be as wrong as it likes).
    confidence: of that statement. dsp: the target's multiplier, whose wide operand is the longest word. spare: part of
    the products that may take more than one, exceeded only where no formats meet the error otherwise. states, seed:
    what the quantile is measured on.
    """

    error: float | Mapping[str, float]
    quantile: float = 0.999
    confidence: float = 0.99
    dsp: Multiplier = DSP48E2
    spare: float = 0.1
    states: int = 16384
    seed: int = 31

    def __post_init__(self) -> None:
        errors = [self.error] if isinstance(self.error, float | int) else list(self.error.values())
        if (
            not all(0.0 < e < 1.0 for e in errors)
            or not errors
            or not 0.0 < self.quantile < 1.0
            or not 0.0 <= self.spare <= 1.0
        ):
            raise ValueError(f"{self}; expected an error and a quantile between 0 and 1, and spare from 0 to 1")

    def of(self, block: str) -> float:
        """The error that a block may have."""
        return float(self.error) if isinstance(self.error, float | int) else float(self.error.get(block, math.inf))


@dataclass(frozen=True)
class Optimised:
    """formatted: the formats. error: at the goal's quantile and confidence, of the worst block, which is `block`."""

    formatted: FormattedGraph
    error: float
    block: str


def optimise(
    graph: Graph,
    region: Region,
    goal: Goal,
    policy: Policy | None = None,
    trajectories: Mapping[str, npt.ArrayLike] | None = None,
) -> Optimised:
    """Formats that meet the goal on its states, measured by the integer executor.

    policy: guard bits, samples of the ranges and arithmetic; its word is not used. trajectories: as in `assign`.
    Raises AccuracyError where even the widest words do not, ValueError for an error of a block that is none.
    """
    policy = replace(policy or Policy(guard_bits=None), word=goal.dsp.wide)
    inputs = sampled_states(graph, region, policy, trajectories)
    ranges = sampled_ranges(graph, inputs)
    some = {key: value[:GAIN_STATES] for key, value in inputs.items()}
    names = [port.name for port in graph.outputs]
    for name in () if isinstance(goal.error, float | int) else goal.error:
        if name not in names:
            raise ValueError(f"an error for block '{name}'; expected one of {', '.join(names)}")
    targets = np.array([goal.of(name) for name in names])
    felt = gains(graph, some) / targets[:, None] ** 2  # by every block
    crowd = crowding(graph, some, ranges) / CROWD**2
    sizes = np.array([float(np.mean(np.square(v))) for v in evaluate_nodes(graph, some)])

    states = region.sample(graph.name, goal.states, goal.seed)
    expected = evaluate(graph, states)

    def errors(formatted: FormattedGraph) -> tuple[Array, Array]:
        """(blocks, states) of every state, and (blocks,) what the quantile of them is at most, in targets."""
        found, _ = measured(formatted, states, expected)
        each = np.array([found[name] for name in names]) / targets[:, None]
        return each, np.array([quantile_bound(e, goal.quantile, goal.confidence) for e in each])

    def worst(formatted: FormattedGraph, ratios: Array) -> Optimised:
        k = int(np.argmax(ratios))
        return Optimised(formatted, float(ratios[k] * targets[k]), names[k])

    widest = assign_word(graph, region, ranges, policy)
    _, ratios = errors(widest)
    fallback = worst(widest, ratios)
    if max(ratios) > 1.0:
        noise = felt.max(axis=0) * [variance(widest, i) for i in range(len(graph.nodes))]
        node = graph.nodes[int(np.argmax(noise))]
        raise AccuracyError(
            f"words of {goal.dsp.wide} bits give {fallback.block} an error of {fallback.error:.1e} in "
            f"{goal.quantile:.1%} of the states; {goal.of(fallback.block):.1e} was asked for, and node '{node.name}' "
            f"adds most of it"
        )

    def cheapest(shared: int, spare: float) -> Optimised | None:
        """Of the attempts that meet the goal."""
        best: Optimised | None = None
        strict = np.ones(len(names))  # by block: its noise counts so many times
        gain, cover = felt, None
        last, stalled = math.inf, 0
        for attempt in range(ATTEMPTS):
            formatted, cover = _within(
                graph, ranges, region, policy, goal, strict @ gain + crowd, sizes, shared, spare, cover
            )
            each, ratios = errors(formatted)
            ratio = max(ratios)
            if ratio <= 1.0 and (best is None or bits(formatted, goal.dsp) < bits(best.formatted, goal.dsp)):
                best = worst(formatted, ratios)
            stalled = stalled + 1 if ratio > 1.2 and ratio > 0.9 * last else 0
            if stalled == 3 or (attempt >= SETTLING and 0.97 <= ratio <= 1.0):
                break  # as far as narrow operands let it come, or there
            if attempt < SETTLING:
                gain, cover = tail(each, gain, attempt), None
            change = np.minimum(ratios, 10.0) / ROOM
            if best is None and attempt >= SETTLING:  # small graphs jump past the target: only come closer
                change = np.maximum(change, 1.0)
            strict, last = strict * change ** ((2 if attempt < SETTLING else 1) * (1 + stalled)), ratio
            strict = np.maximum(strict, max(strict) / 100.0)
        return best

    def tail(each: Array, before: Array, seed: int) -> Array:
        """Gains of every block in the states that it errs most in, which the quantile is about; from the second time
        on the mean with those before."""
        count = math.ceil(TAIL * (1.0 - goal.quantile) * goal.states)
        found = []
        for port, target, error in zip(graph.outputs, targets, each, strict=True):
            most = np.argsort(-error)[:count]
            some = {key: value[most] for key, value in states.items()}
            found.append(block_gains(graph, some, port, draws=DRAWS, seed=seed) / target**2)
        return np.array(found) if seed == 0 else 0.5 * (np.array(found) + before)

    spares = (goal.spare, *(more for more in (0.3, 1.0) if more > goal.spare))
    tried = (cheapest(shared, spare) for spare in spares for shared in (SHARED, goal.dsp.wide))
    return next((found for found in tried if found is not None), fallback)


def bits(formatted: FormattedGraph, dsp: Multiplier = DSP48E2) -> int:
    """A measure of cost that needs no schedule: the bits of all nodes, and DSP_BITS for a multiplier block."""
    return sum(f.width for f in formatted.formats) + DSP_BITS * sum(dsp_blocks(formatted, dsp))


def dsp_blocks(formatted: FormattedGraph, dsp: Multiplier = DSP48E2) -> list[int]:
    """Multiplier blocks that each product takes, if it has them for its own."""
    graph, formats = formatted.graph, formatted.formats
    found = []
    for i, node in enumerate(graph.nodes):
        if node.op in ("mul", "mul_const"):
            widths = [formats[a].width for a in node.args]
            widths += [formatted.constants[i][1].width] if node.op == "mul_const" else []
            found.append(dsp.blocks(*widths))
    return found


def _within(
    graph: Graph,
    ranges: Ranges,
    region: Region,
    policy: Policy,
    goal: Goal,
    weight: Array,
    sizes: Array,
    shared: int,
    spare: float,
    cover: set[Vertex] | None,
) -> tuple[FormattedGraph, set[Vertex]]:
    """Formats whose predicted noise is 1 in units of `weight`, or as near as the narrow operands let it come, and what
    is narrow. shared: the word of what shares a sine or reciprocal unit. spare: part of the products that may take
    more than one block. cover: what is to be narrow, if that is known."""
    wide, narrow = goal.dsp.wide, goal.dsp.narrow
    root = graph.roots
    fixed = _one_format(graph)
    divisions = {x for i, node in enumerate(graph.nodes) if node.op == "reciprocal" for x in (i, *node.args)}
    integer = [LARGEST_WORD - frac_for(_reach(graph, ranges, policy, i), LARGEST_WORD) for i in range(len(root))]
    unit = 4.0 ** np.array(integer) / 12.0  # variance of a rounding in a word of no bits
    words = np.where(fixed, shared, _shared_noise(weight * unit, fixed, goal, ROOM))
    price: dict[Vertex, float] = {}  # the noise of having it narrow
    edges: list[tuple[Vertex, Vertex]] = []
    for i, node in enumerate(graph.nodes):
        if node.op == "mul":
            a, b = (root[x] for x in node.args)
            edges.append((a, b))
        elif node.op == "mul_const":
            a = root[node.args[0]]
            value, fmt = fixed_factor(float(node.constant or 0.0), narrow)
            price["constant", i] = float(weight[i] * sizes[a] * (value * fmt.step - float(node.constant or 0.0)) ** 2)
            edges.append((a, ("constant", i)))
        else:
            continue
        for x in (root[x] for x in node.args):
            price[x] = 0.0 if words[x] <= narrow else float(weight[x] * unit[x] * 4.0**-narrow)
            if x in divisions:
                price[x] = DEAR
    if cover is None:
        cover = cheapest_cover(edges, price, int(spare * len(edges)), SPARED)
    left = max(ROOM - sum(price[x] for x in cover), 0.1)
    limit = np.where([i in cover for i in range(len(root))], narrow, wide)
    words = np.where(fixed, shared, _shared_noise(weight * unit, fixed, goal, left))
    words = np.minimum(words, limit).astype(int)
    widths = {x[1]: narrow if x in cover else wide for x in price if not isinstance(x, int)}
    fracs = {i: fixed_factor(float(graph.nodes[i].constant or 0.0), width)[1].frac for i, width in widths.items()}
    movable = [i for i, node in enumerate(graph.nodes) if not fixed[i] and node.op not in ("shift", "const")]
    found = Words(graph, integer, weight, fracs).shortest(words.tolist(), limit.tolist(), movable, ROOM)
    return assign_word(graph, region, ranges, policy, found, widths), cover


def _one_format(graph: Graph) -> npt.NDArray[np.bool_]:
    """Nodes that share a sine or reciprocal unit with others, and so a width: wide, or narrow, nothing between."""
    found = np.zeros(len(graph.nodes), dtype=bool)
    for i, node in enumerate(graph.nodes):
        if node.op in ("sin", "cos", "reciprocal"):
            found[i] = True
            found[list(node.args)] = True
    return found


def _reach(graph: Graph, ranges: Ranges, policy: Policy, i: int) -> float:
    if graph.nodes[i].op in ("input", "sin", "cos"):
        found = float(ranges.largest[i])
    else:
        found = float(ranges.reach[i] if policy.guard_bits is None else ranges.largest[i] * 2.0**policy.guard_bits)
    return max(found, 2.0**-40)


def _shared_noise(noise: Array, fixed: npt.NDArray[np.bool_], goal: Goal, budget: float) -> Array:
    """Words with which every node adds the same noise and all together the budget; noise: of a word of no bits."""
    free = np.flatnonzero((noise > 0.0) & ~fixed)
    share = budget / max(len(free), 1)
    words = np.full(len(noise), float(SHORTEST))
    words[free] = np.clip(np.ceil(0.5 * np.log2(noise[free] / share)), SHORTEST, goal.dsp.wide)
    return words
