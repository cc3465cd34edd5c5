"""Vectors of a bench, and the states that they are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.design.codec import Words
from dynagate.dynamics import CODE
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.graph import Graph
from dynagate.graph.evaluate import SHARES as FRACTIONS
from dynagate.graph.parts import part_graph, parts_of, pooled
from dynagate.graph.region import Kind, part_states
from dynagate.hw.vectors.built import BuiltDatapath
from dynagate.hw.vectors.operations import RegisterAccess

SAMPLES = 1000
"""Default number of samples."""
SEED = 1
"""Default seed."""
SHARES: dict[Kind, float] = {"uniform": 0.6, "limits": 0.2, "rest": 0.1}
"""Shares of the drawn samples by kind of states. The remaining ones are `BEYOND` times as far out as the limits."""
CHOSEN = 0.6
"""Share of all samples that are chosen from a pool, for overflows and tables, and not drawn."""
POOL, LARGEST_POOL, FAR_POOL = 3000, 9000, 1500
"""Smallest and largest number of states of the region in that pool, and number of states far beyond it."""
POOL_NODES = 1 << 22
"""Number of nodes of the graph, over all states of the region in a pool between these two sizes."""
FARTHEST = 6.0
"""Binary logarithm of the largest factor by which states of the pool exceed states of the region."""
BEYOND = 3.0
"""Factor by which some samples exceed the limits of the region."""

Arrays = dict[str, npt.NDArray[np.float64]]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Rows = list[npt.NDArray[np.float64] | None]
Select = Callable[[Arrays, int], Ints]
"""Function (states, count) that returns the indices of at most `count` states."""


class Vectors(NamedTuple):
    """Test vectors of a module."""

    inputs: Words
    """Beats of the samples, (..., words). Samples may have different numbers of beats."""
    expected: Words
    """Beats of the results, (samples, beats, words)."""
    ends: Ints
    """Index of each sample's function; NONE if the sample has no result."""
    masks: Words
    """Bits that the results of each function have, (functions, beats, words)."""
    reference: Rows
    """Float64 outputs of each sample, row-major; None for a sample outside of the region."""
    rounds: Ints
    """Number of samples until the end of each round."""
    operations: list[RegisterAccess]
    """Register accesses."""


def drawn_states(built: BuiltDatapath, count: int, seed: int, select: Select | None = None) -> tuple[Arrays, Flags]:
    """Draw states of all kinds in random order, and return which of them lie in the region."""
    return draw_states(
        lambda n, own, kind: _drawn(built, n, own, kind),
        kept_in_limits(built.graph),
        count,
        seed,
        None if select is None else pool_of(built.formatted, select),
    )


class SamplePool(NamedTuple):
    """Description of a pool of states, some of which are chosen."""

    limits: Mapping[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]
    """Smallest and largest value of each entry that the input's format holds, by input; others stay in the region."""
    select: Select
    near: int
    """Number of states of the region."""


