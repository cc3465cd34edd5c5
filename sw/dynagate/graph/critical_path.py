"""Shorten the longest path of a graph: in sums, add the terms that are ready early first and the latest term last.

`passes.balance_sums` orders the terms of a sum but keeps every partial sum that has another reader. On a datapath the
longest path matters more than a few adders: a + (b + x), where x is ready late and b + x has other readers, becomes (a
+ b) + x.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from dynagate.graph.builder import GraphBuilder, numbering, unique
from dynagate.graph.graph import Graph, Node, reaching
from dynagate.graph.ops import OPS, SUMS

MOST_ROUNDS = 200
"""Largest number of rounds. A round rewrites the sums on the longest paths; other paths may be the longest
afterwards.
"""

MOST_TERMS = 16
"""Largest number of terms of a sum that is split."""


class _Term(NamedTuple):
    node: int
    sign: int


def late_terms_last(graph: Graph) -> Graph:
    """Return the same function with a shorter longest path and more additions.

    Return the graph itself if no path can be shortened.
    """
    while (shorter := _shorter(graph)) is not graph:
        graph = shorter
    return graph


def _shorter(graph: Graph) -> Graph:
    """Return the graph after up to MOST_ROUNDS rounds if its longest path is shorter, else the graph itself."""
    editor = _Editor(graph)
    best, nodes, place = editor.length(), list(editor.nodes), list(editor.place)
    for _ in range(MOST_ROUNDS):
        if not editor.round():
            break
        if (length := editor.length()) < best:
            best, nodes, place = length, list(editor.nodes), list(editor.place)
    return graph if len(nodes) == len(graph.nodes) else _renumbered(graph, nodes, place)


class _Editor(GraphBuilder):
    """A graph whose sums are rewritten. `place` maps a node of the original graph to the node that computes
    it now.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.nodes, lambda node: node.op in (*SUMS, "neg"))
        self.graph = graph
        self.place = list(range(len(graph.nodes)))
        self.ready: list[int] = []

    def length(self) -> int:
        self._follow()
        return max((self.ready[self.place[i]] for i in self.graph.output_nodes), default=0)

    def _follow(self) -> None:
        for node in self.nodes[len(self.ready) :]:
            self.ready.append(OPS[node.op].cycles + max((self.ready[a] for a in node.args), default=0))

    def round(self) -> int:
        """Rewrite the sums on the longest paths, operands first, and return how many were rewritten."""
        critical = self._critical()
        changed = 0
        moved: dict[int, int] = {}
        for i in self._order():
            node = self.nodes[i]
            args = tuple(moved.get(a, a) for a in node.args)
            new = i
            if args != node.args:
                new = self._node(node.op, args, node.constant, node.name)
            if i in critical and (shorter := self._shorter(new)) is not None:
                new = shorter
                changed += 1
            if new != i:
                moved[i] = new
        self.place = [moved.get(i, i) for i in self.place]
        return changed

    def _order(self) -> list[int]:
        """Return the nodes that the outputs need, operands first."""
        live = reaching(self.nodes, (self.place[i] for i in self.graph.output_nodes))
        return [i for i, is_live in enumerate(live) if is_live]

    def _critical(self) -> set[int]:
        """Return the nodes on the longest paths."""
        length = self.length()
        late = [i for i in {self.place[i] for i in self.graph.output_nodes} if self.ready[i] == length]
        critical = set()
        while late:
            i = late.pop()
            if i in critical:
                continue
            critical.add(i)
            args = self.nodes[i].args
            last = max((self.ready[a] for a in args), default=0)
            late += [a for a in args if self.ready[a] == last]
        return critical

    def _terms(self, i: int) -> tuple[list[_Term], float]:
        node = self.nodes[i]
        match node.op:
            case "add":
                return [_Term(node.args[0], 1), _Term(node.args[1], 1)], 0.0
            case "sub":
                return [_Term(node.args[0], 1), _Term(node.args[1], -1)], 0.0
            case "neg":
                return [_Term(node.args[0], -1)], 0.0
        return [_Term(node.args[0], 1)], float(node.constant or 0.0)

    def _is_sum(self, i: int) -> bool:
        return self.nodes[i].op in SUMS or self.nodes[i].op == "neg"

    def _shorter(self, i: int) -> int | None:
        """Add a node with the value of sum i that is ready earlier, by splitting the sums among its late
        operands.
        """
        self._follow()
        if not self._is_sum(i):
            return None
        terms, constant = self._terms(i)
        best, chosen, chosen_constant = self.ready[i], terms, constant
        while len(terms) < MOST_TERMS:
            sums = [term for term in terms if self._is_sum(term.node)]
            if not sums:
                break
            late = max(sums, key=lambda term: self.ready[term.node])
            inner, more = self._terms(late.node)
            terms = [*(t for t in terms if t is not late), *(_Term(x.node, late.sign * x.sign) for x in inner)]
            constant += late.sign * more
            if (ready := self._least(terms, constant)) < best:
                best, chosen, chosen_constant = ready, terms, constant
        return None if best == self.ready[i] else self._sum(chosen, chosen_constant, self.nodes[i].name)

    def _least(self, terms: Sequence[_Term], constant: float) -> int:
        """Return the earliest cycle in which a sum of these terms can be ready."""
        ready = sorted(self.ready[term.node] for term in terms)
        ready[0] += (constant != 0.0) + all(term.sign < 0 for term in terms)
        heapq.heapify(ready)
        while len(ready) > 1:
            ready_first, ready_second = heapq.heappop(ready), heapq.heappop(ready)
            heapq.heappush(ready, max(ready_first, ready_second) + 1)
        return ready[0]

    def _sum(self, terms: Sequence[_Term], constant: float, name: str) -> int:
        """Add the signed sum of terms, the earliest terms first, together with the constant."""
        first, *rest = sorted(terms, key=lambda term: self.ready[term.node])
        if constant:
            first = _Term(self._node("add_const", (first.node,), first.sign * constant, f"{name}.early"), first.sign)
        if all(term.sign < 0 for term in terms):
            first = _Term(self._node("neg", (first.node,), None, f"{name}.early"), 1)
        self._follow()
        queue = [(self.ready[term.node], k, term) for k, term in enumerate([first, *rest])]
        heapq.heapify(queue)
        while len(queue) > 1:
            (_, k, x), (_, _, y) = heapq.heappop(queue), heapq.heappop(queue)
            joined = self._joined(x, y, f"{name}.early" if queue else name)
            self._follow()
            heapq.heappush(queue, (self.ready[joined.node], k, joined))
        return queue[0][2].node

    def _joined(self, x: _Term, y: _Term, name: str) -> _Term:
        if x.sign == y.sign:
            return _Term(self._node("add", (x.node, y.node), None, name), x.sign)
        if x.sign < y.sign:
            x, y = y, x
        return _Term(self._node("sub", (x.node, y.node), None, name), 1)

    def _node(self, op: str, args: tuple[int, ...], constant: float | None, name: str) -> int:
        return self.shared(Node(op, args, constant, name))


def _renumbered(graph: Graph, nodes: Sequence[Node], place: Sequence[int]) -> Graph:
    order = numbering(nodes, graph.input_nodes, [place[i] for i in graph.output_nodes])
    inputs, outputs = (
        tuple(replace(port, nodes=tuple(place[i] for i in port.nodes)) for port in side)
        for side in (graph.inputs, graph.outputs)
    )
    whole = replace(graph, nodes=tuple(nodes), inputs=inputs, outputs=outputs).numbered(order)
    taken: dict[str, int] = {}
    named = tuple(replace(node, name=unique(node.name, taken)) for node in whole.nodes)
    return replace(whole, nodes=named).check()
