"""Derivative products of a graph along the entries of its inputs, as frameworks differentiate.

A framework does not know the manifold of quaternions. An operator is therefore the function of the *normalized*
quaternion, f(q / |q|), which is smooth in all entries of q; the framework differentiates the division. This module has
the derivative at unit quaternions along entries. Rates of entries become velocities before the product, and weights of
velocities become weights of entries after it. These weights are orthogonal to each quaternion, as the derivative of the
division requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.dynamics import tree_of
from dynagate.dynamics.configuration import direction_matrix, directions_of, entry_weights
from dynagate.graph import Graph, derivatives
from dynagate.graph.derivatives import output_values
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import typical_sizes
from dynagate.robot import Robot


def check_differentiable(graph: Graph) -> None:
    """Raise ArgumentError if entries of an input are the same number, so that they are not independent
    directions.
    """
    for port in graph.inputs:
        if len(set(port.nodes)) < len(port.nodes):
            raise ArgumentError(
                f"input '{port.name}' of {graph.name} is symmetric, so its entries cannot vary separately; expected "
                "another function",
                code="DG-ARG-058",
            )


def anonymous(graph: Graph) -> Graph:
    """Return the graph with ports x0, x1, ... and y0, y1, ..., which cannot collide with names of its products."""
    inputs = tuple(replace(port, name=f"x{k}") for k, port in enumerate(graph.inputs))
    outputs = tuple(replace(port, name=f"y{k}") for k, port in enumerate(graph.outputs))
    return replace(graph, inputs=inputs, outputs=outputs)


def jvp(graph: Graph, robot: Robot, moving: Sequence[str]) -> Graph:
    """Return the graph of ∂outputs/∂moving · δ.

    It takes the graph's inputs and `delta_<input>`, in the inputs' shapes, and returns `jvp_<output>` for all outputs.

    Args:
        graph: The graph.
        robot: The robot.
        moving: Names of the inputs to differentiate with respect to.
    """
    return in_entries(derivatives.jvp(graph, None, moving, robot=robot), robot, "jvp_")


def vjp(graph: Graph, robot: Robot, moving: Sequence[str]) -> Graph:
    """Return the graph of λᵀ ∂outputs/∂moving.

    It takes the graph's inputs and `lam_<output>` for all outputs, and returns `vjp_<input>`, in the inputs' shapes.

    Args:
        graph: The graph.
        robot: The robot.
        moving: Names of the inputs to differentiate with respect to.
    """
    return in_entries(derivatives.vjp(graph, None, moving, robot=robot), robot, "vjp_")


def in_entries(product: Graph, robot: Robot, prefix: str) -> Graph:
    """Return a product graph with entries (nq,) as directions of configurations, and only the outputs with this
    prefix.
    """
    units = {port.name for port in product.inputs if port.unit_vectors and not port.parameter}
    recording = Recording(product.name, product.robot)
    inputs: dict[str, Array] = {}
    for port in product.inputs:
        of = port.name.removeprefix("delta_")
        if of != port.name and of in units:
            rates = recording.input(port.name, (robot.nq,), typical_sizes(tree_of(robot))["q"])
            inputs[port.name] = directions_of(robot, inputs[of], rates)
        else:
            inputs[port.name] = recording.input_like(port)
    values = recording.replay(product, inputs)
    outputs = {}
    for port in product.outputs:
        if not port.name.startswith(prefix):
            continue
        value, of = output_values([port], values)[port.name], port.name.removeprefix("vjp_")
        outputs[port.name] = entry_weights(robot, inputs[of], value) if of in units else value
    return recording.graph(outputs)


def entries_of_weights(robot: Robot) -> Graph:
    """Return the graph from q (nq,) and weights lam (nv,) of its velocities to weights of its entries, (nq,)."""
    return _map(robot, "entries_of_weights", robot.nv, lambda q, lam: entry_weights(robot, q, lam))


def weights_of_entries(robot: Robot) -> Graph:
    """Return the graph from q (nq,) and weights lam (nq,) of its entries to weights of its velocities, (nv,)."""
    return _map(robot, "weights_of_entries", robot.nq, lambda q, lam: direction_matrix(robot, list(q)).T @ lam)


def _map(robot: Robot, name: str, size: int, weights: Any) -> Graph:
    """Return the graph from q and weights `lam` (size,) to converted weights."""
    recording = Recording(name, robot.name)
    units = tuple((part.start, part.stop) for part in robot.quaternions())
    q = recording.input("q", (robot.nq,), typical_sizes(tree_of(robot))["q"], unit_vectors=units)
    return recording.graph({"weights": weights(q, recording.input("lam", (size,)))})
