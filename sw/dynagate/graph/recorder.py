"""The recorder: expressions that record the operations which created them.

Expressions fold constants, drop exact zeros and are shared when equal. They carry their sign outside the node, so -x
costs nothing, and a - b and b - a are one node. `passes` then balances the sums, places the remaining signs and drops
the nodes that no output needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.exact import Exact, exact
from dynagate.base.naming import current_scope
from dynagate.base.progress import Progress, quiet
from dynagate.dynamics.operators import Operators
from dynagate.dynamics.spatial import difference
from dynagate.graph.graph import Graph, Port
from dynagate.graph.ops import OPS
from dynagate.graph.passes import lower
from dynagate.graph.rebuild import Raw, RawNode, RecordedPort, entry_of


class Expr(Operators):
    """sign · node. Arithmetic with numbers and other expressions of the same trace gives expressions or numbers."""

    __slots__ = ("id", "sign", "trace")

    def __init__(self, trace: Trace, id: int, sign: int = 1) -> None:
        self.trace = trace
        self.id = id
        self.sign = sign

    def __neg__(self) -> Expr:
        return Expr(self.trace, self.id, -self.sign)

    def __add__(self, other: Any) -> Any:
        return self.trace.add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self.trace.add(self, -other)

    def __rsub__(self, other: Any) -> Any:
        return self.trace.add(-self, other)

    def __mul__(self, other: Any) -> Any:
        if type(other) is not Expr:
            return self.trace.mul(self, other)
        a, b = self.id, other.id
        return self.trace.node("mul", (a, b) if a < b else (b, a), None, self.sign * other.sign)

    __rmul__ = __mul__

    def __rtruediv__(self, other: Any) -> Any:
        """Divide by this expression, which must be positive: divisors are pivots, and hardware has no other
        reciprocals.
        """
        return self.trace.node("reciprocal", (self.trace.without_sign(self),)) * other

    def sin(self) -> Expr:
        return self.trace.node("sin", (self.id,), sign=self.sign)

    def cos(self) -> Expr:
        return self.trace.node("cos", (self.id,))

    def operation(self, name: str, *operands: Any) -> Expr:
        """Apply an operation by name to expressions and numbers."""
        return self.trace.node(name, tuple(map(self.trace.number, operands)))

    def set_name(self, name: str) -> None:
        """Name the expression's node, unless it already has a name."""
        self.trace.set_name(self.id, name)


MANY = 100_000
"""Number of nodes that take some seconds to process, after which progress is reported."""


_new = tuple.__new__  # makes a RawNode without calling a Python function


class Trace:
    """The recorded nodes, each distinct operation once.

    Args:
        many: Receives the number of nodes after each further MANY.
    """

    def __init__(self, many: Callable[[int], object] | None = None) -> None:
        self._many = many
        self.nodes: list[RawNode] = []
        self.names: list[str] = []
        self.named: list[bool] = []
        self._known: dict[tuple[str, tuple[int, ...], float | None], int] = {}

    def node(self, op: str, args: tuple[int, ...], constant: float | None = None, sign: int = 1) -> Expr:
        """Record an operation, or return the equal one.

        Args:
            op: Name of the operation.
            args: Operand nodes.
            constant: Constant of the operation, if it has one.
            sign: Sign of the returned expression.
        """
        key = op, args, constant
        id = self._known.get(key)
        if id is None:
            id = self._known[key] = len(self.nodes)
            self.nodes.append(_new(RawNode, key))
            scope = current_scope()
            self.names.append(f"{scope}.{op}" if scope else op)
            self.named.append(False)
            if self._many is not None and id and not id % MANY:
                self._many(id)
        return Expr(self, id, sign)

    def without_sign(self, expr: Expr) -> int:
        """Return the node of an expression's value, with a negation if its sign is negative."""
        if expr.sign > 0:
            return expr.id
        known = self.nodes[expr.id]
        turned = self.node("sub", known.args[::-1]) if known.op == "sub" else self.node("neg", (expr.id,))
        self.names[turned.id], self.named[turned.id] = self.names[expr.id], self.named[expr.id]
        return turned.id

    def input(self, name: str) -> Expr:
        """Record an input. Each input is a node of its own."""
        expr = self.node("input", (), None)
        # each input is a node of its own
        self._known.pop(("input", (), None))
        self.names[expr.id], self.named[expr.id] = name, True
        return expr

    def set_name(self, id: int, name: str) -> None:
        """Name a node, unless it already has a name."""
        if not self.named[id]:
            self.names[id], self.named[id] = name, True

    def number(self, value: Any) -> int:
        """Return the node of an expression or number."""
        return self.without_sign(value) if isinstance(value, Expr) else self.node("const", (), exact(value)).id

    def add(self, a: Any, b: Any) -> Any:
        """Record a sum of two expressions or numbers."""
        if not isinstance(a, Expr):
            a, b = b, a
        if not isinstance(b, Expr):
            return self._add_const(a, exact(b))
        if a.id == b.id:
            return 0.0 if a.sign != b.sign else a * 2.0
        if a.id > b.id:
            a, b = b, a
        return self.node("add" if a.sign == b.sign else "sub", (a.id, b.id), sign=a.sign)

    def _add_const(self, a: Expr, c: Exact) -> Any:
        if c == 0.0:
            return a
        known = self.nodes[a.id]
        if known.op == "add_const":  # (x + k) + c
            return Expr(self, known.args[0], a.sign) + difference(c, -a.sign * exact(known.constant or 0.0))
        return self.node("add_const", (a.id,), a.sign * c, a.sign)

    def mul(self, a: Any, b: Any) -> Any:
        """Record a product of two expressions or numbers."""
        if not isinstance(a, Expr):
            a, b = b, a
        if not isinstance(b, Expr):
            return self._mul_const(a, exact(b))
        return a * b

    def _mul_const(self, a: Expr, c: Exact) -> Any:
        sign, size = (a.sign, c) if c > 0.0 else (-a.sign, -c)
        if size == 0.0 or size.residue == 0:
            return 0.0
        if size == 1.0 or size.residue == 1:
            return Expr(self, a.id, sign)
        known = self.nodes[a.id]
        if known.op == "mul_const":  # (x k) c
            return self._mul_const(Expr(self, known.args[0], sign), size * exact(known.constant or 0.0))
        return self.node("mul_const", (a.id,), size, sign)


