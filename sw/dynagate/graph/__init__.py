"""The dataflow graph of one function for one robot, which every backend starts from."""

from dynagate.graph.graph import Graph, GraphError, Node, OperationCounts, Port
from dynagate.graph.ops import OPS, Op
from dynagate.graph.trace import trace

__all__ = ["OPS", "Graph", "GraphError", "Node", "Op", "OperationCounts", "Port", "trace"]
