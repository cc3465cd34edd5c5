"""Rewrite sums as chains of fused multiply-adds, so that C and CUDA compilers fuse more products.

A fused multiply-add adds one product to another value. As a balanced tree, a sum of four products takes five
instructions: two products, two fused multiply-adds and one addition. As a chain it takes four: one product and three
fused multiply-adds. But a chain adds its terms one after another, which takes longer. A sum is therefore cut into as
few chains as its readers' deadlines allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from dynagate.graph import Graph
from dynagate.graph.graph import Node, new_node
from dynagate.graph.ops import PRODUCTS, SUMS
from dynagate.native.expressions import NATIVE

SUM_CYCLES = NATIVE["add"].cycles
MOST_CHAINS = 4
"""Largest number of chains of one sum."""


class Term(NamedTuple):
    """A term of a sum."""

    cycle: int
    """Cycle in which it is ready."""
    node: int
    """Its node, or -1 - k for partial sum k of the same sum."""
    sign: int


class Partial(NamedTuple):
    """A partial sum of two terms."""

    cycle: int
    """Cycle in which it is ready."""
    terms: tuple[Term, Term]


class PlacedNode(NamedTuple):
    """A node of the new graph, with its operands by their positions in the old graph."""

    order: tuple[int, int, int]
    """Sort key: the old position of the node after which it can be computed, of its sum, and its position in
    the sum.
    """
    old: int
    node: Node
    op: str
    operands: Sequence[int]


def fusable(graph: Graph) -> set[int]:
    """Return the products that only sums read."""
    outputs = set(graph.output_nodes)
    products = (*PRODUCTS, "shift")
    return {
        i
        for i, node in enumerate(graph.nodes)
        if node.op in products and i not in outputs and all(graph.nodes[u].op in SUMS for u in graph.users[i])
    }


def chained(graph: Graph) -> Graph:
    """Return the same function with its sums as chains.

    A sum and all sums that only it reads become one sum of many terms. It takes the fewest instructions with which it
    is ready in time for its readers. The number of nodes stays, and results differ by rounding.
    """
    products, inner = fusable(graph), _inner(graph)
    latency = [_latency(node, i in products) for i, node in enumerate(graph.nodes)]
    rest = _rest(graph, latency)
    longest = max(map(sum, zip(latency, rest, strict=True)))
    placed: list[PlacedNode] = []
    cycle = [0] * len(graph.nodes)  # in which each node is ready
    after = list(range(len(graph.nodes)))  # per node, the last of the old order that must be computed before it
    for i, node in enumerate(graph.nodes):
        if i in inner:
            continue
        if node.op not in ("add", "sub"):
            cycle[i] = max((cycle[a] for a in node.args), default=0) + latency[i]
            placed.append(PlacedNode((i, 0, 0), i, node, node.op, node.args))
            continue
        own, signed = _parts_of(graph, inner, i)
        terms = [Term(cycle[a], a, sign) for a, sign in signed]
        for k, part in enumerate(_in_time(terms, products, longest - rest[i])):
            a, b = part.terms if part.terms[0].sign >= part.terms[1].sign else part.terms[::-1]
            operands = [t.node if t.node >= 0 else own[-1 - t.node] for t in (a, b)]  # the negative term comes second
            op = "add" if b.sign > 0 else "sub"
            after[own[k]] = max(after[operands[0]], after[operands[1]])
            cycle[own[k]] = part.cycle
            placed.append(PlacedNode((after[own[k]], i, k), own[k], graph.nodes[own[k]], op, operands))
    return _rebuilt(graph, sorted(placed, key=lambda entry: entry.order))


def _latency(node: Node, fused: bool) -> int:
    return 0 if fused else NATIVE[node.op].cycles


def _rest(graph: Graph, latency: Sequence[int]) -> list[int]:
    """Return the cycles from each node's readiness to the readiness of the last node that depends on it."""
    rest = [0] * len(graph.nodes)
    for i in reversed(range(len(graph.nodes))):
        rest[i] = max((rest[u] + latency[u] for u in graph.users[i]), default=0)
    return rest


def _inner(graph: Graph) -> set[int]:
    """Return the sums that are read once, by another sum."""
    outputs = set(graph.output_nodes)
    return {
        i
        for i, node in enumerate(graph.nodes)
        if node.op in ("add", "sub")
        and i not in outputs
        and len(graph.users[i]) == 1
        and graph.nodes[graph.users[i][0]].op in ("add", "sub")
    }


