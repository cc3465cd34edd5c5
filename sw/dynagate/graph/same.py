"""A lowered graph beside the recording that it comes from: both compute the same function.

The passes merge, fold and reorder. This evaluates their result and the nodes as they were recorded, at probes that the
passes did not see: around the typical sizes, with small and large numbers side by side, and at rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.graph.graph import Graph, GraphError, Node
from dynagate.graph.ops import OPS
from dynagate.graph.probes import probes
from dynagate.graph.rebuild import Entry, Raw, RawNode, RecordedPort

PROBES = 24
PLAIN = 8
SEED = 11
COPIES = 6
"""Evaluations of either, the first exact, the others with other roundings: they show how far rounding moves the
results."""
PERIOD = 4999
"""Number of operations that round in different ways."""
ROUNDING = 2e-14
"""Relative to each operation's result: twice what two equal nodes may differ by."""
ALLOWED = 16.0
"""Times the largest movement of the copies."""

Array = npt.NDArray[Any]


def check_same(graph: Graph, raw: Raw, inputs: Sequence[RecordedPort], outputs: Sequence[RecordedPort]) -> None:
    """Raises GraphError: an output of the graph differs from the recording by more than rounding does."""
    at = probes(inputs, {port.name: port for port in graph.inputs}, PROBES, PLAIN, SEED)
    random = np.random.default_rng(SEED)
    # the longest float of the machine also holds squares and cubes of a robot's largest numbers
    roundings = 1.0 + ROUNDING * random.uniform(-1.0, 1.0, (PERIOD, COPIES, PROBES)).astype(np.longdouble)
    roundings[:, 0] = 1.0
    renamed = {
        new: at[entry[0]]
        for port, old in zip(graph.inputs, inputs, strict=True)
        for new, entry in zip(port.nodes, old[2], strict=True)
    }
    with np.errstate(all="ignore"):
        recorded = _values(raw.nodes, [entry for port in outputs for entry in port[2]], at, roundings)
        lowered = _values(graph.nodes, [(i, 1) for i in graph.output_nodes], renamed, roundings)
        for port, (_, _, entries) in zip(graph.outputs, outputs, strict=True):
            for k, (node, entry) in enumerate(zip(port.nodes, entries, strict=True)):
                folded = not isinstance(entry, tuple)
                expected = np.full((COPIES, PROBES), entry) if folded else entry[1] * recorded[entry[0]]
                moved = sum(np.abs(values - values[0]).max(axis=0) for values in (expected, lowered[node]))
                error = np.abs(lowered[node][0] - expected[0])
                right = ~np.isfinite(moved) | (error <= ALLOWED * moved + ROUNDING * np.abs(expected[0]))
                if not right.all():
                    p = int(np.flatnonzero(~right)[0])
                    raise GraphError(
                        f"graph '{graph.name}' of '{graph.robot}': entry {k} of output '{port.name}' is "
                        f"{float(lowered[node][0, p]):g} where its recording has {float(expected[0, p]):g}: a pass "
                        "has changed the function. Please report the robot and the options"
                    )


def _values(
    nodes: Sequence[RawNode | Node], roots: Sequence[Entry], at: Mapping[int, Array], roundings: Array
) -> dict[int, Array]:
    """The values of the roots, (copies, probes). roundings: factors of the operations' results, used in turn."""
    kept = {root[0] for root in roots if isinstance(root, tuple)}
    last = dict.fromkeys(kept, len(nodes))  # of each node that is needed, its last reader
    for i in range(len(nodes) - 1, -1, -1):
        if i in last:
            for a in nodes[i].args:
                last.setdefault(a, i)
    values: dict[int, Any] = {}
    for i in sorted(last):
        node = nodes[i]
        if node.op == "input":
            values[i] = np.broadcast_to(at[i].astype(np.longdouble), roundings.shape[1:])
            continue
        constant = [] if node.constant is None else [node.constant]
        values[i] = OPS[node.op].real(*(values[a] for a in node.args), *constant) * roundings[i % len(roundings)]
        for a in set(node.args):
            if last[a] == i:
                del values[a]
    return values
