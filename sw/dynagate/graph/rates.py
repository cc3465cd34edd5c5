"""Jacobian-vector products of programs: a program that also computes the rates of its values.

Each kind of step has a row in `JVP`. A graph is differentiated in forward mode, a loop carries the rates of its carried
values, and a scan passes on the rates of passed values. A loop with a tolerance runs as many iterations as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.dynamics.spatial import is_zero
from dynagate.graph.derivatives import Derivative, output_values
from dynagate.graph.graph import Graph, Port
from dynagate.graph.loop import Loop
from dynagate.graph.recorder import Recording
from dynagate.graph.scan import PASSED, PASSING, Scan
from dynagate.graph.scan_derivatives import ScanDirections, of_link
from dynagate.graph.steps import GRAPH, LOOP, SCAN, UNTIL, Step, table
from dynagate.robot import Robot

Moved = tuple[list[Step], set[str]]
"""Steps that also compute rates, and the names of their outputs that have one."""


def rate_of(name: str) -> str:
    """Return the name of the rate of a value. The prefix is reserved, so no other value has this name."""
    return f"rate.{name}"


def jvp(program: Loop, inputs: Sequence[str], robot: Robot | None = None) -> Loop:
    """Return the program that computes the rates of its outputs too, from the rates of some inputs.

    Args:
        program: A program. Only scans may take quaternions.
        inputs: Names of the inputs that change. The new program takes `rate_of` each, in the input's shape; that of a
            configuration with quaternions along velocities (nv,).
        robot: The robot over whose links the scans run; None for a program without scans that take quaternions.

    Returns:
        A program with the inputs and outputs of the old one, and `rate_of` each output that depends on these inputs.

    Raises:
        ArgumentError: The program has no such input, a carried input of these names has no rate at first, or an input
            has quaternions.
    """
    known = {port.name for port in program.inputs}
    for name in inputs:
        if name not in known:
            raise ArgumentError(
                f"{program.name} has no input '{name}'; expected some of {', '.join(sorted(known))}",
                code="DG-GRAPH-015",
            )
    steps, _ = JVP[program.kind](program, {*inputs}, robot)
    *zeros, last = steps
    if zeros:
        missing = ", ".join(port.name for step in zeros for port in step.inputs)
        raise ArgumentError(
            f"{program.name} carries rates to {missing}; expected these among the inputs that change",
            code="DG-GRAPH-016",
        )
    return next(last.loops())


def _graph(graph: Graph, moving: Set[str], robot: Robot | None) -> Moved:
    """Return a graph with the rates of its outputs."""
    if not any(port.name in moving for port in graph.inputs):
        return [graph], set()
    recording = Recording(f"{graph.name}_jvp", graph.robot)
    values, rates = _with_rates(recording, Derivative(graph), {name: rate_of(name) for name in moving})
    return [recording.graph({**values, **{rate_of(name): rate for name, rate in rates.items()}})], {*rates}


def _with_rates(
    recording: Recording, derivative: Derivative, names: Mapping[str, str], symbols: Mapping[str, Array] | None = None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Record a graph with rates.

    Args:
        recording: The recording.
        derivative: The derivative of the graph.
        names: Input -> name of its rate.
        symbols: Values and rates of inputs by name that are not inputs of the recording.

    Returns:
        The outputs of the graph, and the rates of those that change.
    """
    symbols, graph = symbols or {}, derivative.graph
    inputs, rates = {}, {}
    for port in graph.inputs:
        inputs[port.name] = symbols[port.name] if port.name in symbols else recording.input_like(port)
        if port.name in names:
            name = names[port.name]
            shape = derivative.shape(port)
            if derivative.is_configuration(port):
                rates[port.name] = recording.input(name, shape)
                continue
            rate = symbols[name] if name in symbols else recording.input(name, port.shape)
            first = [
                port.nodes.index(node) for node in dict.fromkeys(port.nodes)
            ]  # once for each pair of mirror images
            rates[port.name] = rate.reshape(-1)[first].reshape(shape)
    nodes = recording.replay(graph, inputs)
    moved = derivative.forward(nodes, rates)
    return output_values(graph.outputs, nodes), {
        name: rate for name, rate in moved.items() if not all(map(is_zero, rate.flat))
    }


