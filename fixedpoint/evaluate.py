"""Run a FormattedGraph on integers, over a batch: the only definition of what the hardware computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.assign import FormattedGraph, fixed_constant
from dynagate.fixedpoint.format import Fixed, Integers, quantise, to_float
from dynagate.fixedpoint.integers import FIXED
from dynagate.graph.evaluate import check_unit_vectors

BLOCK = 1024
"""States computed at once: long enough to hide numpy's call overhead, short enough for the cache."""


class Values(NamedTuple):
    """value: integers of every node asked for, by id, (batch,); by_scope: (batch, scopes of the graph), where a node of
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
    graph = formatted.graph
    batch = len(next(iter(inputs.values())))
    by_scope = np.zeros((len(graph.scopes), batch), dtype=bool)
    origins: Counter[int] = Counter()
    overflowed = np.zeros(batch, dtype=bool)
    kept = set(graph.output_nodes)
    last_user = [max(users, default=-1) for users in graph.users]
    values: dict[int, Integers] = dict(inputs)
    for i, node in enumerate(graph.nodes):
        if node.op != "input":
            operands = [Fixed(values[a], formatted.formats[a]) for a in node.args]
            if node.constant is not None:
                operands.append(fixed_constant(formatted, i))
            result = FIXED[node.op].compute(operands, formatted.formats[i], formatted.arithmetic)
            values[i] = result.value if node.args else np.full(batch, result.value)
            if np.count_nonzero(result.overflow):
                by_scope[graph.scope_of[i]] |= result.overflow
                if began := int(np.count_nonzero(result.overflow & ~overflowed)):
                    origins[i] = began
                overflowed |= result.overflow
        if not keep_all:
            for a in node.args:
                if last_user[a] == i and a not in kept:
                    values.pop(a, None)
    return Values(values, by_scope.T, origins)


def quantise_inputs(formatted: FormattedGraph, inputs: Mapping[str, npt.NDArray[np.float64]]) -> dict[int, Integers]:
    """Arrays (batch, *shape) by port name -> integers by node id. Raises ValueError: a quaternion has not length 1."""
    result: dict[int, Integers] = {}
    for port in formatted.graph.inputs:
        flat = np.asarray(inputs[port.name], dtype=np.float64).reshape(len(inputs[port.name]), -1)
        check_unit_vectors(port.name, port.unit_vectors, flat)
        for k, i in enumerate(port.nodes):
            result[i] = quantise(flat[:, k], formatted.formats[i]).value
    return result


def gather_outputs(formatted: FormattedGraph, values: Mapping[int, Integers]) -> dict[str, npt.NDArray[np.float64]]:
    """Integers by node id -> float64 arrays (batch, *shape) by port name."""
    outputs = {}
    for port in formatted.graph.outputs:
        columns = [to_float(values[i], formatted.formats[i]) for i in port.nodes]
        outputs[port.name] = np.stack(columns, axis=1).reshape(-1, *port.shape)
    return outputs


class Evaluated(NamedTuple):
    """outputs: float64 arrays (batch, *shape) by name; overflow: (batch,) states in which a node overflowed; origins:
    the nodes at which overflow began, and in how many states."""

    outputs: dict[str, npt.NDArray[np.float64]]
    overflow: npt.NDArray[np.bool_]
    origins: Counter[int]


def evaluate(formatted: FormattedGraph, inputs: Mapping[str, npt.NDArray[np.float64]]) -> Evaluated:
    """Real inputs (batch, *shape) in, real outputs out, integers in between."""
    integers = quantise_inputs(formatted, inputs)
    batch = len(next(iter(integers.values())))
    blocks = []
    for start in range(0, batch, BLOCK):
        block = {i: value[start : start + BLOCK] for i, value in integers.items()}
        blocks.append(evaluate_integers(formatted, block))
    values = {i: np.concatenate([block.value[i] for block in blocks]) for i in formatted.graph.output_nodes}
    overflow = np.concatenate([block.overflow for block in blocks])
    return Evaluated(
        gather_outputs(formatted, values), overflow, sum((block.origins for block in blocks), Counter[int]())
    )
