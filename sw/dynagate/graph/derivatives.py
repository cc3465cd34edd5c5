"""Differentiate a graph: vector-Jacobian products, Jacobian-vector products and the Jacobian, as graphs.

The sweeps use the partial derivatives of the operation table and run over any scalar: recorded expressions make a
graph, numpy arrays make numbers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from heapq import heapify, heappop, heappush
from operator import or_
from typing import Any

import numpy as np

from dynagate.base.arguments import is_number
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.naming import scope
from dynagate.dynamics import tree_of
from dynagate.dynamics.configuration import direction_matrix
from dynagate.dynamics.spatial import is_zero
from dynagate.graph.graph import Graph, Port
from dynagate.graph.ops import OPS
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.robot import Robot


class Partials:
    """The partial derivatives of the nodes of a graph at some values, each computed when it is first needed."""

    def __init__(self, graph: Graph, values: Sequence[Any]) -> None:
        self.graph, self.values = graph, values
        self._known: dict[int, tuple[tuple[int, Any], ...]] = {}

    def of(self, i: int) -> tuple[tuple[int, Any], ...]:
        """Return the operands of node i, each with the derivative of the node with respect to it."""
        if i not in self._known:
            node = self.graph.nodes[i]
            operands = [self.values[a] for a in node.args]
            constant = [] if node.constant is None else [node.constant]
            partials = OPS[node.op].partials(self.values[i], *operands, *constant) if operands else ()
            self._known[i] = tuple(zip(node.args, partials, strict=True))
        return self._known[i]


def adjoints(
    graph: Graph,
    values: Sequence[Any],
    seeds: Mapping[int, Any],
    among: Container[int] | None = None,
    partials: Partials | None = None,
) -> Iterator[tuple[int, Any]]:
    """Differentiate a weighted sum of nodes in reverse mode.

    Args:
        graph: The graph.
        values: The value of every node.
        seeds: Node -> its weight in the sum.
        among: The nodes to report; None for all.
        partials: Partial derivatives at these values that are shared with other sweeps.

    Yields:
        Each node that the sum depends on, last first, with the derivative of the sum with respect to it.
    """
    partials = partials or Partials(graph, values)
    waiting = dict(seeds)
    last = [-i for i in waiting]  # a heap, because the pending nodes are far apart
    heapify(last)
    while last:
        i = -heappop(last)
        adjoint = waiting.pop(i)
        yield i, adjoint
        if not graph.nodes[i].args:
            continue
        with scope("adjoint", *graph.scope_paths[i][1:]):
            for a, partial in partials.of(i):
                if among is None or a in among:
                    product = adjoint * partial
                    if a in waiting:
                        waiting[a] = waiting[a] + product
                    else:
                        waiting[a] = product
                        heappush(last, -a)


def tangents(graph: Graph, seeds: Mapping[int, Any], moving: Iterable[int], partials: Partials) -> dict[int, Any]:
    """Differentiate a graph along one direction in forward mode.

    Args:
        graph: The graph.
        seeds: Node -> its rate along the direction.
        moving: The nodes that change along the direction and are needed, operands first, without the seeds.
        partials: Partial derivatives at the values of the nodes.

    Returns:
        The rate of every node in `seeds` and `moving`.
    """
    rates = dict(seeds)
    for i in moving:
        node = graph.nodes[i]
        with scope("tangent", *graph.scope_paths[i][1:]):
            if (rate := OPS[node.op].rate) is not None:
                rates[i] = rate([partials.values[a] for a in node.args], [rates.get(a, 0.0) for a in node.args])
                continue
            terms = [rates[a] * partial for a, partial in partials.of(i) if a in rates]
            rates[i] = sum(terms[1:], terms[0])
    return rates


class Derivative:
    """The derivatives of a graph's outputs with respect to the directions of its inputs.

    The directions of a configuration (nq,) are the velocities (nv,) of `configuration.integrate`. The directions of
    another input are its entries; the two equal entries of a symmetric matrix are one direction. A unit quaternion in a
    variable parameter has its four numbers as directions, and only their part orthogonal to the quaternion has an
    effect.

    Args:
        graph: The graph.
        robot: The robot whose configuration the input q is. None is accepted if the graph has no quaternions.

    Raises:
        ArgumentError: The graph has quaternions and robot is None.
    """

    def __init__(self, graph: Graph, robot: Robot | None = None) -> None:
        self.graph, self.robot = graph, robot
        for port in graph.inputs:
            if _is_configuration(port) and robot is None:
                raise ArgumentError(
                    f"input '{port.name}' of {graph.name} has quaternions; expected robot=, the robot with this input",
                    code="DG-GRAPH-004",
                )

    def inputs(self, names: Sequence[str] | None) -> list[Port]:
        """Return the inputs with these names, all inputs for None. Raise ArgumentError if a name is unknown."""
        return self._ports("input", self.graph.inputs, names)

    def outputs(self, names: Sequence[str] | None) -> list[Port]:
        """Return the outputs with these names, all outputs for None. Raise ArgumentError if a name is unknown."""
        return self._ports("output", self.graph.outputs, names)

    def _ports(self, kind: str, ports: Sequence[Port], names: Sequence[str] | None) -> list[Port]:
        by_name = {port.name: port for port in ports}
        for name in names or ():
            if name not in by_name:
                raise ArgumentError(
                    f"{self.graph.name} has no {kind} '{name}'; expected one of {', '.join(by_name)}",
                    code="DG-GRAPH-005",
                )
        return [by_name[name] for name in (by_name if names is None else names)]

    def is_configuration(self, port: Port) -> bool:
        """Return whether the directions of an input are velocities."""
        return self.robot is not None and _is_configuration(port)

    def shape(self, port: Port) -> tuple[int, ...]:
        """Return the shape of an input's directions."""
        if self.robot is not None and _is_configuration(port):
            return (self.robot.nv,)
        distinct = len(set(port.nodes))
        return port.shape if distinct == len(port.nodes) else (distinct,)

    def sizes(self, port: Port) -> Array | float:
        """Return typical magnitudes of an input's directions: a step of this size changes the input by its own typical
        size.
        """
        if self.robot is not None and _is_configuration(port):
            return typical_sizes(tree_of(self.robot))["qd"]
        by_node = dict(zip(port.nodes, port.sizes, strict=True)) if port.sizes else dict.fromkeys(port.nodes, 1.0)
        return np.reshape(list(by_node.values()), self.shape(port))

    def _moves(self, port: Port, values: Sequence[Any]) -> tuple[list[int], Array]:
        """Return the distinct nodes of an input, and the rate of each along each direction, (nodes, directions)."""
        nodes = list(dict.fromkeys(port.nodes))
        if self.robot is not None and _is_configuration(port):
            return nodes, direction_matrix(self.robot, [values[i] for i in nodes])
        moves = np.eye(len(nodes)).astype(object)
        for start, stop in port.unit_vectors:  # only the part orthogonal to the quaternion counts
            own = np.array([values[i] for i in nodes[start:stop]], dtype=object)
            moves[start:stop, start:stop] = moves[start:stop, start:stop] - np.multiply.outer(own, own)
        return nodes, moves

    def reverse(
        self, values: Sequence[Any], weights: Mapping[str, Array], names: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """Compute Σ weight · ∂output/∂direction by one reverse sweep.

        Args:
            values: The value of every node.
            weights: Weights of outputs by name, (*shape).
            names: Inputs to differentiate with respect to; None for all.

        Returns:
            Input name -> the products, in the shape of the input's directions.
        """
        seeds: dict[int, Any] = {}
        for port in self.outputs(list(weights)):
            for i, weight in zip(port.nodes, np.ravel(weights[port.name]), strict=True):
                seeds[i] = seeds[i] + weight if i in seeds else weight
        ports = self.inputs(names)
        rows = self._rows(values, [seeds], ports)
        return {port.name: rows[port.name].reshape(self.shape(port)) for port in ports}

    def _rows(
        self, values: Sequence[Any], sums: Sequence[Mapping[int, Any]], ports: Sequence[Port]
    ) -> dict[str, Array]:
        """Return the derivatives of weighted sums of nodes with respect to inputs, (sums, directions)."""
        partials = Partials(self.graph, values)
        among = set(_moving(self.graph, [i for port in ports for i in port.nodes]))
        by_sum = [dict(adjoints(self.graph, values, seeds, among, partials)) for seeds in sums]
        results = {}
        for port in ports:
            nodes, moves = self._moves(port, values)
            with scope("adjoint"):
                rows = [np.array([by.get(i, 0.0) for i in nodes], dtype=object) @ moves for by in by_sum]
                results[port.name] = np.array(rows, dtype=object).reshape(len(sums), moves.shape[1])
        return results

    def forward(
        self, values: Sequence[Any], rates: Mapping[str, Array], names: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """Compute Σ ∂output/∂direction · rate by one forward sweep.

        Args:
            values: The value of every node.
            rates: Rates along the directions of inputs, by name.
            names: Outputs to differentiate; None for all.

        Returns:
            Output name -> its rate, (*shape).
        """
        columns = {name: np.reshape(rate, (-1, 1)) for name, rate in rates.items()}
        return {name: result[..., 0] for name, result in self.along(values, columns, names).items()}

    def along(
        self, values: Sequence[Any], rates: Mapping[str, Array], names: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """Return how fast outputs change where inputs change in several ways.

        Args:
            values: The value of every node.
            rates: Input -> its rates along its directions, (directions, ways).
            names: The outputs; None for all.

        Returns:
            Output -> its rates, (*shape, ways).
        """
        seeds: list[dict[int, Any]] = []
        for port in self.inputs(list(rates)):
            nodes, moves = self._moves(port, values)
            columns = rates[port.name].T
            seeds = seeds or [{} for _ in columns]
            for own, column in zip(seeds, columns, strict=True):
                with scope("tangent"):
                    own |= _not_zero(nodes, moves @ column)
        return self._moved(values, seeds, self.outputs(names))

    def _moved(
        self, values: Sequence[Any], ways: Sequence[Mapping[int, Any]], ports: Sequence[Port]
    ) -> dict[str, Array]:
        """Return the rates of outputs along several directions, (*output, directions), from rates by node."""
        graph, partials = self.graph, Partials(self.graph, values)
        needed = set(graph.reaching(i for port in ports for i in port.nodes))
        bits = _directions(graph, ways, needed)
        moving: list[list[int]] = [[] for _ in ways]
        for i, own in bits.items():
            for k in _positions(own):
                if i not in ways[k]:
                    moving[k].append(i)
        by_way = [tangents(graph, seeds, own, partials) for seeds, own in zip(ways, moving, strict=True)]
        results = {}
        for port in ports:
            table = np.zeros((len(port.nodes), len(ways))).astype(object)
            for row, i in zip(table, port.nodes, strict=True):
                row[:] = [rates.get(i, 0.0) for rates in by_way]
            results[port.name] = table.reshape((*port.shape, len(ways)))
        return results

    def columns(
        self, values: Sequence[Any], inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
    ) -> dict[str, dict[str, Array]]:
        """Compute the derivatives of outputs with respect to inputs, in the mode that takes fewer operations.

        All sweeps share their partial derivatives, and each visits only the nodes that it changes.

        Args:
            values: The value of every node.
            inputs: Names of the inputs; None for all.
            outputs: Names of the outputs; None for all.

        Returns:
            Input -> output -> the derivative, (*output, *directions of the input).
        """
        sources, results = self.inputs(inputs), self.outputs(outputs)
        ways: list[dict[int, Any]] = []
        part: dict[str, slice] = {}
        for port in sources:
            nodes, moves = self._moves(port, values)
            part[port.name] = slice(len(ways), len(ways) + moves.shape[1])
            ways += [_not_zero(nodes, column) for column in moves.T]
        roots = list(dict.fromkeys(i for port in results for i in port.nodes))
        forward, backward = sweep_operations(self.graph, ways, roots)
        if backward < WORTH * forward:
            rows = self._rows(values, [{i: 1.0} for i in roots], sources)
            row = {i: k for k, i in enumerate(roots)}
            at = {port.name: [row[i] for i in port.nodes] for port in results}
            whole = {name: {out: by[k] for out, k in at.items()} for name, by in rows.items()}
        else:
            moved = self._moved(values, ways, results)
            whole = {name: {out: by[..., own] for out, by in moved.items()} for name, own in part.items()}
        return {
            port.name: {
                out.name: whole[port.name][out.name].reshape((*out.shape, *self.shape(port))) for out in results
            }
            for port in sources
        }


def _not_zero(nodes: Sequence[int], rates: Sequence[Any]) -> dict[int, Any]:
    """Return the rates that are not zero by node."""
    return {i: rate for i, rate in zip(nodes, rates, strict=True) if not is_zero(rate)}


def _moving(graph: Graph, sources: Sequence[int]) -> dict[int, int]:
    """Return the nodes that depend on one of these, in order, with a bit each."""
    return _directions(graph, [dict.fromkeys(sources, 1.0)], range(len(graph)))


def _directions(graph: Graph, ways: Sequence[Mapping[int, Any]], needed: Container[int]) -> dict[int, int]:
    """Return, for each needed node that changes, the directions along which it does: one bit for each direction."""
    begun: dict[int, int] = {}
    for k, seeds in enumerate(ways):
        for i in seeds:
            begun[i] = begun.get(i, 0) | 1 << k
    moving: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        bits = begun.get(i, 0)
        for a in node.args:
            bits |= moving.get(a, 0)
        if bits and (i in needed or i in begun):
            moving[i] = bits
    return moving


def _positions(bits: int) -> Iterator[int]:
    """Yield the positions of the bits that are 1."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


FREE = frozenset(("add", "sub", "add_const", "neg"))
"""Operations with partial derivatives 1 or -1, which a sweep passes without a multiplication."""
WORTH = 0.6
"""Reverse sweeps are chosen if they take at most this share of the operations of forward sweeps. Both are counted
before equal operations are shared, and forward sweeps share more of them.
"""


def sweep_operations(graph: Graph, ways: Sequence[Mapping[int, Any]], roots: Sequence[int]) -> tuple[int, int]:
    """Return how many operations forward sweeps and sweeps back take, without partial derivatives.

    Args:
        graph: The graph.
        ways: The rates that each forward sweep begins with, by node.
        roots: The nodes that each sweep back begins with.
    """
    bits = _directions(graph, ways, set(graph.reaching(roots)))
    numbers = {
        i for seeds in ways for i, rate in seeds.items() if is_number(rate)
    }  # a product with a number is not an operation
    forward = 0
    for i, own in bits.items():
        passed = [(a, bits[a].bit_count()) for a in graph.nodes[i].args if a in bits]
        products = 0 if graph.nodes[i].op in FREE else sum(count for a, count in passed if a not in numbers)
        sums = sum(count for _, count in passed) - own.bit_count() if passed else 0
        forward += products + sums
    reached = {i: [1 << k] for k, i in enumerate(roots) if i in bits}
    backward, ends = 0, frozenset(reached)
    for i in reversed(bits):
        if i not in reached:
            continue
        rows = reduce(or_, reached[i])
        moving = [a for a in graph.nodes[i].args if a in bits]
        products = 0 if graph.nodes[i].op in FREE else len(moving) * (rows.bit_count() - (i in ends))
        backward += products + sum(each.bit_count() for each in reached[i]) - rows.bit_count()
        for a in moving:
            reached.setdefault(a, []).append(rows)
    return forward, backward


def _is_configuration(port: Port) -> bool:
    """Return whether an input is a configuration with quaternions, and not a rotation among the robot's parameters."""
    return bool(port.unit_vectors) and not port.parameter


def _again(graph: Graph, name: str) -> tuple[Recording, list[Any]]:
    """Record the graph on inputs of the same names, and return the recording and the value of each node."""
    recording = Recording(f"{graph.name}_{name}", graph.robot)
    return recording, recording.replay(graph, {port.name: recording.input_like(port) for port in graph.inputs})


def _with(recording: Recording, values: Mapping[str, Array], products: Mapping[str, Array]) -> Graph:
    """Return the graph of outputs and of products with their derivatives."""
    for name in values:
        if name in products:
            raise ArgumentError(
                f"{recording.name} would have two outputs '{name}': the graph's own and the product; expected outputs= "
                f"without '{name}', or jacobian(), which names its outputs d<output>_d<input>",
                code="DG-GRAPH-006",
            )
    return recording.graph({**values, **products})


def output_values(ports: Sequence[Port], values: Sequence[Any]) -> dict[str, Array]:
    """Return the outputs by name, (*shape), from the value of every node."""
    return {p.name: np.array([values[i] for i in p.nodes], dtype=object).reshape(p.shape) for p in ports}


def vjp(
    graph: Graph,
    outputs: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    *,
    robot: Robot | None = None,
) -> Graph:
    """Return the graph of the vector-Jacobian product λᵀ ∂outputs/∂inputs, by one reverse sweep.

    Its inputs are those of the graph and `lam_<output>` in the output's shape. Its outputs are the chosen outputs of
    the graph and `vjp_<input>`, in the shape of the input's directions: (nv,) for a configuration (see `Derivative`).

    Args:
        graph: The graph.
        outputs: Names of the outputs; None for all.
        inputs: Names of the inputs; None for all.
        robot: The robot, which a graph with quaternions needs.

    Returns:
        The graph of the product.

    Raises:
        ArgumentError: A name is unknown, two outputs would have one name (a product of a product), or the graph has
            quaternions and robot is None.
    """
    derivative = Derivative(graph, robot)
    ports = derivative.outputs(outputs)
    derivative.inputs(inputs)
    recording, values = _again(graph, "vjp")
    weights = {port.name: recording.input(f"lam_{port.name}", port.shape) for port in ports}
    products = derivative.reverse(values, weights, inputs)
    return _with(recording, output_values(ports, values), {f"vjp_{name}": v for name, v in products.items()})


def jvp(
    graph: Graph,
    outputs: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    *,
    robot: Robot | None = None,
) -> Graph:
    """Return the graph of the Jacobian-vector product ∂outputs/∂inputs · δ, by one forward sweep.

    Its inputs are those of the graph and `delta_<input>`, in the shape of the input's directions: (nv,) for a
    configuration (see `Derivative`). Its outputs are the chosen outputs of the graph and `jvp_<output>`.

    Args:
        graph: The graph.
        outputs: Names of the outputs; None for all.
        inputs: Names of the inputs; None for all.
        robot: The robot, which a graph with quaternions needs.

    Returns:
        The graph of the product.

    Raises:
        ArgumentError: A name is unknown, two outputs would have one name (a product of a product), or the graph has
            quaternions and robot is None.
    """
    derivative = Derivative(graph, robot)
    ports = derivative.outputs(outputs)
    moving = derivative.inputs(inputs)
    recording, values = _again(graph, "jvp")
    rates = {
        port.name: recording.input(f"delta_{port.name}", derivative.shape(port), derivative.sizes(port))
        for port in moving
    }
    products = derivative.forward(values, rates, outputs)
    return _with(recording, output_values(ports, values), {f"jvp_{name}": v for name, v in products.items()})


def jacobian(
    graph: Graph,
    outputs: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    *,
    robot: Robot | None = None,
) -> Graph:
    """Return the graph of the Jacobian ∂outputs/∂inputs, in the mode that takes fewer operations.

    Its inputs are those of the graph. Its outputs are `d<output>_d<input>`, (*output, *directions of the input).

    Args:
        graph: The graph.
        outputs: Names of the outputs; None for all.
        inputs: Names of the inputs; None for all.
        robot: The robot, which a graph with quaternions needs.

    Returns:
        The graph of the Jacobian.

    Raises:
        ArgumentError: A name is unknown, or the graph has quaternions and robot is None.
    """
    derivative = Derivative(graph, robot)
    derivative.outputs(outputs)
    derivative.inputs(inputs)
    recording, values = _again(graph, "jacobian")
    columns = derivative.columns(values, inputs, outputs)
    return recording.graph({f"d{out}_d{name}": by for name, each in columns.items() for out, by in each.items()})
