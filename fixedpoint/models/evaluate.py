"""Evaluate a formatted graph on integers for a batch: the only definition of what the hardware computes.

The definition is in numpy. Large batches get the same integers from the interpreter in C.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.assign import fixed_constant
from dynagate.fixedpoint.format import FormattedIntegers, Integers, Rescaled, carried, quantize, to_float
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.in_c import evaluate_in_c
from dynagate.fixedpoint.operations import FIXED
from dynagate.graph.evaluate import check_entries

BLOCK = 1024
"""Number of states that numpy computes at once: large enough to hide its call overhead, small enough for the cache."""

EXACT: Mapping[str, str] = MappingProxyType({})
"""Types of streams if nothing is rounded before or after the integers."""


class Values(NamedTuple):
    """Integers of a batch."""

    value: dict[int, Integers]
    """Integers (batch,) of every requested node, by node."""
    by_scope: npt.NDArray[np.bool_]
    """Passes in which a node overflowed, (batch, scopes of the graph)."""
    origins: Counter[int]
    """Number of states in which overflow began at a node, by node."""

    @property
    def overflow(self) -> npt.NDArray[np.bool_]:
        """Return the states in which a node overflowed, (batch,)."""
        return np.asarray(self.by_scope.any(axis=1))


def evaluate_integers(formatted: FormattedGraph, inputs: Mapping[int, Integers], *, keep_all: bool = False) -> Values:
    """Evaluate a graph on integers.

    Args:
        formatted: Graph with formats.
        inputs: Integers (batch,) of every input, by node.
        keep_all: Whether to return all nodes, and not only the outputs.
    """
    if (result := evaluate_in_c(formatted, inputs, keep_all)) is not None:
        values, by_scope, counts = result
        return Values(values, by_scope, Counter(counts))
    batch = len(next(iter(inputs.values())))
    if keep_all or batch <= BLOCK:
        return evaluate_in_numpy(formatted, inputs, keep_all=keep_all)
    blocks = [
        evaluate_in_numpy(formatted, {i: value[start : start + BLOCK] for i, value in inputs.items()})
        for start in range(0, batch, BLOCK)
    ]
    value = {i: np.concatenate([block.value[i] for block in blocks]) for i in formatted.graph.output_nodes}
    origins = sum((block.origins for block in blocks), Counter[int]())
    by_scope = np.concatenate([block.by_scope for block in blocks])
    return Values(value, by_scope, Counter(dict(sorted(origins.items()))))


def evaluate_in_numpy(formatted: FormattedGraph, inputs: Mapping[int, Integers], *, keep_all: bool = False) -> Values:
    """Evaluate a graph on integers in numpy: the definition that `evaluate_integers` follows.

    Args:
        formatted: Graph with formats.
        inputs: Integers (batch,) of every input, by node.
        keep_all: Whether to return all nodes, and not only the outputs.
    """
    graph = formatted.graph
    batch = len(next(iter(inputs.values())))
    by_scope = np.zeros((len(graph.scopes), batch), dtype=bool)
    origins: Counter[int] = Counter()
    overflowed = np.zeros(batch, dtype=bool)
    kept = set(graph.output_nodes)
    values: dict[int, Integers] = dict(inputs)
    for i, node in enumerate(graph.nodes):
        if node.op != "input":
            result = compute_node(formatted, i, values, batch)
            values[i] = result.value
            if np.count_nonzero(result.overflow):
                by_scope[graph.scope_of[i]] |= result.overflow
                if began := int(np.count_nonzero(result.overflow & ~overflowed)):
                    origins[i] = began
                overflowed |= result.overflow
        if not keep_all:
            for a in graph.last_read[i]:
                if a not in kept:
                    del values[a]
    return Values(values, by_scope.T, origins)


def compute_node(formatted: FormattedGraph, node: int, values: Mapping[int, Integers], batch: int) -> Rescaled:
    """Compute an operation on integers in numpy.

    Args:
        formatted: Graph with formats.
        node: The operation.
        values: Integers (batch,) of its operands, by node.
        batch: Number of states.
    """
    operation, formats = formatted.graph.nodes[node], formatted.operand_formats(node)
    integers = [values[a] for a in operation.args]
    if len(formats) > len(integers):
        constant = fixed_constant(formatted, node).value
        integers.append(constant if operation.args else np.full(batch, constant))
    operands = [FormattedIntegers(*pair) for pair in zip(integers, formats, strict=True)]
    return FIXED[operation.op].meaning.compute(operands, formatted.formats[node], formatted.arithmetic)


def evaluate_changed(
    formatted: FormattedGraph, node: int, by: int, values: Mapping[int, Integers]
) -> dict[int, Integers]:
    """Return the integers of a node and of all that depend on it, if its own integers were larger.

    Args:
        formatted: Graph with formats.
        node: The node.
        by: Number to add to its integers.
        values: Integers (batch,) of all nodes without that change.
    """
    changed = {node: values[node] + by}
    both = ChainMap(changed, dict(values))
    for i in range(node + 1, len(formatted.graph.nodes)):
        if not changed.keys().isdisjoint(formatted.graph.nodes[i].args):
            changed[i] = compute_node(formatted, i, both, len(values[node])).value
    return changed


def quantize_inputs(
    formatted: FormattedGraph, inputs: Mapping[str, npt.NDArray[np.float64]], numbers: Mapping[str, str] = EXACT
) -> dict[int, Integers]:
    """Convert inputs to integers.

    Args:
        formatted: Graph with formats.
        inputs: Arrays (batch, *shape) by name.
        numbers: Type that streams round each input to before, by name.

    Returns:
        Integers (batch,) by node.

    Raises:
        ArgumentError: An entry is no value of its input, such as a quaternion that has not length 1.
    """
    result: dict[int, Integers] = {}
    for port in formatted.graph.inputs:
        flat = np.asarray(inputs[port.name], dtype=np.float64).reshape(len(inputs[port.name]), -1)
        check_entries(port, flat)
        rounded = carried(flat, numbers.get(port.name))
        for k, i in enumerate(port.nodes):
            result[i] = quantize(rounded[:, k], formatted.formats[i]).value
    return result


def gather_outputs(
    formatted: FormattedGraph, values: Mapping[int, Integers], numbers: Mapping[str, str] = EXACT
) -> dict[str, npt.NDArray[np.float64]]:
    """Convert integers to outputs.

    Args:
        formatted: Graph with formats.
        values: Integers (batch,) by node.
        numbers: Type that streams round each output to, by name.

    Returns:
        Float64 arrays (batch, *shape) by name.
    """
    outputs = {}
    for port in formatted.graph.outputs:
        columns = [to_float(values[i], formatted.formats[i]) for i in port.nodes]
        exact = np.stack(columns, axis=1).reshape(-1, *port.shape)
        outputs[port.name] = carried(exact, numbers.get(port.name))
    return outputs


class Evaluated(NamedTuple):
    """Results of a batch."""

    outputs: dict[str, npt.NDArray[np.float64]]
    """Float64 arrays (batch, *shape) by name."""
    overflow: npt.NDArray[np.bool_]
    """States in which a node overflowed, (batch,)."""
    origins: Counter[int]
    """Number of states in which overflow began at a node, by node."""


def evaluate(
    formatted: FormattedGraph, inputs: Mapping[str, npt.NDArray[np.float64]], numbers: Mapping[str, str] = EXACT
) -> Evaluated:
    """Evaluate a graph on real inputs, through integers.

    Args:
        formatted: Graph with formats.
        inputs: Arrays (batch, *shape) by name.
        numbers: Type that streams round each input and output to, by name. A result that is too large for it overflows.
    """
    result = evaluate_integers(formatted, quantize_inputs(formatted, inputs, numbers))
    outputs = gather_outputs(formatted, result.value, numbers)
    return Evaluated(outputs, result.overflow | infinite(outputs), result.origins)


def infinite(outputs: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Return the states (batch,) with a result that is too large for its type."""
    return np.any([np.isinf(array).any(axis=tuple(range(1, array.ndim))) for array in outputs.values()], axis=0)