def _zeros(robot: str, port: Port) -> Graph:
    """Return a graph that gives a value a rate of zero."""
    recording = Recording("zeros", robot)
    recording.input_like(port)
    return recording.graph({rate_of(port.name): np.zeros(port.shape).astype(object)})


def _loop(loop: Loop, moving: Set[str], robot: Robot | None) -> Moved:
    """Return a loop with rates; carried values carry their rates."""
    names = {port.name for port in loop.inputs}
    begin = names & moving
    while True:
        steps, inside = list[Step](), set(begin)
        for step in loop.steps:
            new, moved = JVP[step.kind](step, inside, robot)
            steps += new
            inside = inside - {port.name for port in step.outputs} | moved
        carried = {name for value, name in loop.carry.items() if value in inside}
        if carried <= begin:
            break
        begin = begin | carried
    still = [value for value, name in loop.carry.items() if name in begin and value not in inside]
    steps += [_zeros(loop.robot, loop.values[value]) for value in still]
    ports = {port.name: port for port in loop.inputs}
    moved_loop = replace(
        loop,
        steps=tuple(steps),
        carry={**loop.carry, **{rate_of(v): rate_of(name) for v, name in loop.carry.items() if name in begin}},
        per_iteration=(*loop.per_iteration, *(rate_of(name) for name in loop.per_iteration if name in begin)),
        kept=(*loop.kept, *(rate_of(name) for name in loop.kept if name in inside)),
        last=(*loop.last, *(rate_of(name) for name in loop.last if name in inside)),
    )
    zeros = [_zeros(loop.robot, ports[name]) for name in ports if name in begin - moving]
    return [*zeros, moved_loop], {name for name in (*loop.kept, *loop.last) if name in inside}


def _scan(scan: Scan, moving: Set[str], robot: Robot | None) -> Moved:
    """Return a scan with rates; passed values are followed by their rates."""
    inside = {port.name for port in scan.inputs} & moving
    if not inside:
        return [scan], set()
    bodies = [
        Derivative(body) if robot is None else of_link(body, robot, scan.kinds.index(k))
        for k, body in enumerate(scan.bodies)
    ]
    while True:  # passed values change if any body changes them
        names = {name: rate_of(name) for name in inside}
        moved = {name for body in bodies for name in _with_rates(Recording("moves", scan.robot), body, names)[1]}
        more = {PASSED} if PASSING in moved else set()
        if more <= inside:
            break
        inside |= more
    outputs = {port.name for port in scan.outputs} & moved
    reads, writes = (
        [ScanDirections.of(scan, port, rate_of(port.name), robot) for port in side if port.name in names]
        for side, names in ((scan.inputs, inside), (scan.outputs, outputs))
    )
    return [
        replace(
            scan,
            bodies=tuple(_body(body, scan, names, outputs | ({PASSING} & moved)) for body in bodies),
            starts={**scan.starts, **{own.name: own.starts for own in (*reads, *writes)}},
            inputs=(*scan.inputs, *(own.port for own in reads)),
            outputs=(*scan.outputs, *(own.port for own in writes)),
        )
    ], outputs


def _body(derivative: Derivative, scan: Scan, names: Mapping[str, str], moved: Set[str]) -> Graph:
    """Return a body of a scan with rates; the rates of the passed values follow the values."""
    body = derivative.graph
    recording = Recording(f"{body.name}_jvp", body.robot)
    symbols: dict[str, Array] = {}
    if PASSED in names and any(port.name == PASSED for port in body.inputs):
        both = recording.input(PASSED, (2 * scan.width,))
        symbols = {PASSED: both[: scan.width], names[PASSED]: both[scan.width :]}
    values, rates = _with_rates(recording, derivative, names, symbols)
    for port in body.outputs:
        if port.name in moved:
            rate = rates.get(port.name, np.zeros(port.shape).astype(object))
            if port.name == PASSING:
                values[PASSING] = np.concatenate([values[PASSING], rate])
            else:
                values[rate_of(port.name)] = rate
    return recording.graph(values)


JVP: Mapping[str, Callable[[Any, Set[str], Robot | None], Moved]] = table(
    "graph.rates.JVP", {GRAPH: _graph, LOOP: _loop, UNTIL: _loop, SCAN: _scan}
)
"""For each kind of step, the function that returns steps with rates, given the values of its scope that have
a rate.
"""
