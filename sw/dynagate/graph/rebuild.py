"""Recorded nodes, before they are a Graph, and how a pass rebuilds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dynagate.graph.ops import OPS


class RawNode(NamedTuple):
    op: str
    args: tuple[int, ...]
    constant: float | None


class Raw(NamedTuple):
    """Nodes as recorded, with their names and whether the algorithm gave the name itself."""

    nodes: list[RawNode]
    names: list[str]
    named: list[bool]


Entry = Any
"""What a port lists, or what became of a node: (node id, sign), or a float for a constant."""
RecordedPort = tuple[str, tuple[int, ...], Sequence[Entry]]


def live_nodes(raw: Raw, roots: Sequence[Entry]) -> list[bool]:
    """Which nodes the roots need."""
    live = [False] * len(raw.nodes)
    for root in roots:
        if isinstance(root, tuple):
            live[root[0]] = True
    for i in reversed(range(len(raw.nodes))):
        if live[i]:
            for a in raw.nodes[i].args:
                live[a] = True
    return live


def replay(node: RawNode, operands: Sequence[Any], trace: Any, name: str) -> Any:
    """The node's operation on new operands, folded and shared as when it was first recorded."""
    if node.op == "input":
        return trace.input(name)
    constant = [] if node.constant is None else [node.constant]
    return OPS[node.op].real(*operands, *constant)


def entry_of(value: Any) -> Entry:
    """A rebuilt expression or number as a port entry."""
    return (value.id, value.sign) if hasattr(value, "id") else float(value)


def with_sign(value: Any, sign: int) -> Any:
    return value if sign > 0 else -value


Rebuilt = tuple[Raw, list[RecordedPort], list[RecordedPort]]


def rebuilt(
    trace: Any, place: dict[int, Any], inputs: Sequence[RecordedPort], outputs: Sequence[RecordedPort]
) -> Rebuilt:
    """What a pass returns: the nodes of its trace, and both sides' ports moved there. place: old id -> new value."""
    raw = Raw(trace.nodes, trace.names, trace.named)
    return raw, [moved(port, place) for port in inputs], [moved(port, place) for port in outputs]


def moved(port: RecordedPort, place: dict[int, Any]) -> RecordedPort:
    """The port after its nodes were rebuilt; place[id] is the new expression or number."""
    entries: list[Entry] = []
    for entry in port[2]:
        if isinstance(entry, tuple):
            entries.append(entry_of(with_sign(place[entry[0]], entry[1])))
        else:
            entries.append(entry)
    return port[0], port[1], entries
