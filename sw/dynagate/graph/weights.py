"""Vector-Jacobian products of programs: the program, followed by a reverse sweep.

Each kind of step has a row in `VJP`: the step in the form that the sweep needs, and the steps of the sweep. A loop also
keeps the values that its iterations carry; its sweep is a loop in the other direction, which recomputes an iteration
and then differentiates it. A scan keeps the values that it passes on, and its sweep is a scan in the other direction. A
loop with a tolerance has no sweep: its result solves equations, which `integrators.adjoint` differentiates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.dynamics.spatial import is_zero
from dynagate.graph.derivatives import Derivative
from dynagate.graph.graph import Graph, Port
from dynagate.graph.loop import Count, Loop
from dynagate.graph.recorder import Recording
from dynagate.graph.scan import Scan
from dynagate.graph.scan_derivatives import ScanBack, ScanDirections, kept
from dynagate.graph.scopes import resolved
from dynagate.graph.steps import GRAPH, LOOP, SCAN, UNTIL, Step, refused, table
from dynagate.robot import Robot

Weights = dict[str, str]
"""Value of a scope -> the value that holds its weight so far."""
Swept = tuple[Step, list[Step]]
"""A step in the form that its sweep needs, and the steps of the sweep."""


def weight_of(name: str) -> str:
    """Return the name of the weight of a value. The prefix is reserved, so no other value has this name."""
    return f"weight.{name}"


def vjp(program: Loop, inputs: Sequence[str], outputs: Sequence[str], robot: Robot | None = None) -> Loop:
    """Return the program that computes Σ weight · ∂output/∂input, too.

    Args:
        program: A loop with a number of iterations, of graphs, scans and such loops. Only scans may take quaternions.
        inputs: Names of the inputs with products. Those of a configuration with quaternions are along velocities.
        outputs: Names of the outputs with weights. The new program takes `weight_of` each, in the output's shape.
        robot: The robot over whose links the scans run; None for a program without scans.

    Returns:
        A program of one iteration, with the outputs of the old one and `weight_of` each of these inputs. Values of
        every iteration have the shape (iterations, *shape) in it.

    Raises:
        ArgumentError: There is no such input or output, or a step has no sweep back.
    """
    reads, writes = ({port.name: port for port in side} for side in (program.reads, program.writes))
    for what, names, known in (("input", inputs, reads), ("output", outputs, writes)):
        for name in names:
            if name not in known:
                raise ArgumentError(
                    f"{program.name} has no {what} '{name}'; expected some of {', '.join(known)}", code="DG-REGION-015"
                )
    if program.stop == Count(None):
        raise ArgumentError(
            f"{program.name} has as many iterations as its inputs; expected a number of iterations",
            code="DG-REGION-016",
        )
    now, seeds = resolved(program).loop, {name: weight_of(name) for name in outputs}
    back, weights = _Back(program.robot, robot, _moving(now, set(inputs))), dict(seeds)
    forward, steps = back.scope(now, weights) if _is_scope(now) else back.one(now, weights)
    named = {weights[name]: weight_of(name) for name in inputs if weights.get(name, "") not in ("", *seeds.values())}
    steps = [step.renamed(named) for step in steps]
    read = {port.name for step in steps for port in step.reads}
    others = [name for name in inputs if weights.get(name) not in named]
    if others or not read.issuperset(seeds.values()):
        steps.append(_products(program, others, weights, seeds))
    last = (*writes, *map(weight_of, inputs))
    return Loop(f"{program.name}_vjp", program.robot, (*forward, *steps), {}, Count(1), last=last)


def _products(program: Loop, inputs: Sequence[str], weights: Weights, seeds: Weights) -> Graph:
    """Return the graph of products that no step of the sweep computes. It takes the weights of all outputs."""
    recording = Recording("products", program.robot)
    reads, writes = ({port.name: port for port in side} for side in (program.reads, program.writes))
    taken = {weight: recording.input(weight, writes[name].shape) for name, weight in seeds.items()}
    products = {weight_of(name): taken.get(weights.get(name, ""), _zeros(reads[name].shape)) for name in inputs}
    return recording.graph(products or {"unused": _zeros(())})


def _zeros(shape: tuple[int, ...]) -> Any:
    return np.zeros(shape).astype(object)


def _is_scope(loop: Loop) -> bool:
    """Return whether a loop computes its steps once, and each value of them has one meaning."""
    return loop.stop == Count(1) and not (loop.carry or loop.per_iteration or loop.kept)


def _moving(loop: Loop, names: set[str]) -> set[str]:
    """Return the values of a program with unique names that may depend on values of these names."""
    moving = set(names)
    while True:
        before = len(moving)
        for step in loop.steps:
            inner = next(step.loops(), None)
            if inner is not None:
                moving = _moving(inner, moving)
            elif any(port.name in moving for port in step.inputs):
                moving |= {port.name for port in step.outputs}
        moving |= {name for value, name in loop.carry.items() if value in moving}
        if len(moving) == before:
            return moving


class _Back:
    """The reverse sweep through a program with unique names.

    Args:
        robot: Name of the robot.
        model: The robot over whose links scans run.
        moving: Values that depend on the inputs.
    """

    def __init__(self, robot: str, model: Robot | None, moving: set[str]) -> None:
        self.robot, self.model, self.moving, self._count = robot, model, moving, 0

    def scope(self, loop: Loop, weights: Weights) -> tuple[list[Step], list[Step]]:
        """Return steps as their sweeps need them, and the steps of the sweeps."""
        forward: list[Step] = []
        steps: list[Step] = []
        for step in reversed(loop.steps):
            kept, sweep = VJP[step.kind](self, step, weights)
            forward, steps = [kept, *forward], [*steps, *sweep]
        return forward, steps

    def one(self, loop: Loop, weights: Weights) -> tuple[list[Step], list[Step]]:
        """Return a loop of one iteration in the form that its sweep needs, and the steps of the sweep, in the scope
        around it.
        """
        forward, steps = VJP[loop.kind](self, loop, weights)
        return [forward], steps

    def new(self, name: str, scope: str = "weight") -> str:
        """Return a name that no other value has."""
        self._count += 1
        return f"{scope}.{name}.{self._count}"

    def sum(self, name: str, like: Port, terms: Sequence[str], reads: str) -> list[Step]:
        """Return a graph that computes a sum of values under a name, or zeros without terms.

        Args:
            name: Name of the sum.
            like: A port with the shape of the values.
            terms: Names of the values.
            reads: A value that the graph of zeros reads, from which it takes the batch size.
        """
        recording = Recording("sum", self.robot)
        values = [recording.input(term, like.shape) for term in terms]
        if not values:
            recording.input(reads, like.shape)
        total = sum(values[1:], values[0]) if values else np.zeros(like.shape).astype(object)
        return [recording.graph({name: total})]

    def graph(self, graph: Graph, weights: Weights) -> Swept:
        """Return the graph, and the graph of its sweep, which computes the weights of its inputs.

        `weights` is updated: the outputs of the graph are removed, and each input gets the name of its new weight.
        """
        seeds = {port.name: weights.pop(port.name) for port in graph.outputs if port.name in weights}
        if not seeds:
            return graph, []
        moving = [port for port in graph.inputs if port.name in self.moving]
        recording, derivative = Recording(f"{graph.name}_vjp", graph.robot), Derivative(graph)
        values = recording.replay(graph, {port.name: recording.input_like(port) for port in graph.inputs})
        ports = {port.name: port for port in graph.outputs}
        own = {name: recording.input(weight, ports[name].shape) for name, weight in seeds.items()}
        products = derivative.reverse(values, own, [port.name for port in moving])
        sums: dict[str, Any] = {}
        for port in moving:
            if all(map(is_zero, products[port.name].flat)):
                continue
            total = np.zeros(len(port.nodes)).astype(object)
            first = [
                port.nodes.index(node) for node in dict.fromkeys(port.nodes)
            ]  # once for each pair of mirror images
            total[first] = products[port.name].reshape(-1)
            if port.name in weights:
                total = total + recording.input(weights[port.name], port.shape).reshape(-1)
            weights[port.name] = self.new(port.name)
            sums[weights[port.name]] = total.reshape(port.shape)
        return graph, [recording.graph(sums)] if sums else []

    def scan(self, scan: Scan, weights: Weights) -> Swept:
        """Return the reverse sweep of a scan."""
        if self.model is None:
            raise ArgumentError(
                f"scan '{scan.name}' in a sweep back without robot=; expected that of its links", code="DG-REGION-017"
            )
        robot = self.model
        seeds = {
            port.name: ScanDirections.of(scan, port, weights.pop(port.name), robot)
            for port in scan.outputs
            if port.name in weights
        }
        targets = [port for port in scan.inputs if port.name in self.moving]
        if not seeds or not targets:
            return scan, []
        before = {p.name: ScanDirections.of(scan, p, weights[p.name], robot) for p in targets if p.name in weights}
        after = {port.name: ScanDirections.of(scan, port, self.new(port.name), robot) for port in targets}
        weights |= {name: own.name for name, own in after.items()}
        forward, came = kept(scan, self.new(scan.name, "came"))
        return forward, [ScanBack(forward, robot, came, seeds, before, after).scan()]

    def loop(self, loop: Loop, weights: Weights) -> Swept:
        """Return the reverse sweep of a loop."""
        seeds = {name: weights.pop(name) for name in (*loop.kept, *loop.last) if name in weights}
        if not seeds:
            return loop, []
        if loop.every > 1:
            raise ArgumentError(
                f"loop '{loop.name}' keeps values every {loop.every} iterations; expected every iteration",
                code="DG-REGION-018",
            )
        return _LoopBack(self, loop, seeds, weights).swept()


class _LoopBack:
    """The reverse sweep through a loop.

    Attributes:
        seeds: Weights of its outputs.
        weights: Weights of values around it so far.
        came: Carried input -> the value that it had in each iteration.
        after: Carried input -> its weight in the following iteration.
    """

    def __init__(self, back: _Back, loop: Loop, seeds: Weights, weights: Weights) -> None:
        self.back, self.loop, self.seeds, self.weights = back, loop, seeds, weights
        self.ports = {port.name: port for port in loop.inputs}
        self.came = {name: back.new(name, "came") for name in loop.carry.values()}
        back.moving |= {new for name, new in self.came.items() if name in back.moving}
        self.after = {name: back.new(name) for name in loop.carry.values()}
        self.constants = [name for name in self.ports if name not in self.came and name not in loop.per_iteration]
        self.totals = {name: weights.get(name) or back.new(name) for name in self.constants}

    def swept(self) -> Swept:
        """Return the loop that keeps its carried values, and the steps of its reverse sweep."""
        loop, back, came = self.loop, self.back, self.came
        copies = [step for name, new in came.items() for step in back.sum(new, self.ports[name], [name], name)]
        forward = replace(loop, steps=(*loop.steps, *copies), kept=(*loop.kept, *came.values()))
        own, steps = self._begin()
        again: list[Step] = []
        for step in reversed(loop.steps):
            once_more, sweep = VJP[step.kind](back, step.renamed(came), own)
            again, steps = [once_more, *again], [*steps, *sweep]
        carry = self._carried(own, steps)
        reads = {port.name for port in Loop("body", loop.robot, (*again, *steps), {}, Count(1)).inputs}
        carry = {value: name for value, name in carry.items() if name in reads}
        per_iteration = (
            *came.values(),
            *loop.per_iteration,
            *(self.seeds[name] for name in loop.kept if name in self.seeds),
        )
        kept = {name: own[name] for name in loop.per_iteration if name in own}
        last = {name: own[new] for name, new in came.items() if new in own}
        last |= {name: own[name] for name in self.constants if own[name] != self.totals[name]}
        sweep_back = replace(
            loop,
            name=f"{loop.name}_back",
            steps=(*again, *steps),
            carry=carry,
            per_iteration=tuple(name for name in per_iteration if name in reads),
            kept=tuple(kept.values()),
            last=tuple(last.values()),
            backwards=not loop.backwards,
        )
        around = self._zeros_around(set(carry.values()))
        return forward, [*around, sweep_back, *self._given_back(kept, last)]

    def _begin(self) -> tuple[Weights, list[Step]]:
        """Return the weights of an iteration's values before its sweep, and the steps that add them up."""
        loop, back, came = self.loop, self.back, self.came
        terms: dict[str, list[str]] = {}
        for value, name in loop.carry.items():
            terms.setdefault(came.get(value, value), []).append(self.after[name])
        for value, weight in self.seeds.items():
            terms.setdefault(came.get(value, value), []).append(weight)
        own, steps = dict(self.totals), list[Step]()
        for value, names in terms.items():
            names = [*names, *([own[value]] if value in own else [])]
            own[value] = names[0]
            if len(names) > 1:
                own[value] = back.new(value)
                steps += back.sum(own[value], self._port(value), names, value)
        return own, steps

    def _port(self, value: str) -> Port:
        original = {new: name for name, new in self.came.items()}
        return self.loop.values[original.get(value, value)]

    def _carried(self, own: Weights, steps: list[Step]) -> dict[str, str]:
        """Return the values that the previous iteration receives, and add the steps that compute them."""
        loop, back = self.loop, self.back
        pairs = [(own.get(new), self.after[name], self.ports[name], new) for name, new in self.came.items()]
        ends = [name for name in loop.last if name in self.seeds]
        pairs += [(None, self.seeds[name], loop.values[name], self.came.get(name, name)) for name in ends]
        carry: dict[str, str] = {}
        for value, target, port, read in pairs:
            new = back.new(port.name)
            steps += back.sum(new, port, [value] if value else [], read)
            carry[new] = target
        return carry | {own[name]: total for name, total in self.totals.items() if own[name] != total}

    def _zeros_around(self, carried: set[str]) -> list[Step]:
        """Return the steps that create the zero weights with which the sweep begins."""
        begun = [(name, self.after[name]) for name in self.came]
        begun += [(name, self.totals[name]) for name in self.constants if name not in self.weights]
        zeros = [self.back.sum(total, self.ports[name], [], name) for name, total in begun if total in carried]
        return [step for steps in zeros for step in steps]

    def _given_back(self, kept: Weights, last: Weights) -> Iterable[Step]:
        """Return the steps that add the sweep's results to the weights around it."""
        whole = {port.name: port for port in self.loop.reads}
        for name, weight in (kept | last).items():
            if name not in self.weights or name in self.constants:
                self.weights[name] = weight
                continue
            total = self.back.new(name)
            yield from self.back.sum(total, whole[name], [self.weights[name], weight], name)
            self.weights[name] = total


VJP: Mapping[str, Callable[[_Back, Any, Weights], Swept]] = table(
    "graph.weights.VJP",
    {
        GRAPH: _Back.graph,
        LOOP: _Back.loop,
        UNTIL: refused("a sweep back", "graphs, scans and counted loops"),
        SCAN: _Back.scan,
    },
)
"""For each kind of step, the function that builds its reverse sweep, from weights of outputs to weights of
inputs.
"""
