"""Batch iterations of a loop: while inner loops of one iteration wait for their results, those of others run.

The integers stay those of one iteration after the other. Each iteration has values under its own names, carried values
go to the next iteration, and a loop in the body becomes one loop for all batched iterations (unroll and jam: Allen &
Kennedy, "Optimizing Compilers for Modern Architectures", 2001, ch. 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from dynagate.fixedpoint.formatted import Formatted, FormattedGraph
from dynagate.fixedpoint.models.loops import FormattedLoop
from dynagate.graph.graph import Graph, Node, Port
from dynagate.graph.loop import Count, Loop
from dynagate.graph.steps import GRAPH, LOOP, SCAN, UNTIL, refused, table
from dynagate.hw.options import MOST_ITERATIONS
from dynagate.hw.processor.compiler.batched_samples import moved


def counts(iterations: int) -> list[int]:
    """Return the batch sizes that are worth a try.

    For each power of two up to MOST_ITERATIONS, this is the largest divisor of the number of iterations that is not
    larger.
    """
    powers = (1 << k for k in range(MOST_ITERATIONS.bit_length()))
    return sorted({max(n for n in range(1, power + 1) if iterations % n == 0) for power in powers})


def batched_iterations(whole: FormattedLoop, name: str, count: int) -> FormattedLoop:
    """Batch iterations of a loop.

    Args:
        whole: Loop that is, or contains, the loop to change.
        name: Name of the loop to change.
        count: Number of iterations in a batch; it divides the number of iterations.

    Raises:
        GraphError: An iteration begins with a value that the one before computes in, or after, an inner loop.
    """
    if count == 1:
        return whole
    if whole.loop.name == name:
        return _Together(whole, count).loop()
    rows = BATCHED_TURNS
    steps = [rows[step.kind].batched(step, name, count) for step in whole.steps]
    starts = {name: x for step in steps for name, x in rows[step.kind].starts(step).items()}
    return _of(whole.loop, steps, {**whole.starts, **starts})


def _of(loop: Loop, steps: Iterable[Formatted], starts: Mapping[str, float], **changes: Any) -> FormattedLoop:
    """Return a loop with other steps and other initial values of carried inputs."""
    own = tuple(BATCHED_TURNS[step.kind].with_starts(step, starts) for step in steps)
    return FormattedLoop(replace(loop, steps=tuple(step.step for step in own), **changes), own, starts)


class _Together:
    """Builds the body of a loop whose iterations are batched."""

    def __init__(self, whole: FormattedLoop, count: int) -> None:
        self.whole, self.count = whole, count
        self.starts = dict(whole.starts)
        outputs = [port.name for step in whole.loop.steps for port in step.outputs]
        self.names: list[dict[str, str]] = []
        for k in range(count):
            own = {name: name if k + 1 == count else _of_iteration(name, k) for name in outputs}
            before = {to: self.names[-1][value] for value, to in whole.loop.carry.items()} if k else {}
            self.names.append({**before, **own})

    def loop(self) -> FormattedLoop:
        """Return the loop with batched iterations."""
        steps: list[Formatted] = []
        for place, step in enumerate(self.whole.steps):
            steps += BATCHED_TURNS[step.kind].iterations(self, step, place)
        loop, iterations = self.whole.loop, self.whole.loop.max_iterations
        assert isinstance(loop.stop, Count), loop.name
        assert iterations % self.count == 0, (iterations, self.count)
        return _of(loop, steps, self.starts, stop=Count(iterations // self.count))

    def graph(self, step: FormattedGraph, place: int) -> list[Formatted]:
        """Return one graph for each iteration, for a graph in the body."""
        return [_named(step, own, own, k) for k, own in enumerate(self.names)]

    def inner_loop(self, step: FormattedLoop, place: int) -> list[Formatted]:
        """Return the initial values of each iteration, and one loop for all iterations, for a loop in the body."""
        return [*self.begin(step), self.inner(step, place)]

    def begin(self, step: FormattedLoop) -> list[Formatted]:
        """Copy the initial values of an inner loop's carried inputs, under their names in each iteration."""
        steps: list[Formatted] = []
        for k, own in enumerate(self.names):
            for name in step.loop.carry.values():
                if name in self.starts:
                    self.starts[_of_iteration(name, k)] = self.starts[name]
                else:
                    steps.append(_copied(*step.ports[name], own.get(name, name), _of_iteration(name, k)))
        return steps

    def inner(self, step: FormattedLoop, place: int) -> FormattedLoop:
        """Return one loop that runs the inner loops of all iterations."""
        loop, around = step.loop, self.whole.loop
        later = {port.name for each in around.steps[place + 1 :] for port in each.inputs}
        later |= {value for value, name in around.carry.items() if name in later}
        results, steps = {*loop.kept, *loop.last}, list[Formatted]()
        carry, per_iteration, kept, last = dict[str, str](), list[str](), list[str](), list[str]()
        outputs: set[str] = set()
        for k, outside in enumerate(self.names):
            own = {port.name: _of_iteration(port.name, k) for each in loop.steps for port in each.outputs}
            own |= {name: outside[name] for name in results}
            taken = {**outside, **own, **{name: _of_iteration(name, k) for name in loop.carry.values()}}
            for each in step.steps:
                assert each.as_graph is not None, f"a loop in {loop.name}"
                steps.append(_named(each.as_graph, taken, own, k))
            carry |= {own[value]: taken[name] for value, name in loop.carry.items()}
            per_iteration += [
                name for name in (outside.get(name, name) for name in loop.per_iteration) if name not in outputs
            ]
            needed = results if k + 1 == self.count else results & later
            kept += [own[name] for name in loop.kept if name in needed]
            last += [own[name] for name in loop.last if name in needed]
            outputs |= set(own.values())
        names = {"per_iteration": tuple(dict.fromkeys(per_iteration)), "kept": tuple(kept), "last": tuple(last)}
        return _of(loop, steps, self.starts, carry=carry, **names)


