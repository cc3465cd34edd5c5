"""Graphs of a few expressions, without a robot."""

from __future__ import annotations

from dynagate.graph import Graph, Port
from dynagate.graph.passes import lower
from dynagate.graph.rebuild import Raw
from dynagate.graph.recorder import Expr, Trace


def lowered(trace: Trace, inputs: list[Expr], outputs: list) -> Graph:
    """The graph of a few expressions."""
    ports = [("x", (len(inputs),), [(e.id, 1) for e in inputs])]
    entries = [(e.id, e.sign) if isinstance(e, Expr) else float(e) for e in outputs]
    raw = Raw(trace.nodes, trace.names, trace.named)
    known = {"x": Port("x", (len(inputs),), (), sizes=(1.0,) * len(inputs))}
    return lower("test", "none", raw, ports, [("y", (len(outputs),), entries)], Trace, known)


def traced(formula) -> Graph:
    recorder = Trace()
    inputs = [recorder.input(f"x{k}") for k in range(8)]
    outputs = formula(*inputs)
    return lowered(recorder, inputs, outputs if isinstance(outputs, list) else [outputs])
