"""The vectors of a bench, and the states that they are drawn from."""

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
SEED = 1
SHARES: dict[Kind, float] = {"uniform": 0.6, "limits": 0.2, "rest": 0.1}
"""The rest of the samples lies `BEYOND` times as far out as states at the limits."""
BEYOND = 3.0

Arrays = dict[str, npt.NDArray[np.float64]]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Rows = list[npt.NDArray[np.float64] | None]


class Vectors(NamedTuple):
    """Test vectors of a module.

    inputs: beats of the samples, (..., words), which may differ in length. expected: beats of their results, (samples,
    beats, words). ends: for each sample, the index of its function among several; NONE if no result comes. masks: for
    each function, the bits that its results have, (functions, beats, words). reference: float64 outputs of each sample,
    row-major; None for a sample outside the region. rounds: number of samples until the end of each round. operations:
    accesses to registers.
    """

    inputs: Words
    expected: Words
    ends: Ints
    masks: Words
    reference: Rows
    rounds: Ints
    operations: list[RegisterAccess]


def drawn_states(built: BuiltDatapath, count: int, seed: int) -> tuple[Arrays, Flags]:
    """States of all kinds in random order, and which of them lie in the region."""
    return of_all_kinds(lambda n, own, kind: _drawn(built, n, own, kind), kept_in_limits(built.graph), count, seed)


def of_all_kinds(
    draw: Callable[[int, int, Kind], Arrays], kept: Collection[str], count: int, seed: int
) -> tuple[Arrays, Flags]:
    """Draw states of all kinds in the shares of `SHARES`, and some beyond the limits.

    draw: returns states for a count, a seed and a kind. kept: names that stay inside their limits. Returns the states
    and which of them lie inside the region.
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
    """States of a kind; of several functions those of each take turns."""
    graph, region = built.graph, built.region
    if not (parts := parts_of(graph.name)):
        return region.states(graph, count, seed, kind)
    each = {part.name: part_states(part_graph(graph, part), part, region, count, seed, kind) for part in parts}
    pool = pooled(graph.name, each, count)
    return {port.name: pool.get(port.name, np.zeros((count, *port.shape))) for port in graph.inputs}


def kept_in_limits(graph: Graph) -> set[str]:
    """Names of the inputs whose numbers have no size: switches, unit vectors, and what says which function it is."""
    return {port.name for port in graph.inputs if port.switches or port.unit_vectors or port.name == CODE.name}


def flat(results: Mapping[str, npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """The numbers of results, (rows, numbers)."""
    return np.concatenate([value.reshape(len(value), -1) for value in results.values()], axis=1)
