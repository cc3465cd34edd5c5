"""Graph: one function of one robot as a checked dataflow graph."""

from dynagate.graph.graph import Graph, GraphError, Node, OperationCounts, Port
from dynagate.graph.ops import OPS, Op
from dynagate.graph.trace import trace

__all__ = ["OPS", "Graph", "GraphError", "Node", "Op", "OperationCounts", "Port", "trace"]
