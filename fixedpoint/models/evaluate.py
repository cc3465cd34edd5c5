"""Run a FormattedGraph on integers, over a batch: the only definition of what the hardware computes.

The definition is in numpy. Batches that are worth it take the same integers from the interpreter in C.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.assign import fixed_constant
from dynagate.fixedpoint.format import FormattedIntegers, Integers, carried, quantize, to_float
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.in_c import evaluate_in_c
from dynagate.fixedpoint.operations import FIXED
from dynagate.graph.evaluate import check_entries

BLOCK = 1024
"""States that numpy computes at once: long enough to hide its call overhead, short enough for the cache."""

EXACT: Mapping[str, str] = MappingProxyType({})
"""Nothing is rounded before the integers, or after them."""


class Values(NamedTuple):
    """value: integers of every requested node, by id, (batch,); by_scope: (batch, scopes of the graph), where a node of
    that scope overflowed; origins: the nodes at which overflow began, and in how many states."""

    value: dict[int, Integers]
    by_scope: npt.NDArray[np.bool_]
    origins: Counter[int]

    @property
    def overflow(self) -> npt.NDArray[np.bool_]:
        """(batch,) states in which any node overflowed."""
        return np.asarray(self.by_scope.any(axis=1))


def evaluate_integers(formatted: FormattedGraph, inputs: Mapping[int, Integers], *, keep_all: bool = False) -> Values:
    """inputs: node id of every input -> integers (batch,) in its format. Keeps the outputs, or all nodes."""
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
    """The definition: `evaluate_integers` in numpy, whatever the batch."""
    graph = formatted.graph
    batch = len(next(iter(inputs.values())))
    by_scope = np.zeros((len(graph.scopes), batch), dtype=bool)
    origins: Counter[int] = Counter()
    overflowed = np.zeros(batch, dtype=bool)
    kept = set(graph.output_nodes)
    values: dict[int, Integers] = dict(inputs)
    for i, node in enumerate(graph.nodes):
        if node.op != "input":
            formats = formatted.operand_formats(i)
            integers = [values[a] for a in node.args]
            if len(formats) > len(integers):
                constant = fixed_constant(formatted, i).value
                integers.append(constant if node.args else np.full(batch, constant))
            operands = [FormattedIntegers(*pair) for pair in zip(integers, formats, strict=True)]
            result = FIXED[node.op].meaning.compute(operands, formatted.formats[i], formatted.arithmetic)
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


def quantize_inputs(
    formatted: FormattedGraph, inputs: Mapping[str, npt.NDArray[np.float64]], numbers: Mapping[str, str] = EXACT
) -> dict[int, Integers]:
    """Arrays (batch, *shape) by port name -> integers by node id. numbers: by port, the type that streams round it to
    before. Raises ValueError: as `check_entries`."""
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
    """Integers by node id -> float64 arrays (batch, *shape) by port name. numbers: by port, the type that streams round
    it to."""
    outputs = {}
    for port in formatted.graph.outputs:
        columns = [to_float(values[i], formatted.formats[i]) for i in port.nodes]
        exact = np.stack(columns, axis=1).reshape(-1, *port.shape)
        outputs[port.name] = carried(exact, numbers.get(port.name))
    return outputs


class Evaluated(NamedTuple):
    """outputs: float64 arrays (batch, *shape) by name; overflow: (batch,) states in which a node overflowed; origins:
    the nodes at which overflow began, and in how many states."""

    outputs: dict[str, npt.NDArray[np.float64]]
    overflow: npt.NDArray[np.bool_]
    origins: Counter[int]


def evaluate(
    formatted: FormattedGraph, inputs: Mapping[str, npt.NDArray[np.float64]], numbers: Mapping[str, str] = EXACT
) -> Evaluated:
    """Real inputs (batch, *shape) in, real outputs out, integers in between. numbers: by input and output, the type
    that streams round it to; a result that is too large for it overflows."""
    result = evaluate_integers(formatted, quantize_inputs(formatted, inputs, numbers))
    outputs = gather_outputs(formatted, result.value, numbers)
    return Evaluated(outputs, result.overflow | infinite(outputs), result.origins)


def infinite(outputs: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Which results, (batch,), have a number that is too large for its type."""
    return np.any([np.isinf(array).any(axis=tuple(range(1, array.ndim))) for array in outputs.values()], axis=0)
