"""Run a Graph in floating point: the reference for every other backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError, EntryError
from dynagate.graph.graph import Graph
from dynagate.graph.ops import OPS

UNIT = 1e-5
"""How far from 1 the length of a quaternion may be: float32 states pass, a forgotten normalisation does not."""


def evaluate_nodes(graph: Graph, inputs: Mapping[str, npt.ArrayLike]) -> list[Any]:
    """The value of every node over a batch: arrays (batch,), or a float where it is constant.

    inputs: name -> (batch, *shape), float64 or complex128 (a complex step differentiates the graph).
    Raises ValueError: an input is missing, unknown or of the wrong shape, or a quaternion has not length 1.
    """
    values: list[Any] = [None] * len(graph.nodes)
    unknown = set(inputs) - {port.name for port in graph.inputs}
    if unknown:
        raise ArgumentError(f"{graph.name} has no input {', '.join(sorted(unknown))}")
    batch = None
    for port in graph.inputs:
        if port.name not in inputs:
            raise ArgumentError(f"{graph.name} needs input '{port.name}' of shape (batch, {port.shape})")
        array = np.asarray(inputs[port.name])
        if array.shape[1:] != port.shape or (batch is not None and len(array) != batch):
            raise ArgumentError(
                f"input '{port.name}' has shape {array.shape}; expected ({batch or 'batch'}, "
                f"{', '.join(map(str, port.shape))})"
            )
        batch = len(array)
        flat = array.reshape(len(array), len(port.nodes))
        check_unit_vectors(port.name, port.unit_vectors, flat)
        for k, i in enumerate(port.nodes):
            values[i] = np.ascontiguousarray(flat[:, k])
    for i, node in enumerate(graph.nodes):
        if node.op == "input":
            continue
        operands = [values[a] for a in node.args]
        if node.constant is not None:
            operands.append(node.constant)
        values[i] = OPS[node.op].real(*operands)
    return values


def evaluate(graph: Graph, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, npt.NDArray[Any]]:
    """Outputs of a graph by name, (batch, *shape), in the units of the function table.

    inputs: by name, (batch, *shape), float64, or complex128 for complex steps.
    Raises ValueError: an input is missing, unknown or of the wrong shape, or a quaternion has not length 1.
    """
    values = evaluate_nodes(graph, inputs)
    batch = len(np.asarray(next(iter(inputs.values()))))
    dtype = np.result_type(*(values[i] for i in graph.input_nodes), np.float64)
    results = {}
    for port in graph.outputs:
        out = np.empty((batch, len(port.nodes)), dtype=dtype)
        for k, i in enumerate(port.nodes):
            out[:, k] = values[i]
        results[port.name] = out.reshape(batch, *port.shape)
    return results


def check_unit_vectors(name: str, places: Iterable[tuple[int, int]], flat: npt.NDArray[Any]) -> None:
    """Raises ValueError where entries of an input (batch, entries) that must have length 1 together do not."""
    for start, stop in places:
        part = flat[:, start:stop]
        squared = np.sum(part * part, axis=1).real
        wrong = np.flatnonzero(np.abs(squared - 1.0) > 2.0 * UNIT)
        if len(wrong):
            k = int(wrong[0])
            raise EntryError(
                f"input '{name}' of sample {{sample}} has at [{start}:{stop}] a quaternion of length "
                f"{np.sqrt(squared[k]):g}; expected 1",
                (k,),
            )
