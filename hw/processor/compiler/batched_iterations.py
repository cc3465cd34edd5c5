"""Several iterations of a loop as one: while the loops in an iteration wait for their own results, those of other
iterations run.

Iteration after iteration stays the definition. Each iteration has its values under names of its own, what it carries
goes to the next one, and a loop in the body becomes one loop of all these iterations (unroll and jam: Allen & Kennedy,
"Optimizing Compilers for Modern Architectures", 2001, ch. 8). So the integers are those of one iteration at a time.
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
    """How many iterations as one are worth a try: for each power of two up to MOST_ITERATIONS the largest number up to
    it that divides them."""
    powers = (1 << k for k in range(MOST_ITERATIONS.bit_length()))
    return sorted({max(n for n in range(1, power + 1) if iterations % n == 0) for power in powers})


def batched_iterations(whole: FormattedLoop, name: str, count: int) -> FormattedLoop:
    """The loop with this many iterations of the loop of this name in it, whose iterations they divide, as one.

    Raises GraphError: an iteration begins with what the one before computes in a loop or after one.
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
    """A loop with other steps. starts: of all loops in it too. changes: of the loop."""
    own = tuple(BATCHED_TURNS[step.kind].with_starts(step, starts) for step in steps)
    return FormattedLoop(replace(loop, steps=tuple(step.step for step in own), **changes), own, starts)


class _Together:
    """names: of each iteration, what values of the loop are called in it; others keep their names."""

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
        steps: list[Formatted] = []
        for place, step in enumerate(self.whole.steps):
            steps += BATCHED_TURNS[step.kind].iterations(self, step, place)
        loop, iterations = self.whole.loop, self.whole.loop.most_turns
        assert isinstance(loop.stop, Count), loop.name
        assert iterations % self.count == 0, (iterations, self.count)
        return _of(loop, steps, self.starts, stop=Count(iterations // self.count))

    def graph(self, step: FormattedGraph, place: int) -> list[Formatted]:
        """A graph of the body: one graph for each iteration."""
        return [_named(step, own, own, k) for k, own in enumerate(self.names)]

    def inner_loop(self, step: FormattedLoop, place: int) -> list[Formatted]:
        """A loop of the body: what it begins with in each iteration, and one loop of all iterations."""
        return [*self.begin(step), self.inner(step, place)]

    def begin(self, step: FormattedLoop) -> list[Formatted]:
        """Add the values that a loop in the body carries, under their names in each iteration."""
        steps: list[Formatted] = []
        for k, own in enumerate(self.names):
            for name in step.loop.carry.values():
                if name in self.starts:
                    self.starts[_of_iteration(name, k)] = self.starts[name]
                else:
                    steps.append(_copied(*step.ports[name], own.get(name, name), _of_iteration(name, k)))
        return steps

    def inner(self, step: FormattedLoop, place: int) -> FormattedLoop:
        """A loop in the body, of all iterations."""
        loop, around = step.loop, self.whole.loop
        later = {port.name for each in around.steps[place + 1 :] for port in each.inputs}
        later |= {value for value, name in around.carry.items() if name in later}
        results, steps = {*loop.kept, *loop.last}, list[Formatted]()
        carry, per_turn, kept, last = dict[str, str](), list[str](), list[str](), list[str]()
        outputs: set[str] = set()
        for k, outside in enumerate(self.names):
            own = {port.name: _of_iteration(port.name, k) for each in loop.steps for port in each.outputs}
            own |= {name: outside[name] for name in results}
            taken = {**outside, **own, **{name: _of_iteration(name, k) for name in loop.carry.values()}}
            for each in step.steps:
                assert each.as_graph is not None, f"a loop in {loop.name}"
                steps.append(_named(each.as_graph, taken, own, k))
            carry |= {own[value]: taken[name] for value, name in loop.carry.items()}
            per_turn += [name for name in (outside.get(name, name) for name in loop.per_turn) if name not in outputs]
            needed = results if k + 1 == self.count else results & later
            kept += [own[name] for name in loop.kept if name in needed]
            last += [own[name] for name in loop.last if name in needed]
            outputs |= set(own.values())
        names = {"per_turn": tuple(dict.fromkeys(per_turn)), "kept": tuple(kept), "last": tuple(last)}
        return _of(loop, steps, self.starts, carry=carry, **names)


def _of_iteration(name: str, k: int) -> str:
    return f"{name}@{k}"


def _named(step: FormattedGraph, inputs: Mapping[str, str], outputs: Mapping[str, str], k: int) -> FormattedGraph:
    """A graph of iteration k, with other names of ports."""
    nodes = tuple(moved(step.graph, 0, k))
    return replace(step, graph=replace(step.graph, nodes=nodes).named(inputs, outputs))


def _copied(port: Port, like: FormattedGraph, name: str, to: str) -> FormattedGraph:
    """A value by another name. port: of a graph that takes it."""
    known = {node: k for k, node in enumerate(dict.fromkeys(port.nodes))}
    nodes = tuple(Node("input", (), None, f"{to}.{k}") for k in known.values())
    there = replace(port, nodes=tuple(known[node] for node in port.nodes))
    graph = Graph("copy", like.graph.robot, nodes, (replace(there, name=name),), (Port(to, port.shape, there.nodes),))
    bounds = {k: like.bounds[node] for node, k in known.items()}
    return FormattedGraph(graph, tuple(like.formats[node] for node in known), {}, bounds, like.arithmetic)


class _Row(NamedTuple):
    """How to run several iterations of a kind of step as one.

    batched(step, name, count): the step with iterations of the loop of this name as one. starts(step): the initial
    values of carried inputs. with_starts(step, starts): the step with other initial values. iterations(together, step,
    place): the steps of all iterations.
    """

    batched: Callable[[Any, str, int], Formatted]
    starts: Callable[[Any], Mapping[str, float]]
    with_starts: Callable[[Any, Mapping[str, float]], Formatted]
    iterations: Callable[[_Together, Any, int], list[Formatted]]


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
"""How to run several iterations of a step as one, by kind of step."""
