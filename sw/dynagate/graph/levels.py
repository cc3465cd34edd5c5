"""Group the nodes of a recording by operation and level, so that numpy evaluates each group in one call.

The level of a node is one more than the highest level among its operands. A group therefore reads only earlier groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.arrays import Array
from dynagate.graph.graph import Node
from dynagate.graph.ops import OPS
from dynagate.graph.rebuild import RawNode


class Group(NamedTuple):
    """Nodes of one operation and one level."""

    op: str
    """Name of the operation."""
    nodes: Array
    """The nodes, (n,)."""
    rows: slice
    """Rows of the table of values that hold the results."""
    operands: list[Array]
    """Rows (n,) of the values of each operand."""
    constants: Array | None
    """Constants (n,) of the nodes; None if the operation has none."""

    def value(self, values: Array) -> Any:
        """Apply the operation to values (rows, *shape), with a result of shape (n, *shape)."""
        operands: list[Any] = [values[rows] for rows in self.operands]
        if self.constants is not None:
            operands.append(self.constants.reshape(-1, *(1,) * (values.ndim - 1)))
        return OPS[self.op].real(*operands)


class Levels:
    """The groups of the live nodes, operands first. `row` has each node's row in a table of `count` values."""

    def __init__(self, nodes: Sequence[RawNode | Node], live: Sequence[bool]) -> None:
        level = [0] * len(nodes)
        members: dict[tuple[int, str], list[int]] = {}
        for i, node in enumerate(nodes):
            if live[i]:
                last = 0
                for a in node.args:  # several times faster than max()
                    last = level[a] if level[a] > last else last
                level[i] = last + 1
                members.setdefault((level[i], node.op), []).append(i)
        self._nodes = nodes
        self._members = sorted(members.items())
        self.count = sum(live)
        self.row = np.full(len(nodes), -1)
        self.row[[i for _, ids in self._members for i in ids]] = np.arange(self.count)

    def __iter__(self) -> Iterator[Group]:
        start = 0
        for (_, op), ids in self._members:
            nodes = [self._nodes[i] for i in ids]
            operands = [self.row[list(rows)] for rows in zip(*(node.args for node in nodes), strict=True)]
            constants = None if nodes[0].constant is None else np.array([node.constant for node in nodes])
            yield Group(op, np.array(ids), slice(start, start + len(ids)), operands, constants)
            start += len(ids)
