"""Give small terms of sums more integer bits, taken from fraction bits that the sum drops.

A product of two small numbers has a long tail: in one of thousands of states it is many times larger than in a sample.
Its bits below those of the sum that reads it are lost there. Its binary point may move up by as many bits, so that it
holds the tail at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.graph import Graph
from dynagate.graph.ops import SUMS

KEPT = 2
"""Bits below the last bit of a sum that its terms keep."""


def most_fractions(graph: Graph, fractions: Sequence[int]) -> list[int | None]:
    """Return, for each node, how many fraction bits the sums that read it can use; None if another operation reads it.

    Args:
        graph: The graph.
        fractions: Fraction bits that the range of each node allows.
    """
    takers: list[list[int]] = [[] for _ in graph.nodes]
    for i, node in enumerate(graph.nodes):
        for a in node.args:
            takers[a].append(i)
    results = {i for port in graph.outputs for i in port.nodes}
    most: list[int | None] = [None] * len(graph.nodes)
    for i in reversed(range(len(graph.nodes))):
        if i in results or not takers[i] or any(graph.nodes[k].op not in SUMS for k in takers[i]):
            continue
        below = [(fractions[k] + KEPT, most[k]) for k in takers[i]]
        most[i] = max(own if further is None else min(own, further) for own, further in below)
    return most
