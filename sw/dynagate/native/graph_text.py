"""Text of a graph that the C and CUDA generators share, whatever holds the numbers.

A generator states where the entries of inputs and outputs are. The base class derives the rest: the place that each
node is read from and written to, the input angles whose sines and cosines are computed first, the segments of a long
function, and the expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

from dynagate.graph import OPS, Graph, Port
from dynagate.graph.graph import Node
from dynagate.graph.ops import TRIG
from dynagate.native.expressions import operation
from dynagate.native.register_allocation import KernelProgram, is_source
from dynagate.native.sums import chained

PLACES = ("ARGUMENTS", "INPUT", "OUTPUT")
"""Macros in the text of the segments that the including file defines: see `GraphText.segments`."""

SEGMENTS = """\
/* Included for NUMBER a vector and a scalar. SEGMENT(s): the function's name; ARGUMENTS: what it is given,
 * of that m, a sample's slots. INPUT(p, j, slot), OUTPUT(p, j, slot): entry j of port p. */"""

Entry = tuple[int, int, int]
"""Number of a port, position in it, and node."""


class GraphText:
    """A graph as text, with its sums in the order in which they are computed. `name` begins the names of its
    functions.
    """

    constant: ClassVar[str] = "(NUMBER){{0}} + {}"
    """Expression of a constant. The sum has the constant in every lane if NUMBER is a vector."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = chained(graph), name

    def input(self, p: int, j: int) -> str:
        """Return the place of entry j of input p."""
        return f"in{p}[{j}]"

    def output(self, p: int, j: int) -> str:
        """Return the place of entry j of output p."""
        return f"out{p}[{j}]"

    @cached_property
    def inputs(self) -> list[Entry]:
        """Every entry of every input."""
        return entries(self.graph.inputs)

    @cached_property
    def outputs(self) -> list[Entry]:
        """Every entry of every output."""
        return entries(self.graph.outputs)

    @cached_property
    def sources(self) -> dict[int, str]:
        """Input node -> its place."""
        return {i: self.input(p, j) for p, j, i in self.inputs}

    @cached_property
    def targets(self) -> dict[int, list[str]]:
        """Output node that may not be zero -> its places."""
        places: dict[int, list[str]] = {}
        for p, j, i in self.outputs:
            if not self.graph.nodes[i].is_zero:
                places.setdefault(i, []).append(self.output(p, j))
        return places

    @cached_property
    def zeros(self) -> list[tuple[int, int]]:
        """Entries of outputs that are always zero: number of the port, and position in it."""
        return [(p, j) for p, j, i in self.outputs if self.graph.nodes[i].is_zero]

    @cached_property
    def angles(self) -> dict[int, dict[str, int]]:
        """Input node -> "sin" and "cos", or one of them -> the node that has it. They are computed before all else."""
        by_angle: dict[int, dict[str, int]] = {}
        for i, node in enumerate(self.graph.nodes):
            if node.op in TRIG and is_source(self.graph, i):
                by_angle.setdefault(node.args[0], {})[node.op] = i
        return by_angle

    def segments(self, steps: KernelProgram, kept: Sequence[int] = ()) -> Iterator[str]:
        """Yield the segments as C functions over NUMBER, a vector or a scalar.

        Args:
            steps: The program of the graph.
            kept: Nodes that are stored in their slots too.
        """
        yield SEGMENTS
        read = {i: f"{p}, {j}" for p, j, i in self.inputs}
        written: dict[int, list[str]] = {}
        for p, j, i in self.outputs:
            written.setdefault(i, []).append(f"{p}, {j}")
        needed = {step.node for segment in steps.segments for step in segment if step.action == "load"}
        needed.update(kept)
        for s, segment in enumerate(steps.segments):
            yield f"\nDG_APART void SEGMENT({s})(ARGUMENTS) {{"
            register: dict[int, str] = {}
            for k, step in enumerate(segment):
                if step.action == "load":
                    register[step.node] = f"m{k}"
                    stored = f"DG_RELOAD(m[{step.slot}])"
                    value = f"INPUT({read[step.node]}, {step.slot})" if step.node in read else stored
                    yield f"    const NUMBER m{k} = {value};"
                elif step.action == "store":
                    places = [f"OUTPUT({place}, {step.slot})" for place in written.get(step.node, ())]
                    if not places or step.node in needed:
                        places.append(f"m[{step.slot}]")
                    yield from (f"    {place} = {register[step.node]};" for place in places)
                else:
                    text = self.expression(step.node, register, steps.fused)
                    register[step.node] = f"v{step.node}"
                    yield f"    const NUMBER v{step.node} = {text};"
            yield "}"
        yield ""

    def expression(self, i: int, names: Mapping[int, str] | None = None, fused: Mapping[int, int] | None = None) -> str:
        """Return node i as a C expression over NUMBER and real.

        Args:
            i: The node.
            names: Names of its operands; by default v0, v1, ...
            fused: Sum -> the product that is written inside the sum's expression.
        """
        node = self.graph.nodes[i]
        operands = []
        for a in node.args:
            if fused and fused.get(i) == a:
                operands.append(f"({self.expression(a, names, fused)})")
            else:
                operands.append(names[a] if names else f"v{a}")
        if node.constant is not None:
            operands.append(f"(real){constant_of(node)!r}")
        if node.op == "const":
            return self.constant.format(operands[0])
        return operation(node.op, operands)


def constant_of(node: Node) -> float:
    """Return the constant of a node as the operand of its operation: a power of two for a shift."""
    constant = node.constant or 0.0
    return 2.0**constant if OPS[node.op].constant == "exponent" else constant


def entries(ports: Sequence[Port]) -> list[Entry]:
    """Return every entry of every port."""
    return [(p, j, i) for p, port in enumerate(ports) for j, i in enumerate(port.nodes)]


def shaped(port: Port) -> str:
    """Return a port's name and the shape of its array, as comments have it."""
    return f"{port.name} (batch{''.join(f', {n}' for n in port.shape)})"
