"""Sums that a kernel computes together with one of their products, as one instruction with one rounding."""

from __future__ import annotations

from typing import NamedTuple

from dynagate.graph import Graph
from dynagate.native.graph_text import constant_of


class FusedCall(NamedTuple):
    """A fused instruction on operands x, y and z."""

    name: str
    """"fma" for x y + z, "fms" for x y - z, "fnma" for z - x y: functions of dynagate_simd.h."""
    operands: tuple[int, int | float, int | float]
    """Nodes, and constants as floats."""


def fused_call(graph: Graph, i: int, product: int) -> FusedCall:
    """Return the instruction that computes a sum with one of its products.

    Args:
        graph: The graph.
        i: The sum.
        product: The product, one of its operands.
    """
    node, factors = graph.nodes[i], graph.nodes[product]
    x = factors.args[0]
    y = factors.args[1] if factors.constant is None else float(constant_of(factors))
    if node.op == "add_const":
        return FusedCall("fma", (x, y, float(constant_of(node))))
    first, second = node.args
    if node.op == "add":
        return FusedCall("fma", (x, y, second if first == product else first))
    return FusedCall("fms", (x, y, second)) if first == product else FusedCall("fnma", (x, y, first))
