"""Which few numbers tell whether any input of a kernel is infinite or no number."""

from __future__ import annotations

from dynagate.graph import Graph
from dynagate.native.expressions import NATIVE


def watched(graph: Graph) -> list[int]:
    """Nodes, outputs before inputs, one of which is infinite or no number wherever an input is so.

    What is not finite remains so in sums and products, for infinity times zero is no number, and so are its sine and
    cosine. Only a reciprocal makes infinity finite, so what is known of it is what is certainly no number.
    """
    bit = {i: 1 << k for k, i in enumerate(graph.input_nodes)}
    shown: list[int] = []  # per node, a bit for each input that makes it infinite or no number
    no_number: list[int] = []
    for i, node in enumerate(graph.nodes):
        infinite, none = bit.get(i, 0), 0
        for a in node.args:
            infinite, none = infinite | shown[a], none | no_number[a]
        if NATIVE[node.op].infinity == "nan":
            none = infinite
        if NATIVE[node.op].infinity == "lost":
            infinite = none
        if NATIVE[node.op].infinity == "hidden":
            infinite = none = 0
        shown.append(infinite)
        no_number.append(none)
    left = (1 << len(bit)) - 1
    found: list[int] = []
    outputs = list(dict.fromkeys(i for i in graph.output_nodes if i not in bit))
    while any(shown[i] & left for i in outputs):
        best = max(outputs, key=lambda i: (shown[i] & left).bit_count())
        found.append(best)
        left &= ~shown[best]
    return found + [i for i in graph.input_nodes if bit[i] & left]
