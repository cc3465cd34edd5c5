"""A lowered graph beside the recording that it comes from: both compute the same function.

The passes merge, fold and reorder. This evaluates their result and the nodes as they were recorded, at probes that the
passes did not see: around the typical sizes, with small and large numbers side by side, and at rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.graph.graph import Graph, GraphError, Node
from dynagate.graph.levels import Levels
from dynagate.graph.probes import probes
from dynagate.graph.rebuild import Entry, Raw, RawNode, RecordedPort, live_nodes

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

NUMBERS = 2**23
"""Values that are held at a time: the copies of a large graph are computed one after the other."""

Array = npt.NDArray[Any]


def check_same(graph: Graph, raw: Raw, inputs: Sequence[RecordedPort], outputs: Sequence[RecordedPort]) -> None:
    """Raises GraphError: an output of the graph differs from the recording by more than rounding does."""
    at = probes(inputs, {port.name: port for port in graph.inputs}, PROBES, PLAIN, SEED)
    renamed = {
        new: at[entry[0]]
        for port, old in zip(graph.inputs, inputs, strict=True)
        for new, entry in zip(port.nodes, old[2], strict=True)
    }
    with np.errstate(all="ignore"):
        recorded = _values(raw.nodes, [entry for port in outputs for entry in port[2]], at)
        lowered = _values(graph.nodes, [(i, 1) for port in graph.outputs for i in port.nodes], renamed)
        moved = sum(np.abs(values - values[:, :1]).max(axis=1) for values in (recorded, lowered))
        result, expected = lowered[:, 0], recorded[:, 0]
        right = ~np.isfinite(moved) | (np.abs(result - expected) <= ALLOWED * moved + ROUNDING * np.abs(expected))
    if not right.all():
        where, p = (int(k) for k in np.argwhere(~right)[0])
        name, entry = [(port.name, k) for port in graph.outputs for k in range(len(port.nodes))][where]
        raise GraphError(
            f"graph '{graph.name}' of '{graph.robot}': entry {entry} of output '{name}' is "
            f"{float(result[where, p]):g} where its recording has {float(expected[where, p]):g}: a pass "
            "has changed the function. Please report the robot and the options"
        )


@cache
def _roundings() -> Array:
    """Factors of results, (period, copies, probes): operation k has those at k modulo the period. In the longest float
    of the machine, which also holds squares and cubes of a robot's largest numbers."""
    random = np.random.default_rng(SEED)
    factors = 1.0 + ROUNDING * random.uniform(-1.0, 1.0, (PERIOD, COPIES, PROBES)).astype(np.longdouble)
    factors[:, 0] = 1.0
    return factors


def _values(nodes: Sequence[RawNode | Node], roots: Sequence[Entry], at: Mapping[int, Array]) -> Array:
    """The values of the roots, (roots, copies, probes). at: those of the inputs, (probes,)."""
    levels = Levels(nodes, live_nodes(nodes, roots))
    results = np.empty((len(roots), COPIES, PROBES), dtype=np.longdouble)
    for k, root in enumerate(roots):
        if not isinstance(root, tuple):
            results[k] = root
    placed = [(k, levels.row[root[0]], root[1]) for k, root in enumerate(roots) if isinstance(root, tuple)]
    together = max(1, min(COPIES, NUMBERS // (PROBES * max(levels.count, 1))))
    for start in range(0, COPIES, together):
        copies = slice(start, min(start + together, COPIES))
        values = np.empty((levels.count, copies.stop - start, PROBES), dtype=np.longdouble)
        for group in levels:
            if group.op == "input":
                values[group.rows] = np.stack([at[i] for i in group.nodes])[:, None]
            else:
                values[group.rows] = group.value(values) * _roundings()[group.nodes % PERIOD, copies]
        for k, row, sign in placed:
            results[k, copies] = sign * values[row]
    return results
