"""Room above the range of terms, out of bits that their sums drop."""

from __future__ import annotations

from dynagate.dynamics.spatial import array
from dynagate.fixedpoint.ranges.headroom import KEPT, most_fractions
from dynagate.graph.recorder import Recording


def test_terms_keep_what_their_sums_can_use() -> None:
    """Along chains of sums too; what a product or a result takes keeps all of its own."""
    recording = Recording("terms", "none")
    x = recording.input("x", (5,))
    small, other = x[0] * x[1], x[2] * x[3]
    graph = recording.graph({"total": array((small + other) + x[4]).reshape(()), "other": array(other).reshape(())})
    last, result = graph.outputs[0].nodes[0], graph.outputs[1].nodes[0]
    (first,) = [i for i, node in enumerate(graph.nodes) if node.op == "add" and i != last]
    (product,) = [i for i, node in enumerate(graph.nodes) if node.op == "mul" and i != result]
    fractions = [20] * len(graph.nodes)
    fractions[product], fractions[first], fractions[last] = 30, 15, 10
    most = most_fractions(graph, fractions)
    chained = next(i for i in graph.nodes[first].args if i != result)
    assert most[chained] == most[first] == 10 + KEPT
    assert most[last] is None
    assert most[result] is None
    assert most[graph.inputs[0].nodes[1]] is None  # a product takes it
    fractions[last] = 40
    assert most_fractions(graph, fractions)[chained] == 15 + KEPT
