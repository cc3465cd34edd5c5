"""NaN sentinels: a few results of a kernel that reveal whether any of its inputs is infinite or NaN."""

from __future__ import annotations

from dynagate.graph import Graph
from dynagate.native.expressions import NATIVE


def watched(graph: Graph) -> list[int]:
    """Return the sentinels, outputs before inputs: if any input is infinite or NaN, so is at least one of these nodes.

    Sums and products pass on infinity and NaN, because infinity times zero is NaN. The sine and cosine of infinity are
    NaN. The reciprocal of infinity is zero, so it passes on only NaN. A select may return its other operand, so it does
    not reliably pass on anything. `NativeOp.infinity` states the case of each operation.
    """
    bit = {i: 1 << k for k, i in enumerate(graph.input_nodes)}
    shown: list[int] = []  # per node, a bit for each input that makes it infinite or NaN
    no_number: list[int] = []  # per node, a bit for each input that makes it NaN
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
    sentinels: list[int] = []
    outputs = list(dict.fromkeys(i for i in graph.output_nodes if i not in bit))
    while any(shown[i] & left for i in outputs):
        best = max(outputs, key=lambda i: (shown[i] & left).bit_count())
        sentinels.append(best)
        left &= ~shown[best]
    return sentinels + [i for i in graph.input_nodes if bit[i] & left]
