"""Nodes in the form in which a trace records them, and functions with which a pass rebuilds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dynagate.base.exact import exact
from dynagate.graph.graph import Node, reaching
from dynagate.graph.ops import OPS


class RawNode(NamedTuple):
    """A recorded operation: a `graph.Node` without a name."""

    op: str
    args: tuple[int, ...]
    constant: float | None


class Raw(NamedTuple):
    """Recorded nodes, their names, and whether the algorithm chose the name itself; others are named by operation."""

    nodes: list[RawNode]
    names: list[str]
    named: list[bool]


Entry = Any
"""An entry of a port, or the replacement of a node: (node, sign), or a float for a constant."""
RecordedPort = tuple[str, tuple[int, ...], Sequence[Entry]]
"""Name, shape and entries of a port."""


def live_nodes(nodes: Sequence[RawNode | Node], roots: Sequence[Entry]) -> list[bool]:
    """Return for each node whether one of the roots depends on it."""
    return reaching(nodes, (root[0] for root in roots if isinstance(root, tuple)))


def replay(node: RawNode, operands: Sequence[Any], trace: Any, name: str) -> Any:
    """Record an operation again on new operands, with folding and sharing as in the first recording.

    Args:
        node: The operation.
        operands: The new operands.
        trace: The recorder.
        name: Name of the node if it is an input.

    Raises:
        OverflowError: The operands are constants for which the operation has no finite result.
    """
    if node.op == "input":
        return trace.input(name)
    constant = [] if node.constant is None else [node.constant]
    try:
        return OPS[node.op].real(*operands, *constant)
    except ZeroDivisionError:
        raise OverflowError from None


def entry_of(value: Any) -> Entry:
    """Return a rebuilt expression or number as an entry of a port."""
    return (value.id, value.sign) if hasattr(value, "id") else exact(value)


def with_sign(value: Any, sign: int) -> Any:
    """Return a value, negated if the sign is negative."""
    return value if sign > 0 else -value


Rebuilt = tuple[Raw, list[RecordedPort], list[RecordedPort]]
"""The result of a pass: nodes, inputs and outputs."""


def rebuilt(
    trace: Any, place: dict[int, Any], inputs: Sequence[RecordedPort], outputs: Sequence[RecordedPort]
) -> Rebuilt:
    """Return the result of a pass: the nodes of its trace, and the ports with their new nodes.

    Args:
        trace: The recorder.
        place: Old node -> new expression or number.
        inputs: Old input ports.
        outputs: Old output ports.
    """
    raw = Raw(trace.nodes, trace.names, trace.named)
    return raw, [moved(port, place) for port in inputs], [moved(port, place) for port in outputs]


def moved(port: RecordedPort, place: dict[int, Any]) -> RecordedPort:
    """Return a port with rebuilt entries, from a map of old nodes to new expressions or numbers."""
    entries: list[Entry] = []
    for entry in port[2]:
        if isinstance(entry, tuple):
            entries.append(entry_of(with_sign(place[entry[0]], entry[1])))
        else:
            entries.append(entry)
    return port[0], port[1], entries