class Recording:
    """A graph under construction: a trace, and the inputs that it has so far.

    Args:
        name: Name of the function.
        robot: Name of the robot.
        progress: Receives a line of text during long recordings.
    """

    def __init__(self, name: str, robot: str, progress: Progress = quiet) -> None:
        self.name, self.robot, self._progress = name, robot, progress
        self.trace = Trace(lambda count: progress(f"recording {name}, {count:,} operations so far"))
        self.inputs: dict[str, Array] = {}
        self._ports: dict[str, Port] = {}

    def input(
        self,
        name: str,
        shape: tuple[int, ...],
        sizes: npt.ArrayLike = 1.0,
        *,
        unit_vectors: tuple[tuple[int, int], ...] = (),
        symmetric: bool = False,
        switches: bool = False,
        parameter: str = "",
    ) -> Array:
        """Add an input and return its array of expressions.

        Args:
            name: Name of the input.
            shape: Its shape.
            sizes: Typical magnitudes of its entries, broadcast to the shape.
            unit_vectors: (start, stop) of entries that form a unit vector.
            symmetric: Whether an entry and its mirror image are the same number.
            switches: Whether entries are 0 or 1.
            parameter: Kind of a variable parameter; "" for other inputs.
        """
        if name in self.inputs:
            raise ArgumentError(
                f"{self.name} has the input '{name}' already; expected another name", code="DG-GRAPH-017"
            )
        values = self.inputs[name] = np.empty(shape, dtype=object)
        magnitudes = tuple(np.broadcast_to(np.asarray(sizes, dtype=np.float64), shape).ravel().tolist())
        self._ports[name] = Port(name, shape, (), unit_vectors, parameter, magnitudes, switches)
        for index in np.ndindex(*shape):
            mirrored = symmetric and index[0] > index[1]
            entry = name + "".join(f"_{k}" for k in index)
            values[index] = values[index[::-1]] if mirrored else self.trace.input(entry)
        return values

    @property
    def ports(self) -> tuple[Port, ...]:
        """The inputs so far, without their nodes."""
        return tuple(self._ports.values())

    def keep(self, name: str, entries: Sequence[int]) -> None:
        """Reduce an input to some of its entries, (entries,), or remove it. Outputs must not depend on the other
        entries.
        """
        port, values = self._ports.pop(name), self.inputs.pop(name).ravel()
        if len(entries):
            self.inputs[name] = values[list(entries)]
            sizes = tuple(port.sizes[k] for k in entries) if port.sizes else ()
            self._ports[name] = replace(port, shape=(len(entries),), unit_vectors=(), sizes=sizes)

    def input_like(self, port: Port) -> Array:
        """Add an input with the properties of another graph's input."""
        mirrored = len(set(port.nodes)) < len(port.nodes)
        sizes = np.reshape(port.sizes or 1.0, port.shape if port.sizes else ())
        return self.input(
            port.name,
            port.shape,
            sizes,
            unit_vectors=port.unit_vectors,
            symmetric=mirrored,
            switches=port.switches,
            parameter=port.parameter,
        )

    def replay(self, graph: Graph, inputs: Mapping[str, Array]) -> list[Any]:
        """Record the nodes of a graph again on other inputs.

        Args:
            graph: The graph.
            inputs: Input name -> expressions or numbers, (*shape).

        Returns:
            The value of every node. Operations keep their names.
        """
        values: list[Any] = [None] * len(graph.nodes)
        for port in graph.inputs:
            for i, value in zip(port.nodes, np.ravel(inputs[port.name]), strict=True):
                values[i] = value
        for i, node in enumerate(graph.nodes):
            if node.op != "input":
                constant = [] if node.constant is None else [node.constant]
                values[i] = OPS[node.op].real(*(values[a] for a in node.args), *constant)
            if isinstance(values[i], Expr):
                values[i].set_name(node.name)
        return values

    def graph(self, outputs: Mapping[str, Array]) -> Graph:
        """Return the checked graph of these outputs. Raise ArgumentError if numbers become too large for float64."""
        try:
            with np.errstate(over="ignore"):
                graph = lower(
                    self.name,
                    self.robot,
                    Raw(self.trace.nodes, self.trace.names, self.trace.named),
                    [_port(name, values) for name, values in self.inputs.items()],
                    [_port(name, np.asarray(values, dtype=object)) for name, values in outputs.items()],
                    Trace,
                    self._ports,
                    self._progress if len(self.trace.nodes) >= MANY else quiet,
                )
            if not all(math.isfinite(node.constant or 0.0) for node in graph.nodes):
                raise OverflowError
            return graph
        except OverflowError:
            raise ArgumentError(
                f"{self.name} of robot '{self.robot}' has numbers on its way that are too large for float64; expected "
                "smaller ones in the robot's file and in options such as dt and friction",
                code="DG-GRAPH-018",
            ) from None


def _port(name: str, values: Array) -> RecordedPort:
    return name, values.shape, [entry_of(value) for value in values.flat]