def pool_of(formatted: FormattedGraph, select: Select) -> SamplePool:
    """Return the pool for a graph: the smaller the graph, the more states. select: function that chooses states."""
    near = min(max(POOL_NODES // len(formatted.formats), POOL), LARGEST_POOL)
    return SamplePool(format_limits(formatted), select, near)


def format_limits(formatted: FormattedGraph) -> dict[str, tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """Return the smallest and the largest value that the format of each entry of an input holds, by input.

    Inputs whose entries depend on one another or have a smaller domain are left out: parameters of links, and shares.
    """
    each = {}
    for port in formatted.graph.inputs:
        if port.parameter or port.name in FRACTIONS:
            continue
        ends = np.array([formatted.formats[i].limits for i in port.nodes]).reshape(-1, 2)
        each[port.name] = ends[:, 0].reshape(port.shape), ends[:, 1].reshape(port.shape)
    return each


def draw_states(
    draw: Callable[[int, int, Kind], Arrays],
    kept: Collection[str],
    count: int,
    seed: int,
    pool: SamplePool | None = None,
) -> tuple[Arrays, Flags]:
    """Draw states of all kinds in the shares of `SHARES`, and some beyond the limits.

    Args:
        draw: Function (count, seed, kind) that returns states.
        kept: Names of inputs that stay inside their limits.
        count: Number of states.
        seed: Seed of the draw.
        pool: States from which a share `CHOSEN` of the states is chosen; None to draw all.

    Returns:
        The states in random order, and which of them lie inside the region.
    """
    plain = count if pool is None else count - round(CHOSEN * count)
    counts = {kind: round(share * plain) for kind, share in SHARES.items()}
    drawn = [draw(max(n, 1), seed, kind) for kind, n in counts.items()]
    left = plain - sum(counts.values())
    far = draw(max(left, 1), seed + 1, "limits")
    drawn.append({key: value if key in kept else BEYOND * value for key, value in far.items()})
    sizes = [*counts.values(), left]
    inside = np.arange(plain) < plain - left
    if pool is not None and count > plain:
        states, known = _chosen(draw, kept, count - plain, seed, pool)
        drawn.append(states)
        sizes.append(count - plain)
        inside = np.concatenate([inside, known])
    states = {key: np.concatenate([part[key][:n] for part, n in zip(drawn, sizes, strict=True)]) for key in drawn[0]}
    order = np.random.default_rng(seed).permutation(count)
    return {key: np.asarray(value[order], np.float64) for key, value in states.items()}, inside[order]


def _chosen(
    draw: Callable[[int, int, Kind], Arrays], kept: Collection[str], count: int, seed: int, pool: SamplePool
) -> tuple[Arrays, Flags]:
    """Return states that are chosen from a pool, and which of them lie inside the region."""
    near, wide = draw(pool.near, seed + 2, "uniform"), draw(FAR_POOL, seed + 3, "uniform")
    far = _far(wide, kept, pool, seed)
    states = {key: np.concatenate([near[key], far[key]]) for key in near}
    picked = pool.select(states, count)
    others = np.setdiff1d(np.arange(pool.near), picked)[: count - len(picked)]  # if fewer than `count` are of use
    rows = np.concatenate([picked, others])
    return {key: value[rows] for key, value in states.items()}, rows < pool.near


def _far(states: Arrays, kept: Collection[str], pool: SamplePool, seed: int) -> Arrays:
    """Return states far beyond the region, up to what the formats hold: a fifth of each of five kinds.

    All entries are scaled; one input is scaled; one input is random; some entries are random; all entries are random.
    """
    random, names = np.random.default_rng(seed), [name for name in states if name in pool.limits and name not in kept]
    count = len(next(iter(states.values())))
    kind, which = np.arange(count) % 5, random.integers(max(len(names), 1), size=count)
    factor = 2.0 ** random.uniform(0.0, FARTHEST, count)
    far = dict(states)
    for k, name in enumerate(names):
        value, (low, high) = states[name], pool.limits[name]

        def per_state(values: npt.NDArray[Any], ndim: int = value.ndim) -> npt.NDArray[Any]:
            return values.reshape(-1, *(1,) * (ndim - 1))

        own = which == k
        anywhere = random.uniform(low, high, value.shape)
        some = (random.random(value.shape) < 0.25) & per_state(kind == 3)
        scaled = per_state((kind == 0) | ((kind == 1) & own))
        replaced = per_state((kind == 4) | ((kind == 2) & own)) | some
        moved = np.where(scaled, value * per_state(factor), value)
        far[name] = np.clip(np.where(replaced, anywhere, moved), low, high)
    return far


def _drawn(built: BuiltDatapath, count: int, seed: int, kind: Kind) -> Arrays:
    """Return states of one kind. For several functions, the states of the functions alternate."""
    graph, region = built.graph, built.region
    if not (parts := parts_of(graph.name)):
        return region.states(graph, count, seed, kind)
    each = {part.name: part_states(part_graph(graph, part), part, region, count, seed, kind) for part in parts}
    pool = pooled(graph.name, each, count)
    return {port.name: pool.get(port.name, np.zeros((count, *port.shape))) for port in graph.inputs}


def kept_in_limits(graph: Graph) -> set[str]:
    """Return the inputs that cannot exceed their limits: switches, unit vectors, and the code of the function."""
    return {port.name for port in graph.inputs if port.switches or port.unit_vectors or port.name == CODE.name}


def result_rows(results: Mapping[str, npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Return the numbers of results as rows, (samples, numbers)."""
    return np.concatenate([value.reshape(len(value), -1) for value in results.values()], axis=1)
