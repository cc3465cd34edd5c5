"""Graph: one function of one robot as a checked dataflow graph."""

from dynagate.graph.graph import Counts, Graph, GraphError, Node, Port
from dynagate.graph.ops import OPS, Op
from dynagate.graph.trace import trace

__all__ = ["OPS", "Counts", "Graph", "GraphError", "Node", "Op", "Port", "trace"]
