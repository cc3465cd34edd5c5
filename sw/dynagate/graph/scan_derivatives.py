"""The vector-Jacobian product of a scan: a scan in the other direction over the products of its bodies.

The forward scan keeps the values that were passed to each link. A body of the backward scan takes these, the inputs of
the forward body and the weights of its results, and recomputes the inner values. `graph.weights` differentiates
programs of scans.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dynagate.base.arrays import Array
from dynagate.graph.derivatives import Derivative
from dynagate.graph.graph import Graph, Port
from dynagate.graph.recorder import Recording
from dynagate.graph.scan import PASSED, PASSING, TABLE, Scan
from dynagate.robot import Robot


def kept(scan: Scan, name: str) -> tuple[Scan, str]:
    """Return the scan with the passed values as an additional output, and the output's name; "" if no value is
    passed.
    """
    comes = [any(port.name == PASSED for port in scan.body(i).inputs) for i in range(len(scan.parents))]
    size = scan.width * sum(comes)
    if not size:
        return scan, ""
    bodies = []
    for body in scan.bodies:
        ports = [replace(port, name=name, unit_vectors=(), sizes=()) for port in body.inputs if port.name == PASSED]
        bodies.append(replace(body, outputs=(*body.outputs, *ports)))
    starts = tuple(scan.width * sum(comes[:i]) for i in range(len(comes)))
    port = Port(name, (size,), tuple(range(size)))
    whole = replace(scan, bodies=tuple(bodies), starts={**scan.starts, name: starts}, outputs=(*scan.outputs, port))
    return whole, name


@dataclass(frozen=True)
class ScanDirections:
    """The directions of a scan's input or output; those of a configuration are velocities."""

    name: str
    """Name of the value that holds them."""
    starts: tuple[int, ...]
    """Position of the first entry of each link."""
    shape: tuple[int, ...]
    """Shape for one sample."""

    @classmethod
    def of(cls, scan: Scan, port: Port, name: str, robot: Robot | None) -> ScanDirections:
        """Return the directions of an input or output of a scan.

        Args:
            scan: The scan.
            port: The input or output.
            name: Name of the value that holds the directions.
            robot: The robot, which a configuration needs.
        """
        if robot is not None and port.unit_vectors:
            return cls(name, tuple(part.start for _, _, part in robot.slices()), (robot.nv,))
        return cls(name, scan.starts[port.name], port.shape)

    @property
    def port(self) -> Port:
        return Port(self.name, self.shape, tuple(range(math.prod(self.shape))))


def of_link(body: Graph, robot: Robot, i: int) -> Derivative:
    """Return the derivative of the body of link i."""
    return Derivative(body, Robot("joint", (replace(robot.links[i], parent=-1),)))


@dataclass(frozen=True)
class ScanBack:
    """The scan back through a scan.

    Args:
        forward: The scan, which keeps what comes along.
        robot: The robot over whose links it runs.
        came: The name of what came along; "" if nothing comes.
        seeds: Output -> its weights.
        before: Input -> its weights so far.
        after: Input -> its weights, with those by this scan.
    """

    forward: Scan
    robot: Robot
    came: str
    seeds: Mapping[str, ScanDirections]
    before: Mapping[str, ScanDirections]
    after: Mapping[str, ScanDirections]

    def scan(self) -> Scan:
        """Return the scan in the other direction."""
        forward, came = self.forward, self.came
        bodies: dict[tuple[int, bool], Graph] = {}
        kinds = []
        for i in range(len(forward.parents)):
            key = forward.kinds[i], (bool(forward.children[i]) if forward.down else forward.parents[i] >= 0)
            if key not in bodies:
                bodies[key] = self._body(i, key[1])
            kinds.append(list(bodies).index(key))
        read = {port.name for body in bodies.values() for port in body.inputs}
        tables = [
            forward.tables[i] if any(p.name == TABLE for p in list(bodies.values())[kinds[i]].inputs) else ()
            for i in range(len(kinds))
        ]
        values = [*forward.inputs, *(port for port in forward.outputs if port.name == came)]
        weights = [*self.seeds.values(), *self.before.values()]
        starts = {port.name: forward.starts[port.name] for port in values if port.name in read}
        starts |= {own.name: own.starts for own in (*weights, *self.after.values())}
        return Scan(
            f"{forward.name}_back",
            forward.robot,
            not forward.down,
            forward.parents,
            tuple(bodies.values()),
            tuple(kinds),
            tuple(tables),
            starts,
            (*(p for p in values if p.name in read), *(own.port for own in weights if own.name in read)),
            tuple(own.port for own in self.after.values()),
        )

    def _body(self, i: int, comes: bool) -> Graph:
        """Return the backward body of link i. `comes` is True if weights of its passed values arrive."""
        body = self.forward.body(i)
        recording = Recording(f"{body.name}_back", body.robot)
        inputs: dict[str, Array] = {}
        for port in body.inputs:
            inputs[port.name] = recording.input_like(replace(port, name=self.came) if port.name == PASSED else port)
        weights = {}
        for port in body.outputs:
            if port.name in self.seeds:
                weights[port.name] = recording.input(self.seeds[port.name].name, port.shape)
            elif port.name == PASSING and comes:
                weights[port.name] = recording.input(PASSED, port.shape)
        targets = [port.name for port in body.inputs if port.name in self.after or port.name == PASSED]
        values = recording.replay(body, inputs)
        outputs = {}
        for name, product in of_link(body, self.robot, i).reverse(values, weights, targets).items():
            if name == PASSED:
                outputs[PASSING] = product
                continue
            so_far = self.before.get(name)
            outputs[self.after[name].name] = (
                product if so_far is None else product + recording.input(so_far.name, product.shape)
            )
        return _without_unused(recording.graph(outputs))


def _without_unused(graph: Graph) -> Graph:
    """Return the graph without the inputs of which no entry is used."""
    outputs = set(graph.output_nodes)
    ports = [p for p in graph.inputs if any(graph.users[i] or i in outputs for i in p.nodes)]
    gone = {i for port in graph.inputs if port not in ports for i in port.nodes}
    if not gone:
        return graph
    return graph.numbered(i for i in range(len(graph)) if i not in gone).check()
