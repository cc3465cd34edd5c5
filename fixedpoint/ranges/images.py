"""Compute the interval of every node of a graph from those of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from dynagate.fixedpoint.intervals import Interval, outward, point
from dynagate.fixedpoint.operations import FIXED
from dynagate.graph import Graph
from dynagate.graph.graph import Node


def square(a: Interval) -> Interval:
    """Return the interval of x · x, which is not negative."""
    ends = a.low * a.low, a.high * a.high
    least = np.where((a.low <= 0.0) & (a.high >= 0.0), 0.0, np.minimum(*ends))
    low, high = outward(least, np.maximum(*ends))
    return Interval(np.maximum(low, 0.0), high)


def image(node: Node, operands: Sequence[Interval]) -> Interval:
    """Return the interval of a node from those of its operands."""
    if node.op == "mul" and node.args[0] == node.args[1]:
        return square(operands[0])
    constant = [] if node.constant is None else [point(node.constant)]
    return FIXED[node.op].image(*operands, *constant)


def images(graph: Graph, box: Mapping[int, Interval], known: Mapping[int, Interval]) -> list[Interval]:
    """Return the interval of every node.

    Args:
        graph: The graph.
        box: Interval of each input, by node; endpoints are numbers or (boxes,).
        known: Further intervals that contain the values of nodes.
    """
    values: list[Interval] = []
    for i, node in enumerate(graph.nodes):
        value = box[i] if node.op == "input" else image(node, [values[a] for a in node.args])
        values.append(value.within(known[i]) if i in known else value)
    return values
