"""Evaluate a graph in floating point: the reference for every other backend."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import as_array, check_kind, check_names, check_unit_vectors, exact_text, leading_axes
from dynagate.base.errors import EntryError
from dynagate.base.explained import explained
from dynagate.graph.graph import Graph
from dynagate.graph.ops import OPS
from dynagate.robot.variable import wrong_entry

BLOCK = 4096
"""Number of states that are evaluated at once, so that their values stay in the processor's cache."""


def evaluate_nodes(graph: Graph, inputs: Mapping[str, npt.ArrayLike]) -> list[Any]:
    """Evaluate every node of a graph over a batch.

    Args:
        graph: The graph.
        inputs: Name -> array (batch, *shape), float64 or complex128 (a complex step differentiates the graph).

    Returns:
        For each node an array (batch,), or a float if the node is constant.

    Raises:
        ArgumentError: An input is missing, unknown or of the wrong shape, a quaternion does not have length 1, or a
            switch is neither 0 nor 1.
    """
    values = _values(graph, _columns(graph, inputs), range(len(graph)))
    return [values[i] for i in range(len(graph))]


@explained
def evaluate(graph: Graph, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, npt.NDArray[Any]]:
    """Evaluate the outputs of a graph over a batch.

    Args:
        graph: The graph.
        inputs: Name -> array (batch, *shape), float64 or complex128 for complex steps.

    Returns:
        Output name -> array (batch, *shape), in the units of the function table.

    Raises:
        ArgumentError: An input is missing, unknown or of the wrong shape, a quaternion does not have length 1, or a
            switch is neither 0 nor 1.
        TypeError: graph is not a Graph.
    """
    check_kind("graph", graph, Graph, optional=False)
    columns = _columns(graph, inputs)
    batch = len(np.asarray(next(iter(inputs.values()))))
    dtype = np.result_type(*columns.values(), np.float64)
    kept = set(graph.output_nodes)
    flat = {port.name: np.empty((batch, len(port.nodes)), dtype=dtype) for port in graph.outputs}
    for start in range(0, batch, BLOCK):
        rows = slice(start, start + BLOCK)
        values = _values(graph, {i: column[rows] for i, column in columns.items()}, kept)
        for port in graph.outputs:
            for k, i in enumerate(port.nodes):
                flat[port.name][rows, k] = values[i]
    return {port.name: flat[port.name].reshape(batch, *port.shape) for port in graph.outputs}


def _columns(graph: Graph, inputs: Mapping[str, npt.ArrayLike]) -> dict[int, npt.NDArray[Any]]:
    """Return the value of each input node, (batch,), after the checks of `evaluate_nodes`."""
    columns: dict[int, npt.NDArray[Any]] = {}
    check_names(graph.name, graph.inputs, inputs)
    # complex arrays are accepted too
    arrays = {port.name: as_array(f"input '{port.name}'", inputs[port.name]) for port in graph.inputs}
    leading_axes(graph.inputs, arrays, axes=1)
    for port in graph.inputs:
        array = arrays[port.name]
        flat = array.reshape(len(array), len(port.nodes))
        check_entries(port, flat)
        for k, i in enumerate(port.nodes):
            columns[i] = np.ascontiguousarray(flat[:, k])
    return columns


def _values(graph: Graph, columns: Mapping[int, npt.NDArray[Any]], kept: Collection[int]) -> dict[int, Any]:
    """Evaluate nodes and return at least the kept ones. The memory of other values is freed after their last use."""
    values: dict[int, Any] = dict(columns)
    for i, node in enumerate(graph.nodes):
        if node.op != "input":
            operands = [values[a] for a in node.args]
            if node.constant is not None:
                operands.append(node.constant)
            values[i] = OPS[node.op].real(*operands)
        for a in graph.last_read[i]:
            if a not in kept:
                del values[a]
    return values


SHARES = ("restitution",)
"""Names of function inputs that must be from 0 to 1."""


class InputRange(Protocol):
    """The properties of an input that limit its values, as in `graph.Port`."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def unit_vectors(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def parameter(self) -> str: ...
    @property
    def switches(self) -> bool: ...


def check_entries(port: InputRange, flat: npt.NDArray[Any]) -> None:
    """Raise ArgumentError if entries of an input (batch, entries) violate the properties of its port."""
    check_unit_vectors(port.name, port.unit_vectors, flat)
    if port.switches:
        _check_each(port, flat, (flat == 0.0) | (flat == 1.0), "{:g}", "0 or 1")
    if port.name in SHARES:
        shares = flat.real  # the imaginary part is a complex step
        _check_each(port, shares, (shares >= 0.0) & (shares <= 1.0), "{}", "0 to 1")
    if port.parameter:
        _check_parameter(port, flat.real)


def _check_parameter(port: InputRange, flat: npt.NDArray[Any]) -> None:
    """Raise EntryError at the first numbers that no robot has, such as a mass below 0."""
    if (wrong := wrong_entry(port.parameter, flat)) is None:
        return
    sample, start, size, expected = wrong
    places = [np.unravel_index(k, port.shape) for k in (start, start + size - 1)]
    at = (sample, *(int(a) for a, b in zip(*places, strict=True) if a == b))
    numbers = flat[sample, start : start + size]
    value = exact_text(numbers[0]) if size == 1 else np.array2string(numbers, precision=6)
    raise EntryError(f"input '{port.name}' is {value} at {{at}}; expected {expected}", at, code="DG-GRAPH-007")


def _check_each(
    port: InputRange, flat: npt.NDArray[Any], accepted: npt.NDArray[np.bool_], text: str, expected: str
) -> None:
    """Raise EntryError at the first entry that is not accepted. `text` formats the entry in the error."""
    wrong = np.argwhere(~accepted)
    if len(wrong):
        sample, entry = (int(k) for k in wrong[0])
        at = (sample, *(int(k) for k in np.unravel_index(entry, port.shape)))
        value = text.format(flat[sample, entry])
        raise EntryError(f"input '{port.name}' is {value} at {{at}}; expected {expected}", at, code="DG-GRAPH-008")
