"""How large every node gets over a sample of states, and how large it may get beyond them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.base.errors import ArgumentError
from dynagate.fixedpoint.format import FLOOR, Arithmetic, Format
from dynagate.graph import OPS, Graph
from dynagate.graph.evaluate import evaluate_nodes

Array = npt.NDArray[np.float64]

TAIL = 64
"""The largest magnitudes of a node from which its tail is drawn."""

OVERFLOW = 1e-8
"""Chance per node and state of leaving the range that the tail gives, about: a graph of 10,000 nodes, most of them
dependent, then overflows in one state of some thousands at worst."""

PROBES = 2048
"""States, spread over the sample, in which the rounding of formats is followed through the graph."""


@dataclass(frozen=True)
class Ranges:
    """largest: |value| of every node, (nodes,); reach: the magnitude that its tail may come to; samples: the number of
    states; probes: the float64 values of every node in PROBES of them, (probes,) each, or a float."""

    largest: Array
    reach: Array
    samples: int
    probes: Sequence[Any]


def sampled_ranges(graph: Graph, inputs: Mapping[str, Array]) -> Ranges:
    """Magnitudes over a batch of inputs, (batch, *shape) each. Raises ValueError: a node is not finite."""
    values = evaluate_nodes(graph, inputs)
    magnitudes = [np.abs(np.atleast_1d(v)) for v in values]
    largest = np.array([float(np.max(v)) for v in magnitudes])
    if not np.isfinite(largest).all():
        node = graph.nodes[int(np.argmin(np.isfinite(largest)))]
        raise ArgumentError(f"node '{node.name}' of {graph.name} is not finite somewhere in the region")
    samples = len(next(iter(inputs.values())))
    every = max(samples // PROBES, 1)
    probes = [v[::every].copy() if np.ndim(v) else v for v in values]
    return Ranges(largest, np.array([_reach(v) for v in magnitudes]), samples, probes)


def _reach(magnitudes: Array) -> float:
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


class RoundedProbes:
    """The probes' values as formats round them, in float64, node after node in the order of the graph.

    A node's operands bring their rounding with them. Where they nearly cancel it may be larger than the node's own
    values, so its range must hold it: `deviation` says how far the node comes from its float64 values.
    """

    def __init__(self, graph: Graph, probes: Sequence[Any], arithmetic: Arithmetic) -> None:
        self._graph, self._probes = graph, probes
        self._half = 0.0 if arithmetic.rounding == FLOOR else 0.5
        self._rounded: dict[int, Any] = {}
        self._exact: Any = None
        self._last_user = [max(users, default=-1) for users in graph.users]

    def deviation(self, i: int, constant: float | None) -> float:
        """The largest difference of node i, computed from rounded operands, from its float64 values. constant: the
        node's, as its format rounds it."""
        node = self._graph.nodes[i]
        if node.op == "input":
            self._exact = self._probes[i]
            return 0.0
        operands = [self._rounded[a] for a in node.args]
        with np.errstate(all="ignore"):  # words too short for a divisor: it is flagged where integers run
            self._exact = OPS[node.op].real(*operands, *([] if constant is None else [constant]))
            difference = np.abs(self._exact - self._probes[i])
        return float(np.max(difference, initial=0.0, where=np.isfinite(difference)))

    def round(self, i: int, to: Format) -> None:
        """Node i, whose `deviation` was asked last, has this format."""
        with np.errstate(all="ignore"):
            self._rounded[i] = np.ldexp(np.floor(np.ldexp(self._exact, to.frac) + self._half), -to.frac)
        for a in self._graph.nodes[i].args:
            if self._last_user[a] == i:
                self._rounded.pop(a, None)
