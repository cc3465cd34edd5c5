"""Products with the derivative of scans: the VJP of a scan is a scan the other way, of the VJPs of its bodies.

The forward scans keep what came along to each link. A body of the backward scan takes that, the values that the forward
one took, and the weights of its results, and computes the forward one's inner values again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.graph.derivatives import Derivative
from dynagate.graph.graph import Graph, Port
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording
from dynagate.graph.scan import PASSED, PASSING, TABLE, Scan, scans_of
from dynagate.robot import Robot

CAME = "came"
"""Port of a forward body: what came along to the link."""


def vjp(loop: Loop, robot: Robot, inputs: Sequence[str], weights: Mapping[str, str]) -> Loop:
    """λᵀ ∂outputs/∂inputs of scans that follow one another, as scans: the loop's own, then one back for each.

    inputs: names. weights: output -> the input of the new loop that has its weights, in the output's shape. The new
    loop has the outputs of the old one and `vjp_<input>`, (nv,) for a configuration.
    Raises ValueError: a step of the loop that is no scan."""
    scans = scans_of(loop)
    if loop.carry:
        raise ArgumentError(f"loop '{loop.name}' carries values; expected scans that follow one another")
    back = _Back(loop, robot, inputs, weights)
    forward, backward = [], []
    for number, scan in reversed(list(enumerate(scans))):
        kept, name = _kept(scan, number)
        forward.append(kept)
        backward.append(back.scan(kept, number, name))
    steps = [*reversed(forward), *(scan for scan in backward if scan is not None)]
    last = (*loop.last, *(f"vjp_{name}" for name in inputs))
    return Loop(f"{loop.name}_vjp", loop.robot, tuple(steps), {}, Count(1), last=last)


def _kept(scan: Scan, number: int) -> tuple[Scan, str]:
    """The scan that keeps what comes along, and the name of that value; "" where nothing comes."""
    name = f"{CAME}_{number}"
    if not scan.width:
        return scan, ""
    bodies = []
    for body in scan.bodies:
        ports = [replace(port, name=name, unit_vectors=(), sizes=()) for port in body.inputs if port.name == PASSED]
        bodies.append(replace(body, outputs=(*body.outputs, *ports)))
    comes = [any(port.name == PASSED for port in scan.body(i).inputs) for i in range(len(scan.parents))]
    starts = tuple(scan.width * sum(comes[:i]) for i in range(len(comes)))
    size = scan.width * sum(comes)
    if not size:
        return scan, ""
    port = Port(name, (size,), tuple(range(size)))
    return replace(
        scan, bodies=tuple(bodies), starts={**scan.starts, name: starts}, outputs=(*scan.outputs, port)
    ), name


@dataclass(frozen=True)
class _Adjoint:
    """The value that collects the weights of another value. starts: index of each link's part. entries: of a sample."""

    name: str
    starts: tuple[int, ...]
    entries: int

    @property
    def port(self) -> Port:
        return Port(self.name, (self.entries,), tuple(range(self.entries)))


