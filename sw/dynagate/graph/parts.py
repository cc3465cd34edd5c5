"""The functions that one graph computes together: the nodes, inputs and outputs of each, and samples for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.dynamics import ALL, CODE, FunctionPart, function
from dynagate.graph.graph import Graph, Port


def parts_of(name: str) -> tuple[FunctionPart, ...]:
    """Return the functions that a graph with this name computes together; () for a single function."""
    return function(name).parts if name == ALL or "," in name else ()


def needed(graph: Graph, part: FunctionPart) -> list[int]:
    """Return the nodes of one function, in the order of the graph: its inputs and the nodes its outputs
    depend on.
    """
    names = [argument.name for argument in part.function.outputs]
    live = {i for port in graph.outputs if port.name in names for i in port.nodes}
    live |= {i for port in graph.inputs if port.name in dict(part.inputs).values() for i in port.nodes}
    live = set(graph.reaching(live))
    for port in graph.inputs:
        if not live.isdisjoint(port.nodes):
            live.update(port.nodes)
    return sorted(live)


def parameter_ports(graph: Graph) -> tuple[Port, ...]:
    """Return the inputs that are variable parameters of the robot: the last ones."""
    return tuple(port for port in graph.inputs if port.parameter)


def code_node(graph: Graph) -> int:
    """Return the input node that selects the function of a sample."""
    return next(i for port in graph.inputs if port.name == CODE.name for i in port.nodes)


def part_outputs(graph: Graph, part: FunctionPart) -> tuple[int, ...]:
    """Return the output nodes of one function in its own order, without zeros.

    Return the first node of the complete result if its outputs are always zero, since a result has at least one number.
    """
    ports = {port.name: port.nodes for port in graph.outputs}
    own = dict.fromkeys(i for argument in part.function.outputs for i in ports[argument.name])
    return tuple(i for i in own if not graph.nodes[i].is_zero) or graph.result_nodes[:1]


def part_graph(graph: Graph, part: FunctionPart) -> Graph:
    """Return the graph of one function: the nodes in `needed`, renumbered. The inputs have the function's own names;
    the code stays an input if nodes depend on it.
    """
    whole = graph.numbered(needed(graph, part))
    own = {shared: name for name, shared in part.inputs}
    names = [argument.name for argument in part.function.outputs]
    inputs = tuple(replace(port, name=own.get(port.name, port.name)) for port in whole.inputs)
    outputs = {port.name: port for port in whole.outputs}
    return replace(whole, name=part.name, inputs=inputs, outputs=tuple(outputs[name] for name in names)).check()


def with_code(part: FunctionPart, inputs: Mapping[str, Floats], count: int) -> dict[str, Floats]:
    """Return the inputs of a function with the code (count,) that selects it."""
    return {**inputs, CODE.name: np.full(count, float(part.code))}


def kinds_of_samples(name: str) -> list[FunctionPart]:
    """Return the fewest functions whose samples are samples for all functions.

    These are the first of several functions with the same inputs, without functions whose inputs are a subset of
    another's.
    """
    kept: list[FunctionPart] = []
    for part in sorted(parts_of(name), key=lambda part: -len(part.inputs)):
        shared = {target for _, target in part.inputs}
        same = [other for other in kept if shared <= {target for _, target in other.inputs}]
        if not any((other.code > 0) == (part.code > 0) or len(shared) < len(other.inputs) for other in same):
            kept.append(part)
    return kept


def pooled(name: str, samples: Mapping[str, Mapping[str, Floats]], count: int) -> dict[str, Floats]:
    """Return samples of several functions together, (count, ...), alternating between the functions row by row.

    Args:
        name: Name of the functions together.
        samples: Samples by function, for all functions or for those of `kinds_of_samples`, each long enough.
        count: Number of rows.
    """
    parts = kinds_of_samples(name)
    parts += [part for part in parts_of(name) if part.name in samples and part not in parts]
    inputs: dict[str, Floats] = {CODE.name: np.zeros(count)}
    for k, part in enumerate(parts):
        rows = slice(k, count, len(parts))
        length = len(range(*rows.indices(count)))
        inputs[CODE.name][rows] = part.code
        for own, values in samples[part.name].items():
            shared = dict(part.inputs).get(own, own)
            inputs.setdefault(shared, np.zeros((count, *values.shape[1:])))[rows] = values[:length]
    return inputs
