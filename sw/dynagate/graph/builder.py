"""Nodes under construction: what edits of a graph have in common.

An edit appends nodes, operands first, to those of a graph. `GraphBuilder.copy` brings the nodes of another graph in,
`Graph.reaching` has the nodes that some outputs need, and `Graph.numbered` makes the graph of nodes in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from dynagate.graph.graph import Node

Key = tuple[str, tuple[int, ...], float | None]


class GraphBuilder:
    """Nodes of a graph, and new ones after them.

    Args:
        nodes: The nodes to begin with.
        shares: Whether a node may stand for an equal operation of equal operands that is added later.
    """

    def __init__(self, nodes: Iterable[Node], shares: Callable[[Node], bool]) -> None:
        self.nodes = list(nodes)
        self._known: dict[Key, int] = {(n.op, n.args, n.constant): i for i, n in enumerate(self.nodes) if shares(n)}

    def append(self, node: Node) -> int:
        """Add a node and return its position."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def shared(self, node: Node) -> int:
        """Return the position of a node with this operation and these operands, which is added if there is none."""
        key = node.op, node.args, node.constant
        if key not in self._known:
            self._known[key] = self.append(node)
        return self._known[key]

    def copy(
        self, nodes: Iterable[Node], replaced: Mapping[int, int], named: Callable[[str], str] = lambda name: name
    ) -> list[int]:
        """Add the nodes of another graph and return the position of each.

        Args:
            nodes: The nodes, operands first.
            replaced: Nodes that are not added -> the position of the node in their place.
            named: Returns the name of an added node from its own.
        """
        place: list[int] = []
        for i, node in enumerate(nodes):
            if i in replaced:
                place.append(replaced[i])
                continue
            args = tuple(place[a] for a in node.args)
            place.append(self.shared(replace(node, args=args, name=named(node.name))))
        return place
