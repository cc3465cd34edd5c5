"""How large every node gets over a sample of states, and how large it may get beyond them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from dynagate.graph import Graph
from dynagate.graph.evaluate import evaluate_nodes

TAIL = 64
"""The largest magnitudes of a node from which its tail is drawn."""

OVERFLOW = 1e-7
"""Chance per node and state of leaving the range that the tail gives, about: a graph of 10,000 nodes, most of them
dependent, then overflows in one state of some thousands at worst."""


@dataclass(frozen=True)
class Ranges:
    """largest: |value| of every node, (nodes,); reach: what its tail says it may come to; samples: how many states it
    was seen over."""

    largest: npt.NDArray[np.float64]
    reach: npt.NDArray[np.float64]
    samples: int


def sampled_ranges(graph: Graph, inputs: dict[str, npt.NDArray[np.float64]]) -> Ranges:
    """Magnitudes over a batch of inputs, (batch, *shape) each. Raises ValueError: a node is not finite."""
    values = [np.abs(np.atleast_1d(v)) for v in evaluate_nodes(graph, inputs)]
    largest = np.array([float(np.max(v)) for v in values])
    if not np.isfinite(largest).all():
        node = graph.nodes[int(np.argmin(np.isfinite(largest)))]
        raise ValueError(f"node '{node.name}' of {graph.name} is not finite somewhere in the region")
    return Ranges(largest, np.array([_reach(v) for v in values]), len(next(iter(inputs.values()))))


def _reach(magnitudes: npt.NDArray[np.float64]) -> float:
    """The magnitude that is exceeded with a chance of OVERFLOW, by an exponential tail beyond the TAIL largest.

    A bounded quantity has a shorter tail than that and a product of several a longer one; tests hold the overflows.
    """
    count = len(magnitudes)
    if count <= 2 * TAIL:
        return float(magnitudes.max())
    top = np.partition(magnitudes, count - TAIL)[count - TAIL :]
    threshold = float(top.min())
    excess = float(top.mean()) - threshold
    return max(float(top.max()), threshold + excess * math.log(TAIL / count / OVERFLOW))
