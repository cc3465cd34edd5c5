"""Rounding noise: the variance that every node adds, and its propagation to the outputs by derivatives.

A node that drops bits adds an error of variance step² / 12, independent of the other nodes (Widrow & Kollár,
"Quantization noise", 2008, ch. 4). To first order, the error of an output is the sum over the nodes of the derivative
of the output with respect to the node, times the node's error. A block has many outputs. One reverse pass, seeded with
a random sign for each of them, estimates the sum of their squared derivatives (Hutchinson's estimator). The mean is
computed over many states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from dynagate.base.arrays import Floats
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.operations import FIXED, Unit
from dynagate.graph import OPS, Graph, Port
from dynagate.graph.derivatives import adjoints
from dynagate.graph.evaluate import evaluate_nodes


def _signs(nodes: Iterable[int], values: Sequence[Any], random: np.random.Generator) -> dict[int, Any]:
    """Return a random sign per node and state; a node that occurs twice gets the sum of two signs."""
    states = max(np.size(v) for v in values)
    signs: dict[int, Any] = {}
    for i in nodes:
        signs[i] = signs.get(i, 0.0) + random.choice([-1.0, 1.0], states)
    return signs


def sensitivity(
    graph: Graph, inputs: Mapping[str, Floats], port: Port, floor: float = 0.0, *, draws: int = 1, seed: int = 0
) -> Floats:
    """Return the sensitivity of an output block to every node, (nodes,).

    It is the mean over the states of Σ (∂output/∂node)² over the block, divided by the block's squared L2 norm or by
    floor², whichever is larger. An error of variance v in one node gives the block a mean squared relative error of v
    times the node's sensitivity.

    Args:
        graph: The graph.
        inputs: Inputs by name, (states, *shape).
        port: Output block.
        floor: Floor of the block's norm, in its units.
        draws: Random sign vectors for each state; use more than one for few states.
        seed: Seed of the signs.
    """
    values = evaluate_nodes(graph, {key: np.repeat(value, draws, axis=0) for key, value in inputs.items()})
    signs = _signs(port.nodes, values, np.random.default_rng(seed))
    size = _squared_size(values, port, floor)
    result = np.zeros(len(graph.nodes))
    for i, adjoint in adjoints(graph, values, signs):
        result[i] = np.mean(adjoint * adjoint / size)
    return result


def predicted_errors(formatted: FormattedGraph, inputs: Mapping[str, Floats], *, seed: int = 0) -> dict[str, Floats]:
    """Return the predicted relative L2 error of each output, (states,), from the rounding of nodes and constants.

    Args:
        formatted: Graph with formats.
        inputs: Inputs by name, (states, *shape).
        seed: Seed of the signs.
    """
    graph = formatted.graph
    values = evaluate_nodes(graph, inputs)
    random = np.random.default_rng(seed)
    noise = [variance(formatted, i) for i in range(len(graph.nodes))]
    offsets = {i: _constant_error(formatted, i) for i in formatted.constants}
    result = {}
    for port in graph.outputs:
        total: Any = np.zeros(max(np.size(v) for v in values))
        for i, adjoint in adjoints(graph, values, _signs(port.nodes, values, random)):
            local = noise[i]
            if offsets.get(i):
                scale = values[graph.nodes[i].args[0]] if OPS[graph.nodes[i].op].constant == "factor" else 1.0
                local = local + (offsets[i] * scale) ** 2
            total = total + adjoint * adjoint * local
        result[port.name] = np.sqrt(total / _squared_size(values, port))
    return result


def _squared_size(values: Sequence[Any], port: Port, floor: float = 0.0) -> Any:
    """Return the squared L2 norm of an output, (states,), at least floor²; 1 where it is zero."""
    size = np.maximum(sum(np.square(values[i]) for i in port.nodes), floor**2)
    return np.where(size == 0.0, 1.0, size)


def variance(formatted: FormattedGraph, node: int) -> float:
    """Return the variance of the error that a node's own rounding adds."""
    to = formatted.formats[node]
    kept = to.step * to.step / 12.0
    op = formatted.graph.nodes[node].op
    meaning = FIXED[op].meaning
    if op == "input":
        return kept
    if isinstance(meaning, Unit):
        return meaning.noise * kept
    exact = meaning.exact(formatted.operand_formats(node)).frac
    if exact <= to.frac:
        return 0.0
    fine = 2.0**-exact
    if formatted.arithmetic.rounding == "floor":  # the mean of the error is not zero
        return (to.step - fine) ** 2 / 4.0 + kept - fine * fine / 12.0
    return kept - fine * fine / 12.0


def _constant_error(formatted: FormattedGraph, i: int) -> float:
    """Return the rounding error of node i's constant."""
    node = formatted.graph.nodes[i]
    if OPS[node.op].constant == "exponent":
        return 0.0
    value, fmt = formatted.constants[i]
    return value * fmt.step - float(node.constant or 0.0)
