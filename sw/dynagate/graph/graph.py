"""The dataflow graph of one function of one robot, from which every backend starts.

A `Graph` is a list of scalar operations (`Node`), with named arrays of nodes as inputs and outputs (`Port`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Protocol

from dynagate.base.errors import Error
from dynagate.base.explained import explained
from dynagate.forces import Force
from dynagate.graph.ops import OPS, TRIG
from dynagate.graph.steps import GRAPH, Step


class GraphError(Error, ValueError):
    """A graph that breaks the contract; the text names the node."""


class GraphWarning(UserWarning):
    """A graph is right and larger than it needs to be."""


@dataclass(frozen=True)
class Node:
    """One scalar operation of a graph."""

    op: str
    """Name of the operation, a key of `ops.OPS`."""
    args: tuple[int, ...]
    """Positions of the operands, all smaller than the node's own position."""
    constant: float | None
    """Constant of an operation that has one, else None."""
    name: str
    """Unique name that shows where the node comes from, such as `minv.link3.m_5`."""

    @property
    def is_zero(self) -> bool:
        """Whether it is always zero, which no backend needs to compute or write."""
        return self.op == "const" and self.constant == 0.0


def new_node(op: str, args: tuple[int, ...], constant: float | None, name: str) -> Node:
    """Return a node. A frozen class stores its fields slowly, and a humanoid's gradient has 100,000 nodes."""
    node = object.__new__(Node)
    node.__dict__.update(op=op, args=args, constant=constant, name=name)
    return node


class HasOperands(Protocol):
    """An operation with operands: a `Node`, or a recorded operation."""

    @property
    def args(self) -> tuple[int, ...]: ...


def reaching(nodes: Sequence[HasOperands], roots: Iterable[int]) -> list[bool]:
    """Return for each node whether one of the roots is it or depends on it."""
    live = [False] * len(nodes)
    for i in roots:
        live[i] = True
    for i in reversed(range(len(nodes))):
        if live[i]:
            for a in nodes[i].args:
                live[a] = True
    return live


@dataclass(frozen=True)
class Port:
    """A named array of nodes that is an input or output of a graph, in row-major order.

    A node may occur twice, as in a symmetric matrix.
    """

    name: str
    """Name of the input or output."""
    shape: tuple[int, ...]
    """Shape of the array for one sample."""
    nodes: tuple[int, ...]
    """Node of each entry."""
    unit_vectors: tuple[tuple[int, int], ...] = ()
    """(start, stop) of entries that form a unit vector, such as a quaternion. The graph is valid only for such
    inputs.
    """
    parameter: str = ""
    """Kind of a variable parameter of the robot, a key of `robot.variable.KINDS`; "" for other inputs."""
    sizes: tuple[float, ...] = ()
    """Typical magnitude of each entry of an input, in its units."""
    switches: bool = False
    """Whether the entries are 0 or 1."""


@dataclass(frozen=True)
class OperationCounts:
    """Number of operations of a graph by kind."""

    mul: int
    mul_const: int
    add: int
    neg: int
    reciprocal: int
    trig: int
    depth: int
    """Length of the longest chain of operations, where a negation, sine or cosine does not count."""

    @property
    def products(self) -> int:
        return self.mul + self.mul_const


_PLACE = re.compile(r"base|(link|dof)\d+")


def _scope(node: Node) -> tuple[str, ...]:
    """Return the part of the algorithm and the place in the tree with which a node's name begins."""
    first, *rest = node.name.split(".")
    return (first, *takewhile(_PLACE.fullmatch, rest)) if rest and first not in OPS else ("shared",)