class _Back:
    """The weights of all values, from the last scan to the first."""

    def __init__(self, loop: Loop, robot: Robot, inputs: Sequence[str], weights: Mapping[str, str]) -> None:
        self.robot, self.loop, self.inputs = robot, loop, inputs
        scans = scans_of(loop)
        self.moving = set(inputs)
        """Values that depend on one of the inputs."""
        for scan in scans:
            if self.moving & {port.name for port in scan.inputs}:
                self.moving |= {port.name for port in scan.outputs}
        self.first = {name: min(k for k, scan in enumerate(scans) if name in scan.starts) for name in inputs}
        self.weights: dict[str, _Adjoint] = {}
        for scan in scans:
            for port in scan.outputs:
                if port.name in weights:
                    size = len(port.nodes)
                    self.weights[port.name] = _Adjoint(weights[port.name], scan.starts[port.name], size)

    def scan(self, forward: Scan, number: int, came: str) -> Scan | None:
        """The scan back; None where nothing depends on it or on what it does."""
        seeds = {port.name: self.weights[port.name] for port in forward.outputs if port.name in self.weights}
        targets = [port.name for port in forward.inputs if port.name in self.moving]
        if not seeds or not targets:
            return None
        before = {name: self.weights[name] for name in targets if name in self.weights}
        after = {name: self._adjoint(forward, name, number) for name in targets}
        bodies: dict[tuple[int, bool], Graph] = {}
        kinds = []
        for i in range(len(forward.parents)):
            key = forward.kinds[i], (bool(forward.children[i]) if forward.down else forward.parents[i] >= 0)
            if key not in bodies:
                bodies[key] = self._body(forward, i, key[1], came, seeds, before, after)
            kinds.append(list(bodies).index(key))
        read = {port.name for body in bodies.values() for port in body.inputs}
        tables = [
            forward.tables[i] if any(p.name == TABLE for p in list(bodies.values())[kinds[i]].inputs) else ()
            for i in range(len(kinds))
        ]
        values = [*forward.inputs, *(port for port in forward.outputs if port.name == came)]
        weights = [*seeds.values(), *before.values()]
        starts = {port.name: forward.starts[port.name] for port in values if port.name in read}
        starts |= {adjoint.name: adjoint.starts for adjoint in (*weights, *after.values())}
        self.weights |= after
        return Scan(
            f"{forward.name}_back",
            forward.robot,
            not forward.down,
            forward.parents,
            tuple(bodies.values()),
            tuple(kinds),
            tuple(tables),
            starts,
            (*(p for p in values if p.name in read), *(a.port for a in weights if a.name in read)),
            tuple(adjoint.port for adjoint in after.values()),
        )

    def _adjoint(self, forward: Scan, name: str, number: int) -> _Adjoint:
        """Return the value that collects the weights of a value that this scan reads."""
        port = next(port for port in forward.inputs if port.name == name)
        own = f"vjp_{name}" if self.first.get(name) == number else f"vjp_{name}_{number}"
        if not port.unit_vectors:
            return _Adjoint(own, forward.starts[name], len(port.nodes))
        starts = tuple(part.start for _, _, part in self.robot.slices())
        return _Adjoint(own, starts, self.robot.nv)

    def _body(
        self,
        forward: Scan,
        i: int,
        comes: bool,
        came: str,
        seeds: Mapping[str, _Adjoint],
        before: Mapping[str, _Adjoint],
        after: Mapping[str, _Adjoint],
    ) -> Graph:
        """The body of link i on the way back. comes: whether weights of what it passes on come to it."""
        body = forward.body(i)
        recording = Recording(f"{body.name}_back", body.robot)
        inputs: dict[str, Array] = {}
        for port in body.inputs:
            inputs[port.name] = recording.input_like(replace(port, name=came) if port.name == PASSED else port)
        weights = {}
        for port in body.outputs:
            if port.name in seeds:
                weights[port.name] = recording.input(seeds[port.name].name, port.shape)
            elif port.name == PASSING and comes:
                weights[port.name] = recording.input(PASSED, port.shape)
        link = replace(self.robot.links[i], parent=-1)
        derivative = Derivative(body, Robot("joint", (link,)))
        targets = [port.name for port in body.inputs if port.name in after or port.name == PASSED]
        products = derivative.reverse(recording.replay(body, inputs), weights, targets)
        outputs = {}
        for name, product in products.items():
            if name == PASSED:
                outputs[PASSING] = product
                continue
            so_far = before.get(name)
            outputs[after[name].name] = (
                product if so_far is None else product + recording.input(so_far.name, product.shape)
            )
        return _without_unused(recording.graph(outputs))


def _without_unused(graph: Graph) -> Graph:
    """The graph without the inputs of which it uses no entry."""
    outputs = set(graph.output_nodes)
    ports = [p for p in graph.inputs if any(graph.users[i] or i in outputs for i in p.nodes)]
    gone = {i for port in graph.inputs if port not in ports for i in port.nodes}
    if not gone:
        return graph
    return graph.numbered(i for i in range(len(graph)) if i not in gone).check()
