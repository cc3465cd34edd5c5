"""Lower the recorded nodes of a trace to a Graph: merge equal nodes, balance sums, place signs and number
the nodes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dynagate.base.exact import exact
from dynagate.base.progress import Progress, quiet
from dynagate.base.warned import warn
from dynagate.graph.builder import numbering, unique
from dynagate.graph.equivalence import difference
from dynagate.graph.graph import Graph, GraphError, GraphWarning, Port, new_node
from dynagate.graph.identities import merge_identities
from dynagate.graph.ops import OPS, SUMS
from dynagate.graph.rebuild import (
    Entry,
    Raw,
    RawNode,
    Rebuilt,
    RecordedPort,
    live_nodes,
    rebuilt,
    replay,
    with_sign,
)


def lower(
    name: str,
    robot: str,
    raw: Raw,
    inputs: Sequence[RecordedPort],
    outputs: Sequence[RecordedPort],
    new_trace: Callable[[], Any],
    ports: Mapping[str, Port],
    progress: Progress = quiet,
) -> Graph:
    """Lower recorded nodes to a checked graph.

    If merging equal nodes would change the function, it is omitted with a GraphWarning.

    Args:
        name: Name of the function.
        robot: Name of the robot.
        raw: The recorded nodes.
        inputs: Input ports.
        outputs: Output ports.
        new_trace: Returns an empty recorder, in which a pass rebuilds the nodes.
        ports: Properties of the inputs by name; their nodes are ignored.
        progress: Receives a line of text before each pass.

    Returns:
        The graph.

    Raises:
        GraphError: The graph differs from the recording even without merging, which is a bug in a pass.
    """
    recorded = Recorded(raw, inputs, outputs)
    progress(f"finding equal ones among {len(raw.nodes):,} operations of {name}")
    merged = merge_identities(raw, inputs, outputs, ports, new_trace)
    progress(f"balancing the sums among {len(merged[0].nodes):,} operations of {name}")
    graph = _lowered(name, robot, merged, ports, new_trace)
    progress(f"comparing {len(graph):,} operations of {name} with the {len(raw.nodes):,} recorded ones")
    differs = difference(graph, *recorded)
    if differs is None:
        return graph
    progress(f"lowering {name} without merging")
    graph = _lowered(name, robot, recorded, ports, new_trace)
    still = difference(graph, *recorded)
    if still is not None and still.certain:
        raise GraphError(
            f"graph '{name}' of '{robot}': {still.text}: a pass has changed the function. "
            "Please report the robot and the options",
            code="DG-GRAPH-012",
        )
    warn(
        f"graph '{name}' of '{robot}' keeps operations that are equal: with these merged, {differs.text}. The graph is "
        "right, and has more operations than it needs. Please report the robot and the options",
        GraphWarning,
        code="DG-GRAPH-013",
    )
    return graph


class Recorded(NamedTuple):
    """Nodes with the ports that read them."""

    raw: Raw
    inputs: Sequence[RecordedPort]
    outputs: Sequence[RecordedPort]


def _lowered(
    name: str,
    robot: str,
    recorded: tuple[Raw, Sequence[RecordedPort], Sequence[RecordedPort]],
    ports: Mapping[str, Port],
    new_trace: Callable[[], Any],
) -> Graph:
    """Return the graph of the nodes, with balanced sums and with minus signs where they cost least."""
    raw, inputs, outputs = balance_sums(*recorded, new_trace)
    signed = _SignPlacer(raw, [entry for port in outputs for entry in port[2]])
    results = [(port[0], port[1], [signed.node_of(e) for e in port[2]]) for port in outputs]
    graph = _number(name, robot, signed.raw, [(p[0], p[1], [e[0] for e in p[2]]) for p in inputs], results)
    return replace(graph, inputs=tuple(replace(ports[port.name], nodes=port.nodes) for port in graph.inputs)).check()


def balance_sums(
    raw: Raw,
    inputs: Sequence[RecordedPort],
    outputs: Sequence[RecordedPort],
    new_trace: Callable[[], Any],
) -> Rebuilt:
    """Rebuild each sum of several terms as a tree that adds the terms that are ready last at the end.

    A partial sum with another reader stays one term, so that it remains shared.

    Args:
        raw: The recorded nodes.
        inputs: Input ports.
        outputs: Output ports.
        new_trace: Returns an empty recorder.

    Returns:
        The rebuilt nodes, inputs and outputs.
    """
    roots = [entry for port in outputs for entry in port[2]]
    live = live_nodes(raw.nodes, [*roots, *(entry for port in inputs for entry in port[2])])
    inner, balance = _inner_sums(raw, live, roots), _Balance(new_trace())
    place: dict[int, Any] = {}
    for i, node in enumerate(raw.nodes):
        if not live[i] or inner[i]:
            continue
        name, named = raw.names[i], raw.named[i]
        if node.op not in SUMS:
            replayed = replay(node, [place[a] for a in node.args], balance.trace, name)
            place[i] = balance.note(replayed, name, named)
            continue
        terms: list[tuple[int, int]] = []
        constant = _collect_terms(raw, inner, i, 1, terms)
        place[i] = balance.sum([with_sign(place[a], sign) for a, sign in terms], constant, name, named)
    return rebuilt(balance.trace, place, inputs, outputs)


def _inner_sums(raw: Raw, live: Sequence[bool], roots: Sequence[Any]) -> list[bool]:
    """Return for each node whether it is a partial sum whose only reader is another sum."""
    uses = [0] * len(raw.nodes)
    for i, node in enumerate(raw.nodes):
        if live[i]:
            for a in node.args:
                uses[a] += 1
    for entry in roots:
        if isinstance(entry, tuple):
            uses[entry[0]] += 1
    inner = [False] * len(raw.nodes)
    for i, node in enumerate(raw.nodes):
        if live[i] and node.op in SUMS:
            for a in node.args:
                inner[a] = raw.nodes[a].op in SUMS and uses[a] == 1
    return inner


def _collect_terms(raw: Raw, inner: Sequence[bool], i: int, sign: int, terms: list[tuple[int, int]]) -> float:
    """Append (node, sign) of each term of the sum at node i to `terms`, and return the constant of the sum."""
    node = raw.nodes[i]
    constant: float = _ZERO
    s = sign
    for a in node.args:
        if inner[a]:
            part = _collect_terms(raw, inner, a, s, terms)
            constant = part if constant is _ZERO else constant + part
        else:
            terms.append((a, s))
        s = -sign if node.op == "sub" else sign
    return constant + sign * exact(node.constant or 0.0) if node.op == "add_const" else constant


_ZERO = exact(0.0)


class _Balance:
    """Sums in a trace, and the cycle in which each of its nodes is ready."""

    def __init__(self, trace: Any) -> None:
        self.trace = trace
        self._ready: list[int] = []
        self._noted: set[int] = set()

    def note(self, value: Any, name: str, named: bool) -> Any:
        """Record the name and readiness of a new node, and return it."""
        if not hasattr(value, "id"):  # folded to a number
            return value
        trace, id, ready = self.trace, value.id, self._ready
        for op, args, _ in trace.nodes[len(ready) :]:
            last = 0
            for a in args:  # several times faster than max()
                last = ready[a] if ready[a] > last else last
            ready.append(OPS[op].cycles + last)
        if id not in self._noted:
            self._noted.add(id)
            trace.names[id], trace.named[id] = name, named
        elif named and not trace.named[id]:
            trace.names[id], trace.named[id] = name, True
        return value

    def sum(self, pending: list[Any], total: Any, name: str, named: bool) -> Any:
        """Build the balanced sum of the terms `pending` and the number `total`, and record it with a name.

        named: Whether the name was set by `label`, so that it replaces a generated one.
        """
        queue: list[tuple[int, int, Any]] = []
        order = 0
        while pending or len(queue) > 1:
            for value in pending:
                if hasattr(value, "id"):
                    heapq.heappush(queue, (self._ready[value.id], order, value))
                    order += 1
                else:
                    total = total + value
            pending = []
            if len(queue) > 1:
                (_, _, x), (_, _, y) = heapq.heappop(queue), heapq.heappop(queue)
                last = not queue and total == 0.0
                pending = [self.note(x + y, name if last else f"{name}.part", named and last)]
        for _, _, value in queue:
            total = value + total
        return self.note(total, name, named)


class _SignPlacer:
    """Compute negated outputs with the fewest negations.

    -(a - b) becomes b - a, and a negated product with a constant gets the negated constant. The minus of another sum or
    product moves to the operand where it costs least. At worst it ends in one shared negation: -M⁻¹ X negates entries
    of M⁻¹, not of the result.
    """

    def __init__(self, raw: Raw, outputs: Sequence[Entry]) -> None:
        self.raw = Raw(list(raw.nodes), list(raw.names), list(raw.named))
        self.negated: dict[int, int] = {}
        self.constants: dict[float, int] = {}
        self.uses = [0] * len(raw.nodes)
        for i, is_live in enumerate(live_nodes(raw.nodes, outputs)):
            if is_live:
                for a in raw.nodes[i].args:
                    self.uses[a] += 1
        # an entry that occurs twice with the same sign (in a symmetric matrix) counts as one use
        for i, _ in {e for e in outputs if isinstance(e, tuple)}:
            self.uses[i] += 1

    def node_of(self, entry: Entry) -> int:
        """Return the node that computes an entry of an output."""
        if not isinstance(entry, tuple):
            if entry not in self.constants:
                self.constants[entry] = self._new(RawNode("const", (), entry), "const")
            return self.constants[entry]
        i, sign = entry
        return i if sign > 0 else self.negate(i)

    def _new(self, node: RawNode, name: str) -> int:
        self.raw.nodes.append(node)
        self.raw.names.append(name)
        self.raw.named.append(False)
        return len(self.raw.nodes) - 1

    def _cost(self, i: int) -> int:
        """Return the number of negations needed to compute -node i."""
        if i in self.negated:
            return 0
        node = self.raw.nodes[i]
        if self.uses[i] == 1:
            if node.op in ("sub", "mul_const"):
                return 0
            if node.op in ("add", "mul"):
                return min(self._cost(a) for a in node.args)
        return 1

    def negate(self, i: int) -> int:
        """Return a node that computes minus node i. A node with a single reader is rewritten in place."""
        if i in self.negated:
            return self.negated[i]
        node = self.raw.nodes[i]
        result = i
        if self.uses[i] == 1 and node.op == "sub":
            self.raw.nodes[i] = node._replace(args=node.args[::-1])
        elif self.uses[i] == 1 and node.op == "mul_const":
            self.raw.nodes[i] = node._replace(constant=-exact(node.constant or 0.0))
        elif self.uses[i] == 1 and node.op in ("add", "mul"):
            a, b = node.args
            # at equal cost, the operand with more uses
            if (self._cost(b), -self.uses[b]) < (self._cost(a), -self.uses[a]):
                a, b = b, a
            minus = self.negate(a)
            self.raw.nodes[i] = RawNode("sub" if node.op == "add" else "mul", (minus, b), None)
        else:
            result = self._new(RawNode("neg", (i,), None), self.raw.names[i] + ".neg")
        self.negated[i] = result
        return result


def _number(
    name: str,
    robot: str,
    raw: Raw,
    inputs: Sequence[tuple[str, tuple[int, ...], list[int]]],
    outputs: Sequence[tuple[str, tuple[int, ...], list[int]]],
) -> Graph:
    """Return the graph of the live nodes with unique names: inputs first, then depth first from the outputs."""
    order = numbering(raw.nodes, [i for port in inputs for i in port[2]], [i for port in outputs for i in port[2]])
    taken: dict[str, int] = {}
    nodes = []
    for i in order:
        op, args, constant = raw.nodes[i]
        if op == "mul_const" and constant is not None and math.frexp(abs(constant))[0] == 0.5 and constant > 0.0:
            op, constant = "shift", float(math.frexp(constant)[1] - 1)
        nodes.append(new_node(op, tuple([order[a] for a in args]), constant, unique(raw.names[i], taken)))

    ports = [[Port(p[0], p[1], tuple(order[i] for i in p[2])) for p in side] for side in (inputs, outputs)]
    return Graph(name, robot, tuple(nodes), tuple(ports[0]), tuple(ports[1]))
