"""Vectors of a bench, and the states that they are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.design.codec import Words
from dynagate.dynamics import CODE
from dynagate.graph import Graph
from dynagate.graph.parts import part_graph, parts_of, pooled
from dynagate.graph.region import Kind, part_states
from dynagate.hw.vectors.built import BuiltDatapath
from dynagate.hw.vectors.operations import RegisterAccess

SAMPLES = 1000
"""Default number of samples."""
SEED = 1
"""Default seed."""
SHARES: dict[Kind, float] = {"uniform": 0.6, "limits": 0.2, "rest": 0.1}
"""Shares of the samples by kind of states. The remaining samples are `BEYOND` times as far out as the limits."""
BEYOND = 3.0
"""Factor by which some samples exceed the limits of the region."""

Arrays = dict[str, npt.NDArray[np.float64]]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Rows = list[npt.NDArray[np.float64] | None]


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


def drawn_states(built: BuiltDatapath, count: int, seed: int) -> tuple[Arrays, Flags]:
    """Draw states of all kinds in random order, and return which of them lie in the region."""
    return draw_states(lambda n, own, kind: _drawn(built, n, own, kind), kept_in_limits(built.graph), count, seed)


def draw_states(
    draw: Callable[[int, int, Kind], Arrays], kept: Collection[str], count: int, seed: int
) -> tuple[Arrays, Flags]:
    """Draw states of all kinds in the shares of `SHARES`, and some beyond the limits.

    Args:
        draw: Function (count, seed, kind) that returns states.
        kept: Names of inputs that stay inside their limits.
        count: Number of states.
        seed: Seed of the draw.

    Returns:
        The states in random order, and which of them lie inside the region.
    """
    counts = {kind: round(share * count) for kind, share in SHARES.items()}
    drawn = [draw(max(n, 1), seed, kind) for kind, n in counts.items()]
    left = count - sum(counts.values())
    far = draw(max(left, 1), seed + 1, "limits")
    drawn.append({key: value if key in kept else BEYOND * value for key, value in far.items()})
    sizes = [*counts.values(), left]
    states = {key: np.concatenate([part[key][:n] for part, n in zip(drawn, sizes, strict=True)]) for key in drawn[0]}
    order = np.random.default_rng(seed).permutation(count)
    inside = np.arange(count) < count - left
    return {key: np.asarray(value[order], np.float64) for key, value in states.items()}, inside[order]


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
