"""Nodes under construction: what edits of a graph have in common.

An edit appends nodes, operands first, to those of a graph. `GraphBuilder.copy` brings the nodes of another graph in,
`Graph.reaching` has the nodes that some outputs need, and `Graph.numbered` makes the graph of nodes in another order.
`numbering` is the order that all graphs have in the end, and `unique` gives each of their nodes a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from dynagate.graph.graph import HasOperands, Node

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


def numbering(nodes: Sequence[HasOperands], first: Sequence[int], roots: Sequence[int]) -> dict[int, int]:
    """Node -> its number, of the nodes `first` and of all that the roots need: depth first, operands before readers."""
    order: dict[int, int] = {}
    for i in first:
        order.setdefault(i, len(order))
    for root in roots:
        stack = [root]
        while stack:
            i = stack[-1]
            missing = [a for a in nodes[i].args if a not in order]
            if i in order or not missing:
                stack.pop()
                order.setdefault(i, len(order))
            else:
                stack.extend(reversed(missing))
    return order


def unique(name: str, taken: dict[str, int]) -> str:
    """The name, or the name with the next free number. taken: name -> the last number that was tried with it."""
    candidate = name
    while candidate in taken:
        taken[name] += 1
        candidate = f"{name}.{taken[name]}"
    taken[candidate] = 1
    return candidate
