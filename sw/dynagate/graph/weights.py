"""Products of weights with a program's derivative: the program, then its sweep back.

Each kind of step has a row in `VJP`: the step as the sweep needs it, and the steps of the sweep. A loop also keeps what
its iterations carry. Its sweep is a loop the other way, which computes an iteration again and then goes back through
it. A loop until a value is small has no sweep: its result solves equations, which `integrators.adjoint` takes.
`graph.scan_derivatives` goes back through scans.
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
from dynagate.graph.scopes import resolved
from dynagate.graph.steps import GRAPH, LOOP, SCAN, UNTIL, Step, refused, table

Weights = dict[str, str]
"""Value of a scope -> the value that is its weight so far."""
Swept = tuple[Step, list[Step]]
"""A step as its sweep needs it, and the steps of the sweep."""


def weight_of(name: str) -> str:
    """Return the name of the weight of a value. No value has it: names of values do not begin with this scope."""
    return f"weight.{name}"


def vjp(program: Loop, inputs: Sequence[str], outputs: Sequence[str]) -> Loop:
    """Return the program that computes Σ weight · ∂output/∂input, too.

    Args:
        program: A loop with a number of iterations, of graphs and such loops, without quaternions.
        inputs: Names of the inputs with products.
        outputs: Names of the outputs with weights. The new program takes `weight_of` each, in the output's shape.

    Returns:
        A program of one iteration, with the outputs of the old one and `weight_of` each of these inputs. Values of
        every iteration have the shape (turns, *shape) in it.

    Raises:
        ArgumentError: There is no such input or output, or a step has no sweep back.
    """
    reads, writes = ({port.name: port for port in side} for side in (program.reads, program.writes))
    for what, names, known in (("input", inputs, reads), ("output", outputs, writes)):
        for name in names:
            if name not in known:
                raise ArgumentError(f"{program.name} has no {what} '{name}'; expected some of {', '.join(known)}")
    if program.stop == Count(None):
        raise ArgumentError(f"{program.name} has as many iterations as its inputs; expected a number of iterations")
    back, weights = _Back(program.robot), {name: weight_of(name) for name in outputs}
    forward, steps = VJP[program.kind](back, resolved(program).loop, weights)
    recording = Recording("products", program.robot)
    for name in outputs:  # of outputs that depend on no input, too
        recording.input(weight_of(name), writes[name].shape)
    products: dict[str, Any] = {}
    for name in inputs:
        shape = reads[name].shape
        none = np.zeros(shape).astype(object)
        products[weight_of(name)] = recording.input(weights[name], shape) if name in weights else none
    steps.append(recording.graph(products))
    last = (*writes, *map(weight_of, inputs))
    return Loop(f"{program.name}_vjp", program.robot, (forward, *steps), {}, Count(1), last=last)


class _Back:
    """The sweep back through a program with unique names."""

    def __init__(self, robot: str) -> None:
        self.robot, self._count = robot, 0

    def new(self, name: str, scope: str = "weight") -> str:
        """Return a name that no other value has."""
        self._count += 1
        return f"{scope}.{name}.{self._count}"

    def sum(self, name: str, like: Port, terms: Sequence[str], reads: str) -> list[Step]:
        """Return a graph that computes a sum of values of this shape by this name; without terms, zeros. reads: a value
        that the graph reads then, so that it has a batch."""
        recording = Recording("sum", self.robot)
        values = [recording.input(term, like.shape) for term in terms]
        if not values:
            recording.input(reads, like.shape)
        total = sum(values[1:], values[0]) if values else np.zeros(like.shape).astype(object)
        return [recording.graph({name: total})]

    def graph(self, graph: Graph, weights: Weights) -> Swept:
        seeds = {port.name: weights.pop(port.name) for port in graph.outputs if port.name in weights}
        if not seeds:
            return graph, []
        recording, derivative = Recording(f"{graph.name}_vjp", graph.robot), Derivative(graph)
        values = recording.replay(graph, {port.name: recording.input_like(port) for port in graph.inputs})
        ports = {port.name: port for port in graph.outputs}
        own = {name: recording.input(weight, ports[name].shape) for name, weight in seeds.items()}
        products = derivative.reverse(values, own)
        sums: dict[str, Any] = {}
        for port in graph.inputs:
            if all(map(is_zero, products[port.name].flat)):
                continue
            total = np.zeros(len(port.nodes)).astype(object)
            first = [port.nodes.index(node) for node in dict.fromkeys(port.nodes)]  # one of each mirror image
            total[first] = products[port.name].reshape(-1)
            if port.name in weights:
                total = total + recording.input(weights[port.name], port.shape).reshape(-1)
            weights[port.name] = self.new(port.name)
            sums[weights[port.name]] = total.reshape(port.shape)
        return graph, [recording.graph(sums)] if sums else []

    def loop(self, loop: Loop, weights: Weights) -> Swept:
        seeds = {name: weights.pop(name) for name in (*loop.kept, *loop.last) if name in weights}
        if not seeds:
            return loop, []
        if loop.every > 1:
            raise ArgumentError(f"loop '{loop.name}' keeps values every {loop.every} turns; expected every turn")
        return _LoopBack(self, loop, seeds, weights).swept()


class _LoopBack:
    """The sweep back through a loop. seeds: weights of its outputs. weights: of values around it, so far.

    came: carried input -> what it was in each iteration. after: carried input -> its weight in the iteration after.
    """

    def __init__(self, back: _Back, loop: Loop, seeds: Weights, weights: Weights) -> None:
        self.back, self.loop, self.seeds, self.weights = back, loop, seeds, weights
        self.ports = {port.name: port for port in loop.inputs}
        self.came = {name: back.new(name, "came") for name in loop.carry.values()}
        self.after = {name: back.new(name) for name in loop.carry.values()}
        self.constants = [name for name in self.ports if name not in self.came and name not in loop.per_turn]
        self.totals = {name: weights.get(name) or back.new(name) for name in self.constants}

    def swept(self) -> Swept:
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
        per_turn = (*came.values(), *loop.per_turn, *(self.seeds[name] for name in loop.kept if name in self.seeds))
        kept = {name: own[name] for name in loop.per_turn if name in own}
        last = {name: own[new] for name, new in came.items() if new in own}
        last |= {name: own[name] for name in self.constants if own[name] != self.totals[name]}
        sweep_back = replace(
            loop,
            name=f"{loop.name}_back",
            steps=(*again, *steps),
            carry=carry,
            per_turn=tuple(name for name in per_turn if name in reads),
            kept=tuple(kept.values()),
            last=tuple(last.values()),
            backwards=not loop.backwards,
        )
        around = self._zeros_around(set(carry.values()))
        return forward, [*around, sweep_back, *self._given_back(kept, last)]

    def _begin(self) -> tuple[Weights, list[Step]]:
        """The weights of an iteration's values before its sweep, and the steps that add them up."""
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
        """Weights of zero that the sweep begins with."""
        begun = [(name, self.after[name]) for name in self.came]
        begun += [(name, self.totals[name]) for name in self.constants if name not in self.weights]
        zeros = [self.back.sum(total, self.ports[name], [], name) for name, total in begun if total in carried]
        return [step for steps in zeros for step in steps]

    def _given_back(self, kept: Weights, last: Weights) -> Iterable[Step]:
        """Adds what the sweep computes to the weights around it."""
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
        UNTIL: refused("a sweep back", "graphs and counted loops"),
        SCAN: refused("a sweep back", "graphs and counted loops"),
    },
)
"""The sweep back through each kind of step. It moves the weights of outputs to the values that the step reads."""