def _parts_of(graph: Graph, inner: set[int], i: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Return sum i with the inner sums that are part of it, in order, and its terms with their signs.

    A term may occur twice.
    """
    own, terms, left = [i], [], [(i, 1)]
    while left:
        k, sign = left.pop()
        node = graph.nodes[k]
        first, second = node.args
        for a, s in ((first, sign), (second, sign if node.op == "add" else -sign)):
            if a in inner:
                own.append(a)
                left.append((a, s))
            else:
                terms.append((a, s))
    return sorted(own), terms


def _in_time(terms: Sequence[Term], products: set[int], deadline: int) -> list[Partial]:
    """Return the partial sums, the complete sum last: the variant with the fewest instructions that meets the deadline.

    If none does, return the variant that is ready first.
    """
    terms = sorted(terms)
    first, nodes = terms[0].cycle, sorted({term.node for term in terms})
    place = {node: k for k, node in enumerate(nodes)}
    pattern = tuple([(cycle - first, place[node], sign) for cycle, node, sign in terms])
    variants = _variants(pattern, tuple([place[node] for node in nodes if node in products]))
    late = deadline - first
    _, parts = min(variants, key=lambda variant: (max(0, variant[1][-1].cycle - late), variant[0]))
    moved = [tuple([_moved(term, first, nodes) for term in part.terms]) for part in parts]
    return [Partial(part.cycle + first, (a, b)) for part, (a, b) in zip(parts, moved, strict=True)]


def _moved(term: Term, first: int, nodes: Sequence[int]) -> Term:
    """Return a term of a pattern as a term of a sum, whose nodes are in order and begin in cycle `first`."""
    return Term(term.cycle + first, nodes[term.node] if term.node >= 0 else term.node, term.sign)


@lru_cache(maxsize=20_000)
def _variants(pattern: tuple[tuple[int, int, int], ...], products: tuple[int, ...]) -> list[tuple[int, list[Partial]]]:
    """Return all ways to compute a sum in chains, as `_chains` does. Many sums of a robot have the same pattern."""
    terms = [Term(*term) for term in pattern]
    return [
        _chains(terms, set(products), count, begin_with_any)
        for count in range(1, min(MOST_CHAINS, len(terms) // 2) + 1)
        for begin_with_any in (False, True)
    ]


def _chains(terms: Sequence[Term], products: set[int], count: int, begin_with_any: bool) -> tuple[int, list[Partial]]:
    """Return a sum in `count` chains: the number of products that begin a chain, and the partial sums.

    Each such product takes an instruction of its own. With begin_with_any the terms that are ready first begin the
    chains; otherwise terms that are not products do, as far as there are any.

    Args:
        terms: Terms of the sum.
        products: Nodes that are products. Such a term can be fused with its addition.
        count: Number of chains.
        begin_with_any: Whether products may begin chains although other terms are left.
    """
    order = sorted(range(len(terms)), key=lambda k: (terms[k].node in products and not begin_with_any, k))
    first, others = (sorted(terms[k] for k in some) for some in (order[:count], order[count:]))
    alone = sum(term.node in products for term in first)
    heads = [term._replace(cycle=term.cycle + SUM_CYCLES * (term.node in products)) for term in first]
    parts: list[Partial] = []

    def add(a: Term, b: Term) -> Term:
        sign = max(a.sign, b.sign)  # of two negative terms the sum is negative
        cycle = max(a.cycle, b.cycle) + SUM_CYCLES
        parts.append(Partial(cycle, (a._replace(sign=a.sign * sign), b._replace(sign=b.sign * sign))))
        return Term(cycle, -len(parts), sign)

    for term in others:
        heads.append(add(heads.pop(min(range(count), key=lambda k: max(heads[k].cycle, term.cycle))), term))
    while len(heads) > 1:
        heads.sort()
        heads.append(add(heads.pop(0), heads.pop(0)))
    return alone, parts


def _rebuilt(graph: Graph, placed: Sequence[PlacedNode]) -> Graph:
    """Return the graph of the placed nodes, in this order."""
    place = {entry.old: k for k, entry in enumerate(placed)}
    nodes = tuple(
        new_node(op, tuple([place[a] for a in operands]), node.constant, node.name)
        for _, _, node, op, operands in placed
    )
    inputs, outputs = (
        tuple(replace(port, nodes=tuple([place[i] for i in port.nodes])) for port in side)
        for side in (graph.inputs, graph.outputs)
    )
    return replace(graph, nodes=nodes, inputs=inputs, outputs=outputs)
