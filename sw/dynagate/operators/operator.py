"""Operators: a graph with its executor, and the operators of its derivatives, which are created on first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from dynagate.graph import Graph
from dynagate.operators import products
from dynagate.operators.compute import Compute
from dynagate.robot import Robot

Make = Callable[[Graph], Compute]


class Operator:
    """A function of arrays (*leading, *shape), with the same leading axes for all inputs.

    Two operators are equal only if they are the same object, by which frameworks identify compiled code.

    Args:
        linear: Number of its last inputs in which it is jointly linear.
    """

    def __init__(self, graph: Graph, robot: Robot, compute: Compute, make: Make, *, linear: int = 0) -> None:
        self.graph, self.robot, self.compute, self._make, self.linear = graph, robot, compute, make, linear
        self._transposed: Operator | None = None

    @property
    def nonlinear(self) -> int:
        """Number of its first inputs, with respect to which `jvp` and `vjp` differentiate."""
        return len(self.graph.inputs) - self.linear

    @property
    def jvp(self) -> Operator:
        """Its inputs, then a rate of each nonlinear input, to the rates of its outputs, linear in the rates."""
        return self._products[0]

    @property
    def vjp(self) -> Operator:
        """Its inputs, then a weight of each output, to the weights of its nonlinear inputs, linear in the weights."""
        return self._products[1]

    @property
    def transposed(self) -> Operator:
        """The transposed operator of a product: from nonlinear inputs and weights of outputs to weights of linear
        inputs.
        """
        assert self._transposed is not None, f"{self} is linear in nothing"
        return self._transposed

    def product_graphs(self) -> tuple[Graph, Graph]:
        """Return the graphs of `jvp` and `vjp`."""
        graph = products.anonymous(self.graph)
        moving = [port.name for port in graph.inputs[: self.nonlinear]]
        return products.jvp(graph, self.robot, moving), products.vjp(graph, self.robot, moving)

    def computes(self, forward: Graph, reverse: Graph) -> tuple[Compute, Compute]:
        """Return the executors of `jvp` and `vjp`."""
        return self._make(forward), self._make(reverse)

    @cached_property
    def _products(self) -> tuple[Operator, Operator]:
        """Return the JVP and the VJP operator, created on first use."""
        products.check_differentiable(self.graph)
        forward, reverse = self.product_graphs()
        by_forward, by_reverse = self.computes(forward, reverse)
        make: dict[str, Any] = {"robot": self.robot, "make": self._make}
        jvp = Operator(forward, compute=by_forward, linear=self.nonlinear, **make)
        vjp = Operator(reverse, compute=by_reverse, linear=len(self.graph.outputs), **make)
        jvp._transposed, vjp._transposed = vjp, jvp
        return jvp, vjp

    def __repr__(self) -> str:
        return f"<Operator {self.graph.robot} {self.graph.name}>"
