"""The recorder: expressions that remember the operations which made them.

Expressions fold constants, prune exact zeros, carry their sign outside the node (so -x costs nothing and a - b and
b - a are one node) and are shared when equal. `passes` then balances the sums, places the remaining signs and drops
what no output needs.
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
from dynagate.dynamics.spatial import difference
from dynagate.graph.graph import Graph, Port
from dynagate.graph.ops import OPS
from dynagate.graph.passes import lower
from dynagate.graph.rebuild import Raw, RawNode, RecordedPort, entry_of


class Expr:
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
        return self.trace.mul(self, other)

    __rmul__ = __mul__

    def __rtruediv__(self, other: Any) -> Any:
        """Divisors are pivots, and positive: hardware has reciprocals of no other numbers."""
        return self.trace.node("reciprocal", (self.trace.without_sign(self),)) * other

    def sin(self) -> Expr:
        return self.trace.node("sin", (self.id,), sign=self.sign)

    def cos(self) -> Expr:
        return self.trace.node("cos", (self.id,))

    def operation(self, name: str, *operands: Any) -> Expr:
        """An operation by its name, of expressions and numbers."""
        return self.trace.node(name, tuple(map(self.trace.number, operands)))

    def set_name(self, name: str) -> None:
        self.trace.set_name(self.id, name)


MANY = 100_000
"""Nodes that take some seconds: what makes more says so."""


_new = tuple.__new__  # of a RawNode, without the call of a Python function


class Trace:
    """The nodes made so far, equal ones once. many: called with their number, each time that there are MANY more."""

    def __init__(self, many: Callable[[int], object] | None = None) -> None:
        self._many = many
        self.nodes: list[RawNode] = []
        self.names: list[str] = []
        self.named: list[bool] = []
        self._known: dict[RawNode, int] = {}

    def node(self, op: str, args: tuple[int, ...], constant: float | None = None, sign: int = 1) -> Expr:
        node = _new(RawNode, (op, args, constant))
        id = self._known.get(node)
        if id is None:
            id = self._known[node] = len(self.nodes)
            self.nodes.append(node)
            scope = current_scope()
            self.names.append(f"{scope}.{op}" if scope else op)
            self.named.append(False)
            if self._many is not None and id and not id % MANY:
                self._many(id)
        return Expr(self, id, sign)

    def without_sign(self, expr: Expr) -> int:
        """The id of a node with the expression's own value."""
        if expr.sign > 0:
            return expr.id
        known = self.nodes[expr.id]
        turned = self.node("sub", known.args[::-1]) if known.op == "sub" else self.node("neg", (expr.id,))
        self.names[turned.id], self.named[turned.id] = self.names[expr.id], self.named[expr.id]
        return turned.id

    def input(self, name: str) -> Expr:
        expr = self.node("input", (), None)
        # every input is a node of its own
        self._known.pop(RawNode("input", (), None))
        self.names[expr.id], self.named[expr.id] = name, True
        return expr

    def set_name(self, id: int, name: str) -> None:
        if not self.named[id]:
            self.names[id], self.named[id] = name, True

    def number(self, value: Any) -> int:
        """The id of a node with the value of an expression or a number."""
        return self.without_sign(value) if isinstance(value, Expr) else self.node("const", (), exact(value)).id

    def add(self, a: Any, b: Any) -> Any:
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
        if not isinstance(a, Expr):
            a, b = b, a
        if not isinstance(b, Expr):
            return self._mul_const(a, exact(b))
        return self.node("mul", (min(a.id, b.id), max(a.id, b.id)), sign=a.sign * b.sign)

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
    """A graph under construction: a trace, the inputs that it has so far, and the outputs that end it.

    progress: called with a text before what takes seconds.
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
        """A new input, an array of expressions. sizes: typical magnitudes of its entries, broadcast to its shape.
        unit_vectors, switches, parameter: as in `Port`. symmetric: an entry and its mirror image are one number."""
        if name in self.inputs:
            raise ArgumentError(f"{self.name} has the input '{name}' already; expected another name")
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
        """Narrows an input to some of its entries, (entries,); drops it where there are none. Outputs must not depend
        on the others."""
        port, values = self._ports.pop(name), self.inputs.pop(name).ravel()
        if len(entries):
            self.inputs[name] = values[list(entries)]
            sizes = tuple(port.sizes[k] for k in entries) if port.sizes else ()
            self._ports[name] = replace(port, shape=(len(entries),), unit_vectors=(), sizes=sizes)

    def input_like(self, port: Port) -> Array:
        """A new input as another graph has it."""
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
        """The value of every node of a graph, recorded again on other inputs, by name (*shape). The operations keep
        their names."""
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
        """The checked graph of these outputs. Raises ValueError: numbers become too large."""
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
                "smaller ones in the robot's file and in options such as dt and friction"
            ) from None


def _port(name: str, values: Array) -> RecordedPort:
    return name, values.shape, [entry_of(value) for value in values.flat]
