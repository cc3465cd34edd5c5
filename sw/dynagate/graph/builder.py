"""Build and edit graphs: append nodes, copy nodes of another graph, and renumber them.

`GraphBuilder.copy` adds the nodes of another graph, `Graph.reaching` lists the nodes that some outputs need, and
`Graph.numbered` selects and reorders nodes. `numbering` is the order of the nodes in every finished graph, and `unique`
makes node names unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from dynagate.graph.graph import HasOperands, Node

Key = tuple[str, tuple[int, ...], float | None]


class GraphBuilder:
    """A list of nodes that grows, operands first.

    Args:
        nodes: The initial nodes.
        shares: Returns whether a node may be reused when an equal operation on equal operands is added later.
    """

    def __init__(self, nodes: Iterable[Node], shares: Callable[[Node], bool]) -> None:
        self.nodes = list(nodes)
        self._known: dict[Key, int] = {(n.op, n.args, n.constant): i for i, n in enumerate(self.nodes) if shares(n)}

    def append(self, node: Node) -> int:
        """Add a node and return its position."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def shared(self, node: Node) -> int:
        """Return the position of a node with this operation and operands; append the node if there is no
        such node.
        """
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
    """Return the node numbers of a finished graph: depth first from the roots, operands before their readers.

    Args:
        nodes: The nodes.
        first: Nodes that come first, in this order.
        roots: Nodes whose operands are all included.

    Returns:
        Node -> number.
    """
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
    """Return a name that was not returned before, with a number appended if necessary.

    Args:
        name: The preferred name.
        taken: Name -> the last number that was appended to it. The function updates it.
    """
    candidate = name
    while candidate in taken:
        taken[name] += 1
        candidate = f"{name}.{taken[name]}"
    taken[candidate] = 1
    return candidate
