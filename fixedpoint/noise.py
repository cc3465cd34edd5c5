"""What rounding does to the outputs: the noise of every node, carried there by the graph's own derivatives.

A node that drops bits adds an error of variance step² / 12, independent of the others (Widrow & Kollár, "Quantization
noise", 2008, ch. 4). An output's error is the sum of its derivatives by the nodes times these errors. A block has many
outputs; one reverse pass from a random sign for each of them gives the sum of the squared derivatives in the mean
(Hutchinson's estimator), and many states make the mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.integers import FIXED
from dynagate.graph import OPS, Graph, Port
from dynagate.graph.evaluate import evaluate_nodes

Array = npt.NDArray[np.float64]


def _adjoints(graph: Graph, values: Sequence[Any], seeds: dict[int, Any]) -> Iterator[tuple[int, Any]]:
    """Every node that the seeds' nodes depend on, last first, with the derivative by it of the sum of these nodes
    weighted by their seeds, (states,)."""
    found = dict(seeds)
    for i in range(max(found, default=-1), -1, -1):
        if i not in found:
            continue
        adjoint = found.pop(i)
        yield i, adjoint
        node = graph.nodes[i]
        if not node.args:
            continue
        constant = [] if node.constant is None else [node.constant]
        partials = OPS[node.op].partials(*(values[a] for a in node.args), *constant)
        for a, partial in zip(node.args, partials, strict=True):
            found[a] = found.get(a, 0.0) + adjoint * partial


def _signs(nodes: Iterable[int], values: Sequence[Any], random: np.random.Generator) -> dict[int, Any]:
    """A random sign per node and state; a node that occurs twice has two."""
    states = max(np.size(v) for v in values)
    found: dict[int, Any] = {}
    for i in nodes:
        found[i] = found.get(i, 0.0) + random.choice([-1.0, 1.0], states)
    return found


def sensitivity(
    graph: Graph, inputs: Mapping[str, Array], port: Port, floor: float = 0.0, *, draws: int = 1, seed: int = 0
) -> Array:
    """(nodes,): mean over the states of Σ (∂output/∂node)² over a block, divided by the block's squared size, which is
    `floor` at least.

    An error of variance v in the node alone gives the block a mean squared relative error of v times this.
    draws: of random signs for each state, where states are few.
    """
    values = evaluate_nodes(graph, {key: np.repeat(value, draws, axis=0) for key, value in inputs.items()})
    signs = _signs(port.nodes, values, np.random.default_rng(seed))
    size = _squared_size(values, port, floor)
    result = np.zeros(len(graph.nodes))
    for i, adjoint in _adjoints(graph, values, signs):
        result[i] = np.mean(adjoint * adjoint / size)
    return result


def predicted_errors(formatted: FormattedGraph, inputs: Mapping[str, Array], *, seed: int = 0) -> dict[str, Array]:
    """Relative L2 error per state, (states,) by output, that the rounding of the formats is expected to make."""
    graph = formatted.graph
    values = evaluate_nodes(graph, inputs)
    random = np.random.default_rng(seed)
    noise = [variance(formatted, i) for i in range(len(graph.nodes))]
    offsets = {i: _constant_error(formatted, i) for i in formatted.constants}
    result = {}
    for port in graph.outputs:
        total: Any = np.zeros(max(np.size(v) for v in values))
        for i, adjoint in _adjoints(graph, values, _signs(port.nodes, values, random)):
            local = noise[i]
            if offsets.get(i):
                scale = values[graph.nodes[i].args[0]] if OPS[graph.nodes[i].op].constant == "factor" else 1.0
                local = local + (offsets[i] * scale) ** 2
            total = total + adjoint * adjoint * local
        result[port.name] = np.sqrt(total / _squared_size(values, port))
    return result


def _squared_size(values: Sequence[Any], port: Port, floor: float = 0.0) -> Any:
    size = np.maximum(sum(np.square(values[i]) for i in port.nodes), floor**2)
    return np.where(size == 0.0, 1.0, size)


def variance(formatted: FormattedGraph, node: int) -> float:
    """Of the error that a node's own rounding adds."""
    to = formatted.formats[node]
    kept = to.step * to.step / 12.0
    row = FIXED[formatted.graph.nodes[node].op]
    if row.exact is None:
        return row.noise * kept
    constant = formatted.constants.get(node)
    exact = row.exact([*formatted.operand_formats(node), *([constant[1]] if constant else [])])
    if exact <= to.frac:
        return 0.0
    fine = 2.0**-exact
    if formatted.arithmetic.rounding == "floor":  # the mean error counts too
        return (to.step - fine) ** 2 / 4.0 + kept - fine * fine / 12.0
    return kept - fine * fine / 12.0


def _constant_error(formatted: FormattedGraph, node: int) -> float:
    graph = formatted.graph.nodes[node]
    if OPS[graph.op].constant == "exponent":
        return 0.0
    value, fmt = formatted.constants[node]
    return value * fmt.step - float(graph.constant or 0.0)
