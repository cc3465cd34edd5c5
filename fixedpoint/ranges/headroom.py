"""Room above the range of small terms of sums, out of bits that the sum drops.

A product of two small numbers has a long tail: in one state of thousands it is many times its largest in a sample. Its
bits below those of the sum that takes it are lost there, so its binary point may move up by as many, and the product
holds what its tail brings, at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynagate.graph import Graph
from dynagate.graph.ops import SUMS

KEPT = 2
"""Bits below the last one of a sum that its terms keep."""


def most_fractions(graph: Graph, fractions: Sequence[int]) -> list[int | None]:
    """Per node, how many fraction bits the sums that take it can use; None where something else takes it.

    fractions: of every node, that its own range leaves."""
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
