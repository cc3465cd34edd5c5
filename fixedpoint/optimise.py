"""Word lengths of least cost for an accuracy: bits where the outputs feel them, and one DSP block a product.

A DSP48E2 multiplies 27 × 18 bits. Which operand of a product is the narrow one is a cover problem: every product needs
an operand of at most 18 bits, a node that is narrow serves all its products, and what it costs is the noise that its
rounding brings to the outputs. The other nodes share what noise is left, so that the last bit of each buys as much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.assign import FormattedGraph, Policy, assign_word, fixed_factor, frac_for, sampled_states
from dynagate.fixedpoint.confidence import state
from dynagate.fixedpoint.noise import crowding, gains, variance
from dynagate.fixedpoint.ranges import Ranges, sampled_ranges
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate_nodes
from dynagate.region import Region

Array = npt.NDArray[np.float64]
ATTEMPTS, SETTLING = 10, 3
"""Budgets tried, at most and at least: each is corrected by what the one before was measured to give."""

SHARED = 24
"""Word of angles, sines, cosines, divisors and inverses, tried before the widest: a reciprocal of up to 25 bits takes
one Newton step."""

CROWD = 0.1
"""Noise that a node may have in its range, beside the guard bits."""

DEAR = 1e12
"""Price of narrowing a divisor or its inverse: all of them share a unit, and so a width."""

SHORTEST = 6
DSP_BITS = 40
"""What a multiplier block weighs beside bits of registers and adders: it holds about as many in its pipeline."""

GAIN_STATES = 512
ROOM = 0.95
"""Part of the target that is aimed at."""

Vertex = int | tuple[str, int]


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

    def measured(formatted: FormattedGraph) -> tuple[Array, str, float]:
        """Errors of the blocks, in targets; of the worst beside its target the name and the error."""
        said = state(
            formatted,
            region,
            quantile=goal.quantile,
            confidence=goal.confidence,
            states=goal.states,
            seed=goal.seed,
        )
        ratios = np.array([said.error[name] for name in names]) / targets
        worst = names[int(np.argmax(ratios))]
        return ratios, worst, said.error[worst]

    widest = assign_word(graph, region, ranges, policy)
    ratios, block, error = measured(widest)
    fallback = Optimised(widest, error, block)
    if max(ratios) > 1.0:
        noise = felt.max(axis=0) * [variance(widest, i) for i in range(len(graph.nodes))]
        node = graph.nodes[int(np.argmax(noise))]
        raise AccuracyError(
            f"words of {goal.dsp.wide} bits give {block} an error of {error:.1e} in {goal.quantile:.1%} of the states; "
            f"{goal.of(block):.1e} was asked for, and node '{node.name}' adds most of it"
        )

    def cheapest(shared: int, spare: float) -> Optimised | None:
        """Of the attempts that meet the goal."""
        best: Optimised | None = None
        strict = np.full(len(names), 4.0)  # by block: its noise counts so many times
        last, stalled = math.inf, 0
        for attempt in range(ATTEMPTS):
            weight = strict @ felt + crowd
            formatted = _within(graph, region, ranges, policy, goal, weight, sizes, shared, spare)
            ratios, block, error = measured(formatted)
            ratio = max(ratios)
            if ratio <= 1.0 and (best is None or bits(formatted, goal.dsp) < bits(best.formatted, goal.dsp)):
                best = Optimised(formatted, error, block)
            stalled = stalled + 1 if ratio > 1.2 and ratio > 0.9 * last else 0
            if stalled == 3 or (attempt >= SETTLING and 0.97 * ROOM <= ratio <= 1.0):
                break  # as far as narrow operands let it come, or there
            change = np.minimum(ratios, 10.0) / ROOM
            if best is None and attempt >= SETTLING:  # small graphs jump past the target: only come closer
                change = np.maximum(change, 1.0)
            strict, last = strict * change ** (2 + 2 * stalled), ratio
            strict = np.maximum(strict, max(strict) / 100.0)
        return best

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
    region: Region,
    ranges: Ranges,
    policy: Policy,
    goal: Goal,
    weight: Array,
    sizes: Array,
    shared: int,
    spare: float,
) -> FormattedGraph:
    """Formats whose predicted noise is 1 in units of `weight`, or as near as the narrow operands let it come. shared:
    the word of what shares a sine or reciprocal unit. spare: part of the products that may take more than one block."""
    wide, narrow = goal.dsp.wide, goal.dsp.narrow
    root = graph.roots
    fixed = _one_format(graph)
    divisions = {x for i, node in enumerate(graph.nodes) if node.op == "reciprocal" for x in (i, *node.args)}
    # variance of a rounding in a word of no bits
    unit = np.array([4.0 ** -(frac_for(_reach(graph, ranges, policy, i), 32) - 32) / 12.0 for i in range(len(root))])
    free = _shared_noise(weight * unit, fixed, goal, 0.5)
    words = np.where(fixed, shared, free)
    # a vertex: a node, or ("constant", product); its price: the noise of having it narrow
    price: dict[Vertex, float] = {}
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
    cover = _cover(edges, price)
    _spare(cover, edges, price, int(spare * len(edges)))
    chosen = {x for x in cover if isinstance(x, int)}
    spent = sum(price[x] for x in cover)
    limit = np.where([i in chosen for i in range(len(graph.nodes))], narrow, wide)
    words = np.minimum(_shared_noise(weight * unit, fixed, goal, max(1.0 - spent, 0.1)), limit)
    words = np.where(fixed, np.minimum(limit, shared), words)
    factors = {x[1]: narrow if x in cover else wide for x in price if not isinstance(x, int)}
    return assign_word(graph, region, ranges, policy, [int(w) for w in words], factors)


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


def _cover(edges: list[tuple[Vertex, Vertex]], price: Mapping[Vertex, float]) -> set[Vertex]:
    """A cheap set of vertices that touches every edge: local ratios (Bar-Yehuda & Even 1985), then what is not needed
    is taken out, the dearest first."""
    left = dict(price)
    cover: set[Vertex] = {x for x, p in price.items() if p == 0.0}
    for a, b in sorted(edges, key=lambda e: min(price[e[0]], price[e[1]])):
        if a in cover or b in cover:
            continue
        paid = min(left[a], left[b])
        for x in (a, b):
            left[x] -= paid
            if left[x] <= 0.0:
                cover.add(x)
    touching = _touching(edges)
    for x in sorted(cover, key=lambda x: -price[x]):
        if all(y in cover and y != x for y in touching[x]):
            cover.discard(x)
    return cover


def _spare(cover: set[Vertex], edges: list[tuple[Vertex, Vertex]], price: Mapping[Vertex, float], spare: int) -> None:
    """Takes vertices out whose noise is worst for the products that they leave uncovered, up to `spare` products and
    while the cover costs more than half the budget."""
    touching = _touching(edges)

    def lost(x: Vertex) -> int:
        return sum(y not in cover or y == x for y in touching[x])

    while sum(price[x] for x in cover) > 0.5:
        worth = {x: price[x] / max(lost(x), 1) for x in cover if lost(x) <= spare and price[x] > 0.0}
        if not worth:
            return
        worst = max(worth, key=lambda x: worth[x])
        spare -= lost(worst)
        cover.discard(worst)


def _touching(edges: list[tuple[Vertex, Vertex]]) -> dict[Vertex, list[Vertex]]:
    """Vertex -> the other ends of its edges."""
    found: dict[Vertex, list[Vertex]] = {}
    for a, b in edges:
        found.setdefault(a, []).append(b)
        found.setdefault(b, []).append(a)
    return found
