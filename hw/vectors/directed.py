"""Choose samples for a bench that overflow each pass and each operation by itself, and that read each table completely.

States are chosen from a pool by the integer model. A state is worth choosing for the points that it covers:

* an operation overflows, and no other one of its pass does, so that a lost overflow bit is noticed;
* an operation reads an entry of a table with an operand for which a certain bit of the entry changes an output.

The last point is decided by computing all that depends on the operation twice more, with 1 added to its result and with
1 subtracted. For graphs that are too large for this, it counts if the bit changes the result of the operation.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.format import Integers
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.fixedpoint.models.evaluate import compute_node, evaluate_changed, evaluate_integers
from dynagate.fixedpoint.ranges.reachable import Reachable, reachable
from dynagate.fixedpoint.table_use import UsedTable, table_of

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

BLOCK = 1024
"""Number of states whose integers are kept at once."""
VISITS = 2
"""Number of samples that cover a point of a table if possible, if rounding behind the table may hide one of them."""
MAX_EVALUATED = 1 << 27
"""Largest number of evaluated nodes, over all states, with which changed outputs are sought."""


class TableReads(NamedTuple):
    """How states read a table by one operation."""

    node: int
    """Node of the operation."""
    table: UsedTable
    entries: Ints
    """Entry that each state reads, (states,)."""
    visible: Flags
    """Which bits of the entry change an output, or the result of the operation for large graphs, (states, bits)."""


@dataclass(frozen=True)
class ObservedSamples:
    """Points that states cover."""

    nodes: tuple[int, ...]
    """Operations that may overflow."""
    scopes: Ints
    """Pass of each of these operations, (operations,)."""
    overflow: Flags
    """Which of them overflow, (states, operations)."""
    reads: tuple[TableReads, ...]
    bounds: Reachable
    """Values that the nodes may have for any input."""
    visits: int
    """Number of samples that cover a point of a table: 1 if its bit changes an output."""

    @property
    def alone(self) -> Flags:
        """Return which operations overflow while no other one of their pass does, (states, operations)."""
        counts = np.zeros((len(self.overflow), int(self.scopes.max(initial=-1)) + 1), np.int64)
        for scope in range(counts.shape[1]):
            counts[:, scope] = self.overflow[:, self.scopes == scope].sum(axis=1)
        return np.asarray(self.overflow & (counts[:, self.scopes] == 1))


def observed(formatted: FormattedGraph, inputs: Mapping[int, Integers]) -> ObservedSamples:
    """Return the points that states cover.

    Args:
        formatted: Graph with formats.
        inputs: Integers (states,) of every input, by node.
    """
    bounds = reachable(formatted)
    nodes = tuple(i for i, possible in enumerate(bounds.overflows) if possible)
    tables = {i: table for i in range(len(formatted.formats)) if (table := _table_of(formatted, i)) is not None}
    count = len(next(iter(inputs.values())))
    overflow = np.zeros((count, len(nodes)), bool)
    operands: dict[int, list[Integers]] = {i: [] for i in tables}
    seen: dict[int, list[Flags]] = {i: [] for i in tables}
    is_exact = 2 * len(tables) * len(formatted.formats) * count <= MAX_EVALUATED
    for start in range(0, count, BLOCK):
        here = slice(start, start + BLOCK)
        values = evaluate_integers(formatted, {i: x[here] for i, x in inputs.items()}, keep_all=True).value
        for k, i in enumerate(nodes):
            overflow[here, k] = _overflow(formatted, i, values)
        for i in tables:
            operands[i].append(values[formatted.graph.nodes[i].args[0]])
            if is_exact:
                seen[i].append(_changes_outputs(formatted, i, values))
    reads = []
    for i, table in tables.items():
        x = np.concatenate(operands[i])
        changes = table.changes(x)
        visible = changes != 0
        if is_exact:
            up, down = np.concatenate(seen[i]).T[:, :, None]
            visible &= np.where(changes > 0, up, down)
        reads.append(TableReads(i, table, table.address(x), visible))
    scopes = np.array([formatted.graph.scope_of[i] for i in nodes], np.int64)
    return ObservedSamples(nodes, scopes, overflow, tuple(reads), bounds, 1 if is_exact else VISITS)


def _changes_outputs(formatted: FormattedGraph, node: int, values: Mapping[int, Integers]) -> Flags:
    """Return whether an output changes if the result of a node is larger by 1, and if it is smaller by 1, (states, 2).

    Args:
        formatted: Graph with formats.
        node: The node.
        values: Integers of all nodes.
    """
    outputs = formatted.graph.output_nodes
    columns = []
    for by in (1, -1):
        changed = evaluate_changed(formatted, node, by, values)
        columns.append(np.any([changed.get(i, values[i]) != values[i] for i in outputs], axis=0))
    return np.stack(columns, axis=1)


def _table_of(formatted: FormattedGraph, node: int) -> UsedTable | None:
    """Return the table that a node reads."""
    op = formatted.graph.nodes[node].op
    if op == "input" or not formatted.graph.nodes[node].args:
        return None
    return table_of(op, formatted.operand_formats(node)[0], formatted.formats[node])


def _overflow(formatted: FormattedGraph, node: int, values: Mapping[int, Integers]) -> Flags:
    """Return the states in which a node overflows, given the integers of all nodes."""
    return np.asarray(compute_node(formatted, node, values, 1).overflow)


def chosen(points: ObservedSamples, count: int) -> Ints:
    """Return the indices of at most `count` states that together cover as many points as is found greedily.

    Half of them may be chosen for overflows, the others for tables.
    """
    first = _for_overflows(points, count // 2)
    return np.concatenate([first, _for_tables(points, count - len(first), first)])


def _for_overflows(points: ObservedSamples, count: int) -> Ints:
    """Return the states that cover most overflows: each by itself first, else with others of its pass."""
    if not len(points.nodes):
        return np.zeros(0, np.int64)
    matrix = np.concatenate([points.alone, points.overflow], axis=1).astype(np.float32)
    left = np.concatenate([np.full(len(points.nodes), 4.0), np.ones(len(points.nodes))]).astype(np.float32)
    picked: list[int] = []
    while len(picked) < count:
        gains = matrix @ left
        best = int(np.argmax(gains))
        if gains[best] == 0:
            break
        picked.append(best)
        left[matrix[best] > 0] = 0
    return np.array(picked, np.int64)


def _for_tables(points: ObservedSamples, count: int, before: Ints) -> Ints:
    """Return the states that cover most bits of tables. before: states that are chosen already."""
    reads, visits = points.reads, points.visits
    if not reads or count <= 0:
        return np.zeros(0, np.int64)
    covered = {each.table.name: np.zeros((each.table.size, each.visible.shape[1]), np.int8) for each in reads}

    def gain(state: int) -> int:
        return sum(
            int((each.visible[state] & (covered[each.table.name][each.entries[state]] < visits)).sum())
            for each in reads
        )

    def take(state: int) -> None:
        for each in reads:
            covered[each.table.name][each.entries[state]] += each.visible[state] & (
                covered[each.table.name][each.entries[state]] < visits
            )

    for state in before:
        take(int(state))
    heap = [(-int(total), k) for k, total in enumerate(sum(each.visible.sum(axis=1) for each in reads))]
    heapq.heapify(heap)
    picked: list[int] = []
    while heap and len(picked) < count:
        _, state = heapq.heappop(heap)
        own = gain(state)
        if own == 0:
            continue
        if heap and own < -heap[0][0]:
            heapq.heappush(heap, (-own, state))
            continue
        picked.append(state)
        take(state)
    return np.array(picked, np.int64)


class Uncovered(NamedTuple):
    """Points that samples do not cover."""

    impossible_scopes: tuple[str, ...]
    """Passes that no input overflows."""
    scopes: tuple[str, ...]
    """Passes that some input may overflow, and no sample does."""
    overflows: tuple[int, int]
    """Number of operations whose overflow no sample shows by itself, and of operations that may overflow."""
    unread: Mapping[str, tuple[Ints, Ints]]
    """Entries of each table that no sample reads, by name: those that no input reads, and others."""


def uncovered(formatted: FormattedGraph, inputs: Mapping[int, Integers]) -> Uncovered:
    """Return the points that samples do not cover.

    Args:
        formatted: Graph with formats.
        inputs: Integers (samples,) of every input, by node.
    """
    points = observed(formatted, inputs)
    names = formatted.graph.scopes
    possible = {int(scope) for scope in points.scopes}
    seen = {int(scope) for scope, each in zip(points.scopes, points.overflow.T, strict=True) if each.any()}
    read: dict[str, Flags] = {}
    for each in points.reads:
        read.setdefault(each.table.name, np.zeros(each.table.size, bool))[each.entries] = True
    never = never_read(formatted, points.bounds)
    unread = {
        name: (
            np.setdiff1d(never[name], np.flatnonzero(read[name])),
            np.setdiff1d(np.flatnonzero(~read[name]), never[name]),
        )
        for name in read
    }
    return Uncovered(
        tuple(name for k, name in enumerate(names) if k not in possible),
        tuple(name for k, name in enumerate(names) if k in possible - seen),
        (int((~points.alone.any(axis=0)).sum()), len(points.nodes)),
        unread,
    )


def never_read(formatted: FormattedGraph, bounds: Reachable) -> dict[str, Ints]:
    """Return the entries of each table that no input reads, by name.

    Args:
        formatted: Graph with formats.
        bounds: Values that the nodes may have for any input.
    """
    may_read: dict[str, Flags] = {}
    for i in range(len(formatted.formats)):
        table = _table_of(formatted, i)
        if table is None:
            continue
        argument, source = formatted.graph.nodes[i].args[0], formatted.operand_formats(i)[0]
        low, high = (
            int(np.clip(np.floor(x / source.step), source.lowest, source.highest))
            for x in (bounds.low[argument], bounds.high[argument])
        )
        high = min(high + 1, source.highest)
        may_read[table.name] = may_read.get(table.name, np.zeros(table.size, bool)) | table.read_by(low, high)
    return {name: np.flatnonzero(~may) for name, may in may_read.items()}
