"""Packed outputs: without entries that are always zero and without the repeated entries of symmetric matrices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from dynagate.graph.graph import Graph

ZERO = -1
Packing = dict[str, npt.NDArray[np.int64]]


def packed(graph: Graph) -> tuple[Graph, Packing]:
    """Return the graph with packed outputs, and the position of each entry in them.

    Returns:
        The graph, whose outputs are vectors of distinct entries in row-major order of their first occurrence, and for
        each output an array of its full shape with positions in that vector, ZERO for entries that are always zero.
    """
    ports, packing = [], {}
    for port in graph.outputs:
        used = dict.fromkeys(i for i in port.nodes if i not in graph.zeros)
        place = {i: k for k, i in enumerate(used)}
        packing[port.name] = np.array([place.get(i, ZERO) for i in port.nodes], np.int64).reshape(port.shape)
        ports.append(replace(port, shape=(len(used),), nodes=tuple(used)))
    return graph.with_outputs(ports, "packed"), packing


def chosen_numbers(outputs: Iterable[Iterable[int]], numbers: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of a result that some outputs contain, in order.

    Args:
        outputs: The numbers of each output; other entries stand for zeros.
        numbers: The numbers of the complete result.

    Returns:
        The numbers; the first number of the result if the outputs are all zero, since a result has at least one.
    """
    kept = set(chain.from_iterable(outputs))
    return tuple(number for number in numbers if number in kept) or tuple(numbers[:1])


def unpacked(values: npt.NDArray[np.floating], where: npt.NDArray[np.int64]) -> npt.NDArray[np.floating]:
    """Return an output (..., *shape) from its packed vector (..., entries)."""
    if not values.shape[-1]:
        return np.zeros((*values.shape[:-1], *where.shape), values.dtype)
    return np.where(where == ZERO, values.dtype.type(0), values[..., np.maximum(where, 0)])