def _of_iteration(name: str, k: int) -> str:
    """Return the name of a value in iteration k of a batch."""
    return f"{name}@{k}"


def _named(step: FormattedGraph, inputs: Mapping[str, str], outputs: Mapping[str, str], k: int) -> FormattedGraph:
    """Return a graph for iteration k, with other names of its ports."""
    nodes = tuple(moved(step.graph, 0, k))
    return replace(step, graph=replace(step.graph, nodes=nodes).named(inputs, outputs))


def _copied(port: Port, like: FormattedGraph, name: str, to: str) -> FormattedGraph:
    """Return a graph that copies the value of a port to another name."""
    known = {node: k for k, node in enumerate(dict.fromkeys(port.nodes))}
    nodes = tuple(Node("input", (), None, f"{to}.{k}") for k in known.values())
    there = replace(port, nodes=tuple(known[node] for node in port.nodes))
    graph = Graph("copy", like.graph.robot, nodes, (replace(there, name=name),), (Port(to, port.shape, there.nodes),))
    bounds = {k: like.bounds[node] for node, k in known.items()}
    return FormattedGraph(graph, tuple(like.formats[node] for node in known), {}, bounds, like.arithmetic)


class _Row(NamedTuple):
    """How to batch iterations of one kind of step."""

    batched: Callable[[Any, str, int], Formatted]
    """Function (step, name, count): the step with batched iterations of the loop of this name."""
    starts: Callable[[Any], Mapping[str, float]]
    """Function (step): the initial values of carried inputs."""
    with_starts: Callable[[Any, Mapping[str, float]], Formatted]
    """Function (step, starts): the step with other initial values."""
    iterations: Callable[[_Together, Any, int], list[Formatted]]
    """Function (builder, step, index): the steps of all iterations in place of this step of the body."""


_SCAN = refused("a program", "graphs and loops")
_LOOP = _Row(
    batched_iterations,
    lambda step: step.starts,
    lambda step, starts: replace(step, starts=starts),
    _Together.inner_loop,
)
BATCHED_TURNS: Mapping[str, _Row] = table(
    "hw.processor.compiler.batched_iterations.BATCHED_TURNS",
    {
        GRAPH: _Row(lambda step, name, count: step, lambda step: {}, lambda step, starts: step, _Together.graph),
        LOOP: _LOOP,
        UNTIL: _LOOP,
        SCAN: _Row(_SCAN, _SCAN, _SCAN, _SCAN),
    },
)
"""How to batch iterations, by kind of step."""
