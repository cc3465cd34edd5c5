"""Print a schedule: when each pass works, the longest chain of operations, and the units in use by slot."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dynagate.base.untrusted import plain_text
from dynagate.hw.plan.plan import Plan

BAR = 60
"""Width of the text chart's time axis, in characters."""
KINDS = {
    "mul": "product",
    "mul_const": "product",
    "add": "sum",
    "sub": "sum",
    "add_const": "sum",
    "neg": "sum",
    "reciprocal": "reciprocal",
    "sin": "sine, cosine",
    "cos": "sine, cosine",
    "exp": "exponential",
    "input": "input",
}
"""Name of an operation in a printed chain; operations that are not listed keep their own name."""
COLUMNS = ("start", "ready", "wait", "kind", "node")
"""Headings of the table of a chain."""


@dataclass(frozen=True)
class Span:
    """A pass of the algorithm in the schedule."""

    name: str
    first: int
    """Cycle in which its first operation starts."""
    last: int
    """Cycle from which its last result can be read."""
    starts: tuple[int, ...]
    """Start cycles of its operations, sorted."""


@dataclass(frozen=True)
class ChainLink:
    """An operation of a chain."""

    node: int
    """Index of its node in the graph."""
    name: str
    scope: str
    kind: str
    start: int
    ready: int
    wait: int
    """Cycles from the readiness of its operand to its start."""


@dataclass(frozen=True)
class OperationChain:
    """Operations each of which reads the result of the one before."""

    title: str
    """Description of the chain, for a heading."""
    links: tuple[ChainLink, ...]

    def cycles(self, kind: str) -> int:
        """Return the cycles that operations of a kind take together."""
        return sum(link.ready - link.start for link in self.links if link.kind == kind)

    @property
    def waiting(self) -> int:
        """Return the cycles in which no operation of the chain works."""
        return sum(link.wait for link in self.links)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of its operations, each once."""
        return tuple(dict.fromkeys(link.kind for link in self.links))


def pass_spans(plan: Plan) -> list[Span]:
    """Return the passes in the order in which they begin. Passes without operations are left out."""
    graph = plan.formatted.graph
    nodes: dict[str, list[int]] = {}
    for i in plan.position:
        if graph.nodes[i].op != "input":
            nodes.setdefault(graph.scope_paths[i][0], []).append(i)
    rows = [
        Span(
            name,
            min(map(plan.start, each)),
            max(map(plan.ready, each)),
            tuple(sorted(map(plan.start, each))),
        )
        for name, each in nodes.items()
    ]
    return sorted(rows, key=lambda span: (span.first, span.last))


def chain(plan: Plan) -> OperationChain:
    """Return the chain with the most reciprocals, which belong to pivots of M that wait for each other.

    A graph without reciprocals has the chain to its last output instead.
    """
    graph = plan.formatted.graph
    reciprocals: dict[int, int] = {}
    for i in plan.position:
        below = (reciprocals[plan.root[a]] for a in graph.nodes[i].args if plan.root[a] in plan.position)
        reciprocals[i] = max(below, default=0) + (graph.nodes[i].op == "reciprocal")
    pivots = [i for i in plan.position if graph.nodes[i].op == "reciprocal"]
    ends = pivots or [plan.root[i] for i in graph.output_nodes if plan.root[i] in plan.position]
    title = "the pivots' chain" if pivots else "the chain to the last output"

    def rank(i: int) -> tuple[int, int]:
        return reciprocals[i], plan.ready(i)

    path: list[int] = []
    following = ends
    while following:
        path.append(max(following, key=rank))
        operands = graph.nodes[path[-1]].args
        following = [plan.root[a] for a in operands if plan.root[a] in plan.position]
    return OperationChain(title, tuple(_links(plan, path[::-1])))


def _links(plan: Plan, path: list[int]) -> list[ChainLink]:
    graph = plan.formatted.graph
    links: list[ChainLink] = []
    for i in path:
        node, start = graph.nodes[i], plan.start(i)
        wait = start - links[-1].ready if links else start
        links.append(
            ChainLink(i, node.name, graph.scope_paths[i][0], KINDS.get(node.op, node.op), start, plan.ready(i), wait)
        )
    return links


def units_in_use(plan: Plan) -> dict[str, tuple[int, list[int]]]:
    """Return, for each class, the number of units and how many start an operation in each slot of the interval."""
    used: Counter[tuple[str, int]] = Counter()
    for i, position in plan.position.items():
        resource = plan.schedule.problem.operations[position].resource
        if resource is not None:
            used[resource, plan.start(i) % plan.ii] += 1
    limits = plan.schedule.problem.limits
    return {name: (limits[name], [used[name, slot] for slot in range(plan.ii)]) for name in sorted(limits)}


def text(robot: str, plan: Plan) -> str:
    """Return the schedule for a terminal: passes, the longest chain cycle by cycle, and units in use by slot."""
    title = f"{plain_text(robot)} {plan.formatted.graph.name}: a sample every {plan.ii} cycles, latency {plan.latency}"
    return "\n\n".join([title, pass_lines(plan), _chain_lines(chain(plan)), _unit_lines(plan)])


def pass_lines(plan: Plan) -> str:
    """Return a line per pass: a bar, its first and last cycle, and its number of operations."""
    rows, length = pass_spans(plan), max(plan.latency, 1)
    width = max((len(span.name) for span in rows), default=0)
    lines = []
    for span in rows:
        begin = min(span.first * BAR // length, BAR - 1)
        bar = " " * begin + "█" * max((span.last - span.first) * BAR // length, 1)
        lines.append(
            f"{span.name:<{width}} |{bar:<{BAR}}| {span.first:>4} to {span.last:<4} {len(span.starts)} operations"
        )
    return "\n".join(lines)


def _chain_lines(longest: OperationChain) -> str:
    width = max((len(link.kind) for link in longest.links), default=0)
    start, ready, wait, kind, node = COLUMNS
    lines = [longest.title, f"  {start:>5} {ready:>5} {wait:>4}  {kind:<{width}}  {node}"]
    lines += [
        f"  {link.start:>5} {link.ready:>5} {link.wait:>4}  {link.kind:<{width}}  {link.name}" for link in longest.links
    ]
    parts = [f"{kind} {longest.cycles(kind)}" for kind in longest.kinds if longest.cycles(kind)]
    return "\n".join([*lines, f"  cycles: {', '.join([*parts, f'waiting {longest.waiting}'])}"])


def _unit_lines(plan: Plan) -> str:
    rows = units_in_use(plan)
    width = max(map(len, rows), default=0)
    lines = ["units that start an operation, by slot of the interval"]
    for name, (count, used) in rows.items():
        share = sum(used) / (count * plan.ii)
        lines.append(f"  {name:<{width}}  {count:>3} units, {share:>4.0%} in use: {' '.join(map(str, used))}")
    return "\n".join(lines)
