"""Merge nodes that are equal for every input although their formulas differ, and fold those that are constant.

Examples are c² + s² = 1, orthogonal columns, and symmetric products. There is no rewriting rule for each of them:
`field` evaluates the recorded nodes exactly, and nodes with the same value, up to sign, become one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dynagate.base.exact import Exact
from dynagate.graph import field
from dynagate.graph.field import Element
from dynagate.graph.graph import Node, Port
from dynagate.graph.ops import OPS
from dynagate.graph.rebuild import Entry, Raw, RawNode, Rebuilt, RecordedPort, live_nodes, rebuilt, replay, with_sign


def merge_identities(
    raw: Raw,
    inputs: Sequence[RecordedPort],
    outputs: Sequence[RecordedPort],
    ports: Mapping[str, Port],
    new_trace: Callable[[], Any],
) -> Rebuilt:
    """Rebuild the nodes with equal ones merged (up to sign), and with zeros and constants folded.

    Args:
        raw: The recorded nodes.
        inputs: Input ports.
        outputs: Output ports.
        ports: Properties of the inputs by name, as in `lower`.
        new_trace: Returns an empty recorder.

    Returns:
        The rebuilt nodes, inputs and outputs.
    """
    roots = [entry for port in (*inputs, *outputs) for entry in port[2]]
    live = live_nodes(raw.nodes, roots)
    same = _representatives(raw, live, elements(raw.nodes, live, inputs, ports))
    trace = new_trace()
    place: dict[int, Any] = {}
    for i, node in enumerate(raw.nodes):
        if not live[i]:
            continue
        equal = same.get(i)
        if isinstance(equal, tuple):
            place[i] = with_sign(place[equal[0]], equal[1])
        elif equal is not None:
            place[i] = equal
        else:
            place[i] = replay(node, [place[a] for a in node.args], trace, raw.names[i])
        if hasattr(place[i], "id") and not trace.named[place[i].id]:
            trace.names[place[i].id], trace.named[place[i].id] = raw.names[i], raw.named[i]
    return rebuilt(trace, place, inputs, outputs)


def elements(
    nodes: Sequence[RawNode | Node],
    live: Sequence[bool],
    inputs: Sequence[RecordedPort],
    ports: Mapping[str, Port],
) -> dict[int, Element]:
    """Evaluate the live nodes in exact arithmetic. Entry k of an input has the same element in every graph.

    Args:
        nodes: The nodes.
        live: For each node, whether to evaluate it.
        inputs: Input ports.
        ports: Properties of the inputs by name.

    Returns:
        Node -> its element.
    """
    values = _elements_of_inputs(inputs, ports)
    for i, node in enumerate(nodes):
        op, args, constant = node.op, node.args, node.constant
        if not live[i] or op == "input":
            continue
        if op == "mul":
            values[i] = values[args[0]] * values[args[1]]
        elif constant is None:
            values[i] = OPS[op].real(*[values[a] for a in args])
        elif op == "const":
            values[i] = field.constant(constant)
        else:
            values[i] = OPS[op].real(values[args[0]], constant)
    return values


def _elements_of_inputs(inputs: Sequence[RecordedPort], ports: Mapping[str, Port]) -> dict[int, Element]:
    """Draw the elements of the input nodes. An entry that occurs twice is one node, and so one element."""
    values: dict[int, Element] = {}
    for name, _, entries in inputs:
        nodes = [entry[0] for entry in entries]
        first = {node: k for k, node in reversed(list(enumerate(nodes)))}
        names = [f"{name} {first[node]}" for node in nodes]
        values.update(zip(nodes, field.inputs(names), strict=True))
        for start, stop in ports[name].unit_vectors:
            if stop - start > 1:  # a single entry is 1 or -1
                values.update(zip(nodes[start:stop], field.unit_vector(names[start:stop]), strict=True))
    return values


def _representatives(raw: Raw, live: Sequence[bool], values: Mapping[int, Element]) -> dict[int, Entry]:
    """Return for each node an equal earlier node and the sign between them, or the node's constant value."""
    same: dict[int, Entry] = {}
    first: dict[tuple[int, ...], int] = {}
    for i, node in enumerate(raw.nodes):
        if not live[i]:
            continue
        value = values[i]
        constant = None if node.op == "const" else field.rational(value)
        if constant is not None:
            same[i] = Exact(float(constant), value.points[0])
        elif (points := value.points) in first:
            same[i] = first[points], 1
        elif (opposite := (-value).points) in first:
            same[i] = first[opposite], -1
        else:
            first[points] = i
    return same
