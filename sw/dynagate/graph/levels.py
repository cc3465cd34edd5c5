"""The nodes of a recording in groups: those of one operation and one level, which numpy evaluates in one call.

A node's level is one more than the highest of its operands', so a group reads only earlier groups.
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
    """Nodes (n,) of one operation. rows: where their values stand. operands: rows (n,) of each operand's values.
    constants: (n,), or None."""

    op: str
    nodes: Array
    rows: slice
    operands: list[Array]
    constants: Array | None

    def value(self, values: Array) -> Any:
        """Apply the operation to values (rows, *shape), with a result of shape (n, *shape)."""
        operands: list[Any] = [values[rows] for rows in self.operands]
        if self.constants is not None:
            operands.append(self.constants.reshape(-1, *(1,) * (values.ndim - 1)))
        return OPS[self.op].real(*operands)


class Levels:
    """The groups of the live nodes, operands first. row: per node, the place of its value among `count` of them."""

    def __init__(self, nodes: Sequence[RawNode | Node], live: Sequence[bool]) -> None:
        level = [0] * len(nodes)
        members: dict[tuple[int, str], list[int]] = {}
        for i, node in enumerate(nodes):
            if live[i]:
                last = 0
                for a in node.args:  # several times as fast as max()
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