@explained
@dataclass(frozen=True)
class Graph(Step):
    """A function of a robot as scalar operations. Equal sources give equal graphs, including node order
    and names.
    """

    name: str
    """Name of the function."""
    robot: str
    """Name of the robot."""
    nodes: tuple[Node, ...]
    """Operations, operands first. A node is identified by its position."""
    inputs: tuple[Port, ...]
    """Inputs, in the order and shapes of the function table."""
    outputs: tuple[Port, ...]
    """Outputs, in the order and shapes of the function table."""
    forces: tuple[Force, ...] = ()
    """Joint friction that the torques overcome; sampled torques do so too."""

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def kind(self) -> str:
        return GRAPH

    @property
    def as_graph(self) -> Graph:
        return self

    def renamed(self, names: Mapping[str, str]) -> Graph:
        """Return the graph with other names of ports; names not listed stay."""
        return self.named(names, names)

    def mapped(self, change: Callable[[Graph], Graph]) -> Graph:
        """Return the result of a function of the graph.

        Args:
            change: The function.
        """
        return change(self)

    def graphs(self) -> Iterator[Graph]:
        yield self

    def with_outputs(self, outputs: Iterable[Port], change: str) -> Graph:
        """Return the graph with other outputs of the same nodes.

        Args:
            outputs: The outputs.
            change: Name of the change.
        """
        return replace(self, outputs=tuple(outputs))

    def named(self, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> Graph:
        """Return the graph with other names of ports.

        Args:
            inputs: Old name -> new name of inputs; others keep their names.
            outputs: Old name -> new name of outputs; others keep their names.
        """

        def renamed(ports: Iterable[Port], names: Mapping[str, str]) -> tuple[Port, ...]:
            return tuple(replace(port, name=names.get(port.name, port.name)) for port in ports)

        return replace(self, inputs=renamed(self.inputs, inputs), outputs=renamed(self.outputs, outputs))

    def reaching(self, outputs: Iterable[int]) -> list[int]:
        """Return the nodes that these outputs are or depend on, in order."""
        return [i for i, is_live in enumerate(reaching(self.nodes, outputs)) if is_live]

    def numbered(self, order: Iterable[int]) -> Graph:
        """Return the graph of these nodes in this order, operands first. Ports that lack a node are left out."""
        place = {i: k for k, i in enumerate(order)}
        nodes = (self.nodes[i] for i in place)
        inputs, outputs = (
            tuple(
                replace(port, nodes=tuple(place[i] for i in port.nodes))
                for port in side
                if all(i in place for i in port.nodes)
            )
            for side in (self.inputs, self.outputs)
        )
        renumbered = tuple(new_node(n.op, tuple([place[a] for a in n.args]), n.constant, n.name) for n in nodes)
        return replace(self, nodes=renumbered, inputs=inputs, outputs=outputs)

    def carried(self, carry: Mapping[str, str]) -> list[tuple[int, int]]:
        """Return the nodes of outputs that become inputs of the next step, each with the input's node.

        Args:
            carry: Name of the input that each output becomes, by the output's name.
        """
        sources = {port.name: port.nodes for port in self.outputs}
        targets = {port.name: port.nodes for port in self.inputs}
        return [pair for a, b in carry.items() for pair in zip(sources[a], targets[b], strict=True)]

    @cached_property
    def users(self) -> tuple[tuple[int, ...], ...]:
        """For each node, the nodes that read it, once per operand."""
        readers: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            for a in node.args:
                readers[a].append(i)
        return tuple(tuple(f) for f in readers)

    @cached_property
    def last_read(self) -> tuple[tuple[int, ...], ...]:
        """For each node, the operands that no later node reads, each once."""
        return tuple(
            tuple(a for a in dict.fromkeys(node.args) if self.users[a][-1] == i) for i, node in enumerate(self.nodes)
        )

    @cached_property
    def output_nodes(self) -> tuple[int, ...]:
        """The nodes of all outputs, each once, in order of first occurrence."""
        return tuple(dict.fromkeys(i for port in self.outputs for i in port.nodes))

    def in_results(self, nodes: Iterable[int]) -> tuple[int, ...]:
        """Return the output nodes that a result on a stream must contain, each once, without zeros. If only zeros
        are left, one zero stays, since a result has at least one number.
        """
        different = tuple(dict.fromkeys(nodes))
        return tuple(i for i in different if not self.nodes[i].is_zero) or different[:1]

    @cached_property
    def result_nodes(self) -> tuple[int, ...]:
        """The numbers of a result on a stream."""
        return self.in_results(self.output_nodes)

    @cached_property
    def input_nodes(self) -> tuple[int, ...]:
        """The nodes of all inputs, each once, in the order of the ports."""
        return tuple(dict.fromkeys(i for port in self.inputs for i in port.nodes))

    @cached_property
    def zeros(self) -> frozenset[int]:
        """The nodes that are always zero."""
        return frozenset(i for i, node in enumerate(self.nodes) if node.is_zero)

    @cached_property
    def angles(self) -> frozenset[int]:
        """The nodes whose sine or cosine is computed."""
        return frozenset(a for node in self.nodes if node.op in TRIG for a in node.args)

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """For each node, the node that has the same bits: itself, or for a shift the operand, since only the binary
        point moves.
        """
        root_of: list[int] = []
        for i, node in enumerate(self.nodes):
            root_of.append(root_of[node.args[0]] if OPS[node.op].constant == "exponent" else i)
        return tuple(root_of)

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """The passes of the algorithm: the first parts of node names, in order of first occurrence.

        Nodes that several passes share are in the scope "shared".
        """
        return tuple(dict.fromkeys(path[0] for path in self.scope_paths))

    @cached_property
    def scope_paths(self) -> tuple[tuple[str, ...], ...]:
        """For each node, its scope and then its link (and degree of freedom), such as ("kin", "link3")."""
        return tuple(map(_scope, self.nodes))

    @cached_property
    def scope_of(self) -> tuple[int, ...]:
        """For each node, the position of its scope in `scopes`."""
        place = {scope: k for k, scope in enumerate(self.scopes)}
        return tuple(place[path[0]] for path in self.scope_paths)

    def counts(self) -> OperationCounts:
        """Count the operations of each kind, and the length of the longest chain of operations."""
        kinds = Counter(OPS[node.op].counted for node in self.nodes)
        depth = [0] * len(self.nodes)
        for i, node in enumerate(self.nodes):
            cost = 0 if OPS[node.op].counted in ("", "neg", "trig") else 1
            depth[i] = cost + max((depth[a] for a in node.args), default=0)
        return OperationCounts(
            **{kind: kinds[kind] for kind in {op.counted for op in OPS.values()} - {""}},
            depth=max((depth[i] for i in self.output_nodes), default=0),
        )

    def check(self) -> Graph:
        """Return the graph after checking it. Raise GraphError if the graph is not well formed."""
        for fault in self._faults():
            raise GraphError(f"graph '{self.name}' of '{self.robot}': {fault}", code="DG-GRAPH-009")
        return self

    def _faults(self) -> Iterator[str]:
        """Yield what is not well formed: operations, operands, constants, names, ports and dead nodes."""
        names: dict[str, int] = {}
        for i, node in enumerate(self.nodes):
            where = f"node {i} '{node.name}'"
            if node.op not in OPS:
                yield f"{where} has op '{node.op}', which the op table does not list"
                continue
            op = OPS[node.op]
            if len(node.args) != op.arity:
                yield f"{where}: {node.op} has {len(node.args)} operands, expected {op.arity}"
            if any(not 0 <= a < i for a in node.args):
                yield f"{where} reads {node.args}; operands must come before it"
            if (node.constant is not None) != bool(op.constant):
                yield f"{where}: {node.op} {'needs a' if op.constant else 'takes no'} constant"
            if node.name in names:
                yield f"{where} has the name of node {names[node.name]}"
            names[node.name] = i
        for port in (*self.inputs, *self.outputs):
            size = 1
            for extent in port.shape:
                size *= extent
            if size != len(port.nodes) or any(not 0 <= i < len(self.nodes) for i in port.nodes):
                yield f"port '{port.name}' of shape {port.shape} lists nodes {port.nodes[:4]}..."
            if any(not 0 <= a < b <= len(port.nodes) for a, b in port.unit_vectors):
                yield f"port '{port.name}' of {len(port.nodes)} nodes has unit vectors at {port.unit_vectors}"
        ports = {i for port in self.inputs for i in port.nodes}
        for i, node in enumerate(self.nodes):
            if (node.op == "input") != (i in ports):
                yield f"node {i} '{node.name}' is an input of no port, or a port lists it wrongly"
        live = reaching(self.nodes, ports.union(self.output_nodes))
        for i, node in enumerate(self.nodes):
            if not live[i]:
                yield f"node {i} '{node.name}' is dead: no output needs it"
