"""Run several samples in one program: one sample uses the units that another leaves idle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.graph.graph import Graph, Node, Port


def batched_graph(formatted: FormattedGraph, count: int) -> FormattedGraph:
    """Return the graph of several independent samples, whose inputs and outputs have shape (count, *shape).

    Args:
        formatted: Graph of one sample.
        count: Number of samples.
    """
    if count == 1:
        return formatted
    graph, size = formatted.graph, len(formatted.graph)
    bases = [size * k for k in range(count)]
    nodes = tuple(node for k in range(count) for node in moved(graph, size * k, k))
    whole = Graph(
        graph.name,
        graph.robot,
        nodes,
        tuple(_port(port, bases) for port in graph.inputs),
        tuple(_port(port, bases) for port in graph.outputs),
        graph.forces,
    )
    return FormattedGraph(
        whole.check(),
        formatted.formats * count,
        {base + i: constant for base in bases for i, constant in formatted.constants.items()},
        {base + i: bounds for base in bases for i, bounds in formatted.bounds.items()},
        formatted.arithmetic,
    ).check()


def moved(graph: Graph, base: int, sample: int) -> Iterator[Node]:
    """Yield the nodes of a sample, renumbered so that the first is node `base`."""
    for node in graph.nodes:
        name = f"sample{sample}.{node.name}"
        yield replace(node, args=tuple(a + base for a in node.args), name=name)


def _port(port: Port, bases: list[int]) -> Port:
    """Return the port that holds the values of all samples."""
    size = len(port.nodes)
    return replace(
        port,
        shape=(len(bases), *port.shape),
        nodes=tuple(base + i for base in bases for i in port.nodes),
        unit_vectors=tuple((size * k + a, size * k + b) for k in range(len(bases)) for a, b in port.unit_vectors),
        sizes=port.sizes * len(bases),
    )
