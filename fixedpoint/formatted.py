"""Parts of a program with formats: the base class, and a graph with a format for every node."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dynagate.dynamics import FunctionPart
from dynagate.fixedpoint.format import Arithmetic, Format
from dynagate.graph import OPS, Graph, GraphError
from dynagate.graph.parts import needed, part_graph
from dynagate.graph.steps import Step


class Formatted(ABC):
    """A part of a program with formats: a graph, a loop or a scan."""

    @property
    @abstractmethod
    def step(self) -> Step:
        """Return the part without formats."""

    @property
    def kind(self) -> str:
        """Return the key of the part in tables by kind."""
        return self.step.kind

    @property
    def as_graph(self) -> FormattedGraph | None:
        """Return the part if it is a graph, else None."""
        return None

    @property
    def carry(self) -> Mapping[str, str]:
        """Return, by result of an iteration, the input of the next one whose first value comes from outside."""
        return {}

    if TYPE_CHECKING:  # a field or a property of the classes

        @property
        def arithmetic(self) -> Arithmetic: ...

    @abstractmethod
    def graphs(self) -> Iterator[FormattedGraph]:
        """Yield the graphs at every depth, in order."""

    def loops(self) -> Iterator[Any]:
        """Yield the part if it is a loop, then the loops in it at every depth, in order."""
        return iter(())

    @abstractmethod
    def mapped(self, change: Callable[[FormattedGraph], FormattedGraph]) -> Formatted:
        """Return the part with each graph replaced by another."""


@dataclass(frozen=True)
class FormattedGraph(Formatted):
    """A graph with a format for every node. `models.evaluate` defines its integers, which hardware reproduces
    exactly.
    """

    graph: Graph
    formats: tuple[Format, ...]
    """Format of each node."""
    constants: Mapping[int, tuple[int, Format]]
    """Integer and format of each constant, by node."""
    bounds: Mapping[int, tuple[float, float]]
    """Smallest and largest value that the format of an input was chosen for, by node."""
    arithmetic: Arithmetic
    """Rounding and overflow."""

    @property
    def step(self) -> Graph:
        return self.graph

    @property
    def as_graph(self) -> FormattedGraph:
        return self

    def graphs(self) -> Iterator[FormattedGraph]:
        yield self

    def mapped(self, change: Callable[[FormattedGraph], FormattedGraph]) -> FormattedGraph:
        return change(self)

    @cached_property
    def encodings(self) -> dict[bool, Any]:
        """Return the cache of encodings that `models.in_c` made of this graph; the key is whether all nodes are
        results.
        """
        return {}

    def operand_formats(self, node: int) -> list[Format]:
        """Return the formats of a node's operands, that of its constant last.

        The constant of a shift moves the binary point of its operand instead.
        """
        formats = [self.formats[a] for a in self.graph.nodes[node].args]
        if node in self.constants:
            constant, fmt = self.constants[node]
            if OPS[self.graph.nodes[node].op].constant == "exponent":
                return [Format(operand.width, operand.frac - constant) for operand in formats]
            formats.append(fmt)
        return formats

    def of_part(
        self, part: FunctionPart, limits: Mapping[str, Sequence[tuple[float, float]]] | None = None
    ) -> FormattedGraph:
        """Return the part of a combined graph that computes one function, as `graph.parts.part_graph` cuts it.

        Args:
            part: The function.
            limits: Smallest and largest value of each entry of an input, by name, inside the bounds of this graph.
        """
        graph, kept = part_graph(self.graph, part), needed(self.graph, part)
        place = {i: k for k, i in enumerate(kept)}
        bounds = {place[i]: bounds for i, bounds in self.bounds.items() if i in place}
        for port in graph.inputs:
            bounds |= dict(zip(port.nodes, (limits or {}).get(port.name, ()), strict=False))
        return FormattedGraph(
            graph,
            tuple(self.formats[i] for i in kept),
            {place[i]: constant for i, constant in self.constants.items() if i in place},
            bounds,
            self.arithmetic,
        ).check()

    def check(self) -> FormattedGraph:
        """Return the graph if its formats are consistent.

        Raises:
            GraphError: A format or a constant is missing or cannot hold its values.
        """
        for fault in self._faults():
            raise GraphError(f"formats of '{self.graph.name}': {fault}", code="DG-FORMAT-014")
        return self

    def _faults(self) -> Iterator[str]:
        if len(self.formats) != len(self.graph.nodes):
            yield f"{len(self.formats)} formats for {len(self.graph.nodes)} nodes"
            return
        for i, node in enumerate(self.graph.nodes):
            where = f"node {i} '{node.name}'"
            if (node.constant is not None) != (i in self.constants):
                yield f"{where} {'lacks' if node.constant is not None else 'has'} a fixed-point constant"
            elif i in self.constants and not self._fits(*self.constants[i]):
                yield f"{where}: constant {self.constants[i][0]} does not fit {self.constants[i][1]}"
            if OPS[node.op].constant == "exponent":
                source = self.formats[node.args[0]]
                if self.formats[i] != Format(source.width, source.frac - int(node.constant or 0)):
                    yield f"{where} moves the binary point but has format {self.formats[i]} after {source}"
        for i in self.graph.input_nodes:
            low, high = self.bounds.get(i, (math.nan, math.nan))
            least, most = self.formats[i].limits
            if not least <= low <= high <= most + self.formats[i].step:
                yield f"input '{self.graph.nodes[i].name}': bounds [{low:g}, {high:g}] do not fit {self.formats[i]}"

    @staticmethod
    def _fits(value: int, fmt: Format) -> bool:
        return fmt.lowest <= value <= fmt.highest
