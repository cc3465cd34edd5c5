"""Graph -> the same graph, its sums as chains of fused multiply-adds.

One instruction adds a product to something else. Two sums of two products each, and the sum of both, take five: two of
the products have one of their own. In one chain three of the four come for nothing. But a chain has to be waited for,
term by term, so none gets longer than what comes after it allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from dynagate.graph import Graph
from dynagate.graph.graph import Node
from dynagate.graph.ops import PRODUCTS, SUMS
from dynagate.native.expressions import NATIVE

SUM_CYCLES = NATIVE["add"].cycles
MOST_CHAINS = 4
"""That one sum is cut into."""


class Term(NamedTuple):
    """cycle: in which it is known. node: its id, or -1 - k for the k-th of a sum's partial sums."""

    cycle: int
    node: int
    sign: int


class Partial(NamedTuple):
    """A sum of two terms, and the cycle in which it is known."""

    cycle: int
    terms: tuple[Term, Term]


class Placed(NamedTuple):
    """A node and its operands in the old graph's ids. order: after which node of the old order it is computed, then
    first come, first served."""

    order: tuple[int, int, int]
    old: int
    node: Node
    operands: Sequence[Term]


def fusable(graph: Graph) -> set[int]:
    """Products that nothing needs but sums."""
    outputs = set(graph.output_nodes)
    products = (*PRODUCTS, "shift")
    return {
        i
        for i, node in enumerate(graph.nodes)
        if node.op in products and i not in outputs and all(graph.nodes[u].op in SUMS for u in graph.users[i])
    }


def chained(graph: Graph) -> Graph:
    """The same graph; a sum and all sums that only it needs are one sum of many terms, each added soon after it is
    known, in as few instructions as come in time for what waits. As many nodes; results differ by rounding."""
    products, inner = fusable(graph), _inner(graph)
    latency = [_latency(node, i in products) for i, node in enumerate(graph.nodes)]
    rest = _rest(graph, latency)
    longest = max(map(sum, zip(latency, rest, strict=True)))
    placed: list[Placed] = []
    cycle = [0] * len(graph.nodes)  # in which each is known
    known = list(range(len(graph.nodes)))  # the node of the old order after which each can be computed
    for i, node in enumerate(graph.nodes):
        if i in inner:
            continue
        if node.op not in ("add", "sub"):
            cycle[i] = max((cycle[a] for a in node.args), default=0) + latency[i]
            placed.append(Placed((i, 0, 0), i, node, [Term(cycle[a], a, 1) for a in node.args]))
            continue
        own = sorted([i, *_sums_in(graph, inner, i)])
        terms = [Term(cycle[a], a, sign) for a, sign in _terms(graph, inner, i, 1)]
        for k, part in enumerate(_in_time(terms, products, longest - rest[i])):
            operands = [t if t.node >= 0 else t._replace(node=own[-1 - t.node]) for t in part.terms]
            known[own[k]] = max(known[t.node] for t in operands)
            cycle[own[k]] = part.cycle
            placed.append(Placed((known[own[k]], i, k), own[k], graph.nodes[own[k]], operands))
    return _rebuilt(graph, sorted(placed, key=lambda found: found.order))


def _latency(node: Node, fused: bool) -> int:
    return 0 if fused else NATIVE[node.op].cycles


def _rest(graph: Graph, latency: Sequence[int]) -> list[int]:
    """Cycles from where each node is known to where all that needs it is."""
    rest = [0] * len(graph.nodes)
    for i in reversed(range(len(graph.nodes))):
        rest[i] = max((rest[u] + latency[u] for u in graph.users[i]), default=0)
    return rest


def _inner(graph: Graph) -> set[int]:
    """Sums that one other sum alone needs."""
    outputs = set(graph.output_nodes)
    return {
        i
        for i, node in enumerate(graph.nodes)
        if node.op in ("add", "sub")
        and i not in outputs
        and len(graph.users[i]) == 1
        and graph.nodes[graph.users[i][0]].op in ("add", "sub")
    }


def _sums_in(graph: Graph, inner: set[int], i: int) -> Iterator[int]:
    for a in graph.nodes[i].args:
        if a in inner:
            yield a
            yield from _sums_in(graph, inner, a)


def _terms(graph: Graph, inner: set[int], i: int, sign: int) -> Iterator[tuple[int, int]]:
    """The terms of sum i, with their signs; one may come twice."""
    signs = (sign, sign if graph.nodes[i].op == "add" else -sign)
    for a, s in zip(graph.nodes[i].args, signs, strict=True):
        if a in inner:
            yield from _terms(graph, inner, a, s)
        else:
            yield a, s


def _in_time(terms: Sequence[Term], products: set[int], wanted: int) -> list[Partial]:
    """The partial sums, the whole one last, in the fewest instructions by which it is known in the wanted cycle; if it
    cannot be, in those by which it is known first."""
    terms = sorted(terms)
    ways = [
        _chains(terms, products, count, begin_with_any)
        for count in range(1, min(MOST_CHAINS, len(terms) // 2) + 1)
        for begin_with_any in (False, True)
    ]
    return min(ways, key=lambda way: (max(0, way[1][-1].cycle - wanted), way[0]))[1]


def _chains(terms: Sequence[Term], products: set[int], count: int, begin_with_any: bool) -> tuple[int, list[Partial]]:
    """The sum in so many chains, and how many products begin one, which takes an instruction: as few as can be, or
    those that are known first."""
    order = sorted(range(len(terms)), key=lambda k: (terms[k].node in products and not begin_with_any, k))
    first, others = (sorted(terms[k] for k in some) for some in (order[:count], order[count:]))
    alone = sum(term.node in products for term in first)
    heads = [term._replace(cycle=term.cycle + SUM_CYCLES * (term.node in products)) for term in first]
    parts: list[Partial] = []

    def add(a: Term, b: Term) -> Term:
        sign = max(a.sign, b.sign)  # what is subtracted twice is added first
        cycle = max(a.cycle, b.cycle) + SUM_CYCLES
        parts.append(Partial(cycle, (a._replace(sign=a.sign * sign), b._replace(sign=b.sign * sign))))
        return Term(cycle, -len(parts), sign)

    for term in others:
        heads.append(add(heads.pop(min(range(count), key=lambda k: max(heads[k].cycle, term.cycle))), term))
    while len(heads) > 1:
        heads.sort()
        heads.append(add(heads.pop(0), heads.pop(0)))
    return alone, parts


def _rebuilt(graph: Graph, placed: Sequence[Placed]) -> Graph:
    new = {found.old: at for at, found in enumerate(placed)}
    nodes = []
    for _, _, node, operands in placed:
        op = node.op
        if op in ("add", "sub"):
            operands = sorted(operands, key=lambda term: -term.sign)  # what is subtracted comes second
            op = "add" if operands[1].sign > 0 else "sub"
        nodes.append(replace(node, op=op, args=tuple(new[term.node] for term in operands)))
    inputs, outputs = (
        tuple(replace(port, nodes=tuple(new[i] for i in port.nodes)) for port in side)
        for side in (graph.inputs, graph.outputs)
    )
    return replace(graph, nodes=tuple(nodes), inputs=inputs, outputs=outputs)
