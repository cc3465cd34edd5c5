"""Sampled ranges: the largest magnitude of every node in a sample of states, and the magnitude expected beyond it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from dynagate.base.arrays import Floats
from dynagate.base.errors import ArgumentError
from dynagate.dynamics import CODE, TAU_OR_QDD
from dynagate.fixedpoint.format import FLOOR, Arithmetic, Format
from dynagate.graph import OPS, Graph
from dynagate.graph.evaluate import evaluate_nodes
from dynagate.graph.parts import parts_of

TAIL = 64
"""Number of largest magnitudes of a node to which its tail is fitted."""

OVERFLOW = 1e-8
"""Approximate probability, per node and state, of a magnitude beyond the range that the tail gives.

A graph of 10,000 nodes, most of them dependent, then overflows in one of some thousand states at worst.
"""

PROBES = 2048
"""Number of states, spread over the sample, in which rounding is propagated through the graph."""


NOISE_MARGIN = 2.0
"""Factor by which a node's range exceeds the largest rounding effect that the probes show."""


@dataclass(frozen=True)
class Ranges:
    """Magnitudes of all nodes."""

    largest: Floats
    """Largest magnitude in the sample, (nodes,)."""
    reach: Floats
    """Magnitude that the tail exceeds with probability OVERFLOW, (nodes,)."""
    samples: int
    """Number of states."""
    probes: Sequence[Any]
    """Float64 values of each node in PROBES of the states, (probes,), or a float."""

    def rounded(self, graph: Graph, arithmetic: Arithmetic) -> RoundedProbes:
        """Return the values of the probes, to be rounded in the order of the graph."""
        return RoundedProbes(graph, self.probes, arithmetic)


def sampled_ranges(graph: Graph, inputs: Mapping[str, Floats]) -> Ranges:
    """Return the ranges in a batch of states.

    Args:
        graph: The graph.
        inputs: Inputs by name, (batch, *shape).

    Raises:
        ArgumentError: A node is not finite in a state.
    """
    values = evaluate_nodes(graph, inputs)
    magnitudes = [np.abs(np.atleast_1d(v)) for v in values]
    largest = np.array([float(np.max(v)) for v in magnitudes])
    if not np.isfinite(largest).all():
        node = graph.nodes[int(np.argmin(np.isfinite(largest)))]
        raise ArgumentError(
            f"node '{node.name}' of {graph.name} is not finite somewhere in the region", code="DG-FORMAT-035"
        )
    samples = len(next(iter(inputs.values())))
    every = max(samples // PROBES, 1)
    probes = [v[::every].copy() if np.ndim(v) else v for v in values]
    return Ranges(largest, np.array([_reach(v) for v in magnitudes]), samples, probes)


class InputBounds(Protocol):
    """Bounds of the values of inputs, such as those of a region."""

    def bounds(self, name: str) -> list[tuple[float, float]] | None: ...


def input_bounds(graph: Graph, region: InputBounds, reaches: Floats) -> dict[int, tuple[float, float]]:
    """Return the values that the format of each input is for, by node.

    These are the region's limits, or the reach of an input without limits.
    """
    reached: dict[int, tuple[float, float]] = {}
    codes = [float(part.code) for part in parts_of(graph.name)]
    for port in graph.inputs:
        known = [(min(codes), max(codes))] if port.name == CODE.name else region.bounds(port.name)
        for k, i in enumerate(port.nodes):
            reached[i] = known[k] if known is not None else (-float(reaches[i]), float(reaches[i]))
        if port.name == TAU_OR_QDD.name:
            for name in ("tau", "qdd"):
                for i, (low, high) in zip(port.nodes, region.bounds(name) or (), strict=False):
                    reached[i] = min(low, reached[i][0]), max(high, reached[i][1])
    return reached


def _reach(magnitudes: Floats) -> float:
    """Return the magnitude that is exceeded with probability OVERFLOW, by an exponential tail fitted to the TAIL
    largest.

    A bounded quantity has a shorter tail, and a product of several quantities a longer one. Tests check the rate of
    overflows.
    """
    count = len(magnitudes)
    if count <= 2 * TAIL:
        return float(magnitudes.max())
    top = np.partition(magnitudes, count - TAIL)[count - TAIL :]
    threshold = float(top.min())
    excess = float(top.mean()) - threshold
    return max(float(top.max()), threshold + excess * math.log(TAIL / count / OVERFLOW))


class RoundedProbes:
    """Values of the probes rounded to formats, computed in float64, one node after the other in the order of the graph.

    The operands of a node have their own rounding errors. If they nearly cancel, these errors may exceed the node's
    values. The node's range must include them: `deviation` returns the largest one.
    """

    margin = NOISE_MARGIN
    """Factor by which formats exceed the deviation."""

    def __init__(self, graph: Graph, probes: Sequence[Any], arithmetic: Arithmetic) -> None:
        self._graph, self._probes = graph, probes
        self._half = 0.0 if arithmetic.rounding == FLOOR else 0.5
        self._rounded: dict[int, Any] = {}
        self._exact: Any = None

    def deviation(self, i: int, constant: float | None) -> float:
        """Return the largest difference between node i, computed from rounded operands, and its float64 values.

        Args:
            i: Node.
            constant: Its constant, rounded to its format.
        """
        node = self._graph.nodes[i]
        if node.op == "input":
            self._exact = self._probes[i]
            return 0.0
        operands = [self._rounded[a] for a in node.args]
        self._exact = OPS[node.op].real(*operands, *([] if constant is None else [constant]))
        difference = np.abs(self._exact - self._probes[i])
        most = float(difference.max())
        if math.isfinite(most):
            return most
        return float(np.max(difference, initial=0.0, where=np.isfinite(difference)))

    def round(self, i: int, to: Format) -> None:
        """Round node i to its format. It must be the node of the last call of `deviation`."""
        self._rounded[i] = np.floor(self._exact * 2.0**to.frac + self._half) * to.step
        for a in self._graph.last_read[i]:
            del self._rounded[a]
