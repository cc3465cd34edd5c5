"""Derivatives of a graph, as graphs: products with the Jacobian from the left (VJP) and from the right (JVP), and the
Jacobian itself, by the partial derivatives of the op table.

The sweeps run over any scalar: recorded expressions make a graph, numpy arrays make numbers.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.naming import scope
from dynagate.dynamics import Tree
from dynagate.dynamics.configuration import direction_matrix
from dynagate.dynamics.spatial import is_zero, zeros
from dynagate.graph.graph import Graph, Port
from dynagate.graph.ops import OPS
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.robot import Robot


def adjoints(
    graph: Graph, values: Sequence[Any], seeds: Mapping[int, Any], among: Container[int] | None = None
) -> Iterator[tuple[int, Any]]:
    """Reverse-mode differentiation of a weighted sum of nodes. values: of every node. seeds: node -> its weight.

    Yields every node that the sum depends on, last first, with the derivative of the sum with respect to it; only those
    among some, where these are given.
    """
    waiting = dict(seeds)
    for i in range(max(waiting, default=-1), -1, -1):
        if i not in waiting:
            continue
        adjoint = waiting.pop(i)
        yield i, adjoint
        with scope("adjoint", *graph.scope_paths[i][1:]):
            for a, partial in _partials(graph, values, i):
                if among is None or a in among:
                    product = adjoint * partial
                    waiting[a] = waiting[a] + product if a in waiting else product


def tangents(graph: Graph, values: Sequence[Any], seeds: Mapping[int, Any]) -> dict[int, Any]:
    """Forward-mode differentiation along one direction. values: of every node. seeds: node -> its rate. Nodes that do
    not move are left out."""
    rates = dict(seeds)
    for i, node in enumerate(graph.nodes):
        if any(a in rates for a in node.args):
            with scope("tangent", *graph.scope_paths[i][1:]):
                if (rate := OPS[node.op].rate) is not None:
                    rates[i] = rate([values[a] for a in node.args], [rates.get(a, 0.0) for a in node.args])
                    continue
                terms = [rates[a] * partial for a, partial in _partials(graph, values, i) if a in rates]
                rates[i] = sum(terms[1:], terms[0])
    return rates


def _partials(graph: Graph, values: Sequence[Any], i: int) -> Iterator[tuple[int, Any]]:
    """The operands of node i, each with the derivative of the node with respect to it."""
    node = graph.nodes[i]
    if not node.args:
        return iter(())
    constant = [] if node.constant is None else [node.constant]
    partials = OPS[node.op].partials(values[i], *(values[a] for a in node.args), *constant)
    return zip(node.args, partials, strict=True)


class Derivative:
    """How the outputs of a graph follow its inputs, each along its directions.

    robot: whose configuration the input q is. Its directions are velocities, as `configuration.integrate` moves along
    them: (nv,) where the configuration is (nq,). It may be None for a graph without quaternions. The entries of other
    inputs are directions themselves, an entry of a symmetric matrix one with its mirror image. The directions of a unit
    quaternion in a variable parameter are its four numbers, of which only the part across the quaternion moves it.
    Raises ValueError: quaternions without a robot.
    """

    def __init__(self, graph: Graph, robot: Robot | None = None) -> None:
        self.graph, self.robot = graph, robot
        for port in graph.inputs:
            if _is_configuration(port) and robot is None:
                raise ArgumentError(
                    f"input '{port.name}' of {graph.name} has quaternions; expected robot=, the robot whose they are"
                )

    def inputs(self, names: Sequence[str] | None) -> list[Port]:
        """The inputs of these names, all for None. Raises ValueError: there is no such input."""
        return self._ports("input", self.graph.inputs, names)

    def outputs(self, names: Sequence[str] | None) -> list[Port]:
        """The outputs of these names, all for None. Raises ValueError: there is no such output."""
        return self._ports("output", self.graph.outputs, names)

    def _ports(self, kind: str, ports: Sequence[Port], names: Sequence[str] | None) -> list[Port]:
        by_name = {port.name: port for port in ports}
        for name in names or ():
            if name not in by_name:
                raise ArgumentError(f"{self.graph.name} has no {kind} '{name}'; expected one of {', '.join(by_name)}")
        return [by_name[name] for name in (by_name if names is None else names)]

    def shape(self, port: Port) -> tuple[int, ...]:
        """The shape of an input's directions."""
        if self.robot is not None and _is_configuration(port):
            return (self.robot.nv,)
        distinct = len(set(port.nodes))
        return port.shape if distinct == len(port.nodes) else (distinct,)

    def sizes(self, port: Port) -> Array | float:
        """Typical magnitudes of an input's directions, which move it by as much as it is large."""
        if self.robot is not None and _is_configuration(port):
            return typical_sizes(Tree(self.robot))["qd"]
        by_node = dict(zip(port.nodes, port.sizes, strict=True)) if port.sizes else dict.fromkeys(port.nodes, 1.0)
        return np.reshape(list(by_node.values()), self.shape(port))

    def _moves(self, port: Port, values: Sequence[Any]) -> tuple[list[int], Array]:
        """The distinct nodes of an input, and how fast each moves along each direction (nodes, directions)."""
        nodes = list(dict.fromkeys(port.nodes))
        if self.robot is not None and _is_configuration(port):
            return nodes, direction_matrix(self.robot, [values[i] for i in nodes])
        moves = np.eye(len(nodes)).astype(object)
        for start, stop in port.unit_vectors:  # a quaternion moves across itself only
            own = np.array([values[i] for i in nodes[start:stop]], dtype=object)
            moves[start:stop, start:stop] = moves[start:stop, start:stop] - np.multiply.outer(own, own)
        return nodes, moves

    def reverse(
        self, values: Sequence[Any], weights: Mapping[str, Array], names: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """Σ weight · ∂output/∂direction for each of these inputs, in the shape of its directions.

        values: of every node. weights: of outputs by name, (*shape)."""
        seeds: dict[int, Any] = {}
        for port in self.outputs(list(weights)):
            for i, weight in zip(port.nodes, np.ravel(weights[port.name]), strict=True):
                seeds[i] = seeds[i] + weight if i in seeds else weight
        ports = self.inputs(names)
        by_node = dict(adjoints(self.graph, values, seeds, self._reached([i for port in ports for i in port.nodes])))
        results = {}
        for port in ports:
            nodes, rates = self._moves(port, values)
            with scope("adjoint"):
                entries = np.array([by_node.get(i, 0.0) for i in nodes], dtype=object)
                results[port.name] = (entries @ rates).reshape(self.shape(port))
        return results

    def _reached(self, sources: Sequence[int]) -> set[int]:
        """The nodes that depend on one of these."""
        reached = set(sources)
        for i, node in enumerate(self.graph.nodes):
            if not reached.isdisjoint(node.args):
                reached.add(i)
        return reached

    def forward(
        self, values: Sequence[Any], rates: Mapping[str, Array], names: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """Σ ∂output/∂direction · rate for each of these outputs, (*shape).

        values: of every node. rates: along the directions of inputs by name."""
        seeds: dict[int, Any] = {}
        for port in self.inputs(list(rates)):
            nodes, moves = self._moves(port, values)
            with scope("tangent"):
                moved = moves @ np.ravel(rates[port.name])
            seeds |= {i: rate for i, rate in zip(nodes, moved, strict=True) if not is_zero(rate)}
        by_node = tangents(self.graph, values, seeds)
        return {
            port.name: np.array([by_node.get(i, 0.0) for i in port.nodes], dtype=object).reshape(port.shape)
            for port in self.outputs(names)
        }

    def columns(self, values: Sequence[Any], name: str, outputs: Sequence[str] | None = None) -> dict[str, Array]:
        """∂output/∂directions of the input of this name, (*output, *directions), for each of these outputs."""
        (port,) = self.inputs([name])
        shape = self.shape(port)
        by_output: dict[str, list[Array]] = {}
        for index in np.ndindex(*shape):
            unit = zeros(*shape)
            unit[index] = 1.0
            for output, column in self.forward(values, {name: unit}, outputs).items():
                by_output.setdefault(output, []).append(column)
        return {
            output: np.stack(columns, axis=-1).reshape(*columns[0].shape, *shape)
            for output, columns in by_output.items()
        }


def _is_configuration(port: Port) -> bool:
    """Return whether an input is a configuration with quaternions, and not a rotation among the robot's parameters."""
    return bool(port.unit_vectors) and not port.parameter


def _again(graph: Graph, name: str) -> tuple[Recording, list[Any]]:
    """A recording of the graph on inputs of the same names, and the values of its nodes."""
    recording = Recording(f"{graph.name}_{name}", graph.robot)
    return recording, recording.replay(graph, {port.name: recording.input_like(port) for port in graph.inputs})


def _with(recording: Recording, values: Mapping[str, Array], products: Mapping[str, Array]) -> Graph:
    """The graph of outputs and of products with their derivatives."""
    for name in values:
        if name in products:
            raise ArgumentError(
                f"{recording.name} would have two outputs '{name}': the graph's own and the product; expected outputs= "
                f"without '{name}', or jacobian(), which names its outputs d<output>_d<input>"
            )
    return recording.graph({**values, **products})


def output_values(ports: Sequence[Port], values: Sequence[Any]) -> dict[str, Array]:
    """Outputs by name, (*shape), from the values of every node."""
    return {p.name: np.array([values[i] for i in p.nodes], dtype=object).reshape(p.shape) for p in ports}


def vjp(
    graph: Graph,
    outputs: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    *,
    robot: Robot | None = None,
) -> Graph:
    """The graph of λᵀ ∂outputs/∂inputs, by one reverse sweep. outputs, inputs: names; None for all.

    It takes the graph's inputs and `lam_<output>`, in the output's shape. It has the chosen outputs of the graph and
    `vjp_<input>`, in the shape of the input's directions: (nv,) for a configuration (see `Derivative`).
    Raises ValueError: a name that the graph does not have, two outputs of one name (a product of a product), or
    quaternions without a robot.
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
    """The graph of ∂outputs/∂inputs · δ, by one forward sweep. outputs, inputs: names; None for all.

    It takes the graph's inputs and `delta_<input>`, in the shape of the input's directions: (nv,) for a configuration
    (see `Derivative`). It has the chosen outputs of the graph and `jvp_<output>`.
    Raises ValueError: a name that the graph does not have, two outputs of one name (a product of a product), or
    quaternions without a robot.
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
    """The graph of ∂outputs/∂inputs, by a forward sweep along each direction. outputs, inputs: names; None for all.

    It takes the graph's inputs. Its outputs are `d<output>_d<input>`, (*output, *directions of the input).
    Raises ValueError: a name that the graph does not have, or quaternions without a robot.
    """
    derivative = Derivative(graph, robot)
    derivative.outputs(outputs)
    moving = derivative.inputs(inputs)
    recording, values = _again(graph, "jacobian")
    results = {}
    for port in moving:
        for name, columns in derivative.columns(values, port.name, outputs).items():
            results[f"d{name}_d{port.name}"] = columns
    return recording.graph(results)
