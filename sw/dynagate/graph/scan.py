"""Scans: a loop over the links of a tree whose body is a graph. Long chains and humanoids use it on every backend.

    down:  for each link, the root first:   passing[i], results[i] = body(table[i], values[i], passing[parent])
    up:    for each link, leaves first:     passing[i], results[i] = body(table[i], values[i], sum of the children's)

Each kind of link has its own body: one for each joint type, for the root and for the leaves, which receive nothing.
Scans, graphs and loops can be steps of one program (`graph.loop`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.graph.evaluate import evaluate
from dynagate.graph.graph import Graph, GraphError, Port
from dynagate.graph.program import Program
from dynagate.graph.steps import SCAN, Step

TABLE, PASSED, PASSING = "table", "passed", "passing"
"""Names of a body's ports: the constants of the link, the values passed to the link, and the values that it
passes on.
"""


@dataclass(frozen=True)
class Scan(Step):
    """Bodies and the links over which they run.

    Raises:
        GraphError: The scan is not well formed.
    """

    name: str
    """Name of the scan."""
    robot: str
    """Name of the robot."""
    down: bool
    """Whether it runs from the root to the leaves, else from the leaves to the root."""
    parents: tuple[int, ...]
    """Parent of each link, smaller than the link's own number; -1 for a root."""
    bodies: tuple[Graph, ...]
    """Graphs whose ports are vectors, one for each kind of link."""
    kinds: tuple[int, ...]
    """Position in `bodies` of each link's body."""
    tables: tuple[tuple[float, ...], ...]
    """Constants of each link, for the input TABLE of its body."""
    starts: Mapping[str, tuple[int, ...]]
    """Value -> position of each link's first entry, in row-major order. A body reads or writes as many as its
    port has.
    """
    inputs: tuple[Port, ...]
    """The complete input values; their nodes only count the entries."""
    outputs: tuple[Port, ...]
    """The complete output values; each entry belongs to one link."""

    def __post_init__(self) -> None:
        for fault in self._faults():
            raise GraphError(f"scan '{self.name}' of '{self.robot}': {fault}", code="DG-GRAPH-019")

    @property
    def kind(self) -> str:
        return SCAN

    def renamed(self, names: Mapping[str, str]) -> Scan:
        """Return the scan with other names of values; names not listed stay."""
        whole = Graph(self.name, self.robot, (), self.inputs, self.outputs).renamed(names)
        starts = {names.get(name, name): places for name, places in self.starts.items()}
        bodies = tuple(body.renamed(names) for body in self.bodies)
        return replace(self, bodies=bodies, starts=starts, inputs=whole.inputs, outputs=whole.outputs)

    @property
    def order(self) -> range:
        """Links in the order of the scan: ascending if it runs down, else descending."""
        links = range(len(self.parents))
        return links if self.down else links[::-1]

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of each link, in the scan's order."""
        return tuple(tuple(c for c in self.order if self.parents[c] == i) for i in range(len(self.parents)))

    @cached_property
    def width(self) -> int:
        """Numbers that pass from link to link; 0 if none do."""
        return max((len(p.nodes) for body in self.bodies for p in body.inputs if p.name == PASSED), default=0)

    def body(self, i: int) -> Graph:
        """Return the body of link i."""
        return self.bodies[self.kinds[i]]

    def part(self, i: int, port: Port) -> slice:
        """Return the entries of a value that belong to link i, as a slice, for a port of its body."""
        start = self.starts[port.name][i]
        return slice(start, start + len(port.nodes))

    def _faults(self) -> Iterator[str]:
        """Yield what is not well formed."""
        links = len(self.parents)
        for name, entries in (("kinds", self.kinds), ("tables", self.tables), *self.starts.items()):
            if len(entries) != links:
                yield f"it has {len(entries)} entries of '{name}' for {links} links"
                return
        for i, p in enumerate(self.parents):
            if not -1 <= p < i:
                yield f"link {i} has the parent {p}; expected a link before it, or -1"
        sizes = {port.name: len(port.nodes) for port in (*self.inputs, *self.outputs)}
        own = {TABLE, PASSED, PASSING}
        taken = {port.name: np.zeros(len(port.nodes), dtype=int) for port in self.outputs}
        for i in range(links):
            body = self.body(i)
            comes = self.parents[i] >= 0 if self.down else bool(self.children[i])
            numbers = sum(len(port.nodes) for port in body.inputs if port.name == TABLE)
            if numbers != len(self.tables[i]):
                yield f"link {i} has {len(self.tables[i])} numbers; its body takes {numbers}"
            for port in (*body.inputs, *body.outputs):
                if port.name == PASSED and not comes:
                    yield f"the body of link {i} takes '{PASSED}', and nothing comes to it"
                if port.name in (PASSED, PASSING) and len(port.nodes) != self.width and self.width:
                    yield f"'{port.name}' of link {i} has {len(port.nodes)} entries, others {self.width}"
                if port.name in own:
                    continue
                if port.name not in sizes or port.name not in self.starts:
                    yield f"the body of link {i} has the port '{port.name}', which is no value of the scan"
                elif not 0 <= self.part(i, port).start <= self.part(i, port).stop <= sizes[port.name]:
                    yield f"link {i} has entries of '{port.name}' beyond its {sizes[port.name]}"
            for port in body.outputs:
                if port.name in taken:
                    taken[port.name][self.part(i, port)] += 1
        for name, count in taken.items():
            if not np.all(count == 1):
                yield f"entry {int(np.argmax(count != 1))} of '{name}' is written {int(count[count != 1][0])} times"


def scans_of(program: Program) -> list[Scan]:
    """Return the steps of a program that has only scans. Raise ArgumentError if it has another step."""
    for step in program.steps:
        if not isinstance(step, Scan):
            raise ArgumentError(
                f"loop '{program.name}' has the step '{step.name}', which is no scan; expected scans",
                code="DG-GRAPH-020",
            )
    return [*program.steps]  # type: ignore[list-item]


def evaluate_scan(
    scan: Scan, inputs: Mapping[str, Array], seen: Callable[[int, dict[str, Array]], None] = lambda i, read: None
) -> dict[str, Array]:
    """Evaluate a scan in float64: the reference for every backend.

    Args:
        scan: The scan.
        inputs: Name -> array (batch, *shape).
        seen: Receives each link and the inputs of its body.

    Returns:
        Output name -> array (batch, *shape).
    """
    batch = len(next(iter(inputs.values())))
    flat = {port.name: np.reshape(inputs[port.name], (batch, len(port.nodes))) for port in scan.inputs}
    results = {port.name: np.empty((batch, len(port.nodes)), np.result_type(*flat.values())) for port in scan.outputs}
    passing: dict[int, Array] = {}
    for i in scan.order:
        body = scan.body(i)
        values = {TABLE: np.broadcast_to(np.array(scan.tables[i]), (batch, len(scan.tables[i])))}
        if (source := scan.parents[i] if scan.down else i) in passing:
            values[PASSED] = passing[source]
        read = {p.name: flat[p.name][:, scan.part(i, p)] if p.name in flat else values[p.name] for p in body.inputs}
        seen(i, read)
        written = evaluate(body, read)
        for port in body.outputs:
            if port.name != PASSING:
                results[port.name][:, scan.part(i, port)] = written[port.name]
            elif scan.down:
                passing[i] = written[PASSING]
            elif (p := scan.parents[i]) >= 0:
                passing[p] = passing[p] + written[PASSING] if p in passing else written[PASSING]
    return {port.name: results[port.name].reshape(batch, *port.shape) for port in scan.outputs}
