"""Assign memory slots to the values of a graph that is computed in node order."""

from __future__ import annotations

from collections.abc import Collection

from dynagate.graph.graph import Graph


def slots_of(graph: Graph, kept: Collection[int]) -> tuple[list[int], int]:
    """Return the memory slot of each node, and the number of slots.

    A slot is free again after the last reader of its node; that reader's own result is in another slot.

    Args:
        graph: The graph.
        kept: Nodes whose slots are never reused.
    """
    pinned, free, slots = set(kept), list[int](), 0
    slot = [0] * len(graph)
    inputs = set(graph.input_nodes)
    for i in [*graph.input_nodes, *(i for i in range(len(graph)) if i not in inputs)]:
        if free and i not in inputs:
            slot[i] = free.pop()
        else:
            slot[i], slots = slots, slots + 1
        if i not in inputs:
            free += [slot[a] for a in (*graph.last_read[i], *([] if graph.users[i] else [i])) if a not in pinned]
    return slot, slots
