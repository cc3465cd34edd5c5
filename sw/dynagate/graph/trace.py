"""Run an algorithm on expressions instead of numbers and keep what it does.

Expressions fold constants, prune exact zeros, carry their sign outside the node (so -x costs nothing and a - b and
b - a are one node) and are shared when equal. `passes` then balances the sums, places the remaining signs and drops
what no output needs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.base.naming import current_scope
from dynagate.dynamics import SYMMETRIC, AlgorithmOptions, Argument, Function, Tree, function
from dynagate.dynamics.frames import Frame
from dynagate.dynamics.spatial import difference
from dynagate.graph.choose import FRAME_SEARCHES, FRAMES
from dynagate.graph.graph import Graph
from dynagate.graph.passes import lower
from dynagate.graph.rebuild import Raw, RawNode
from dynagate.graph.sizes import input_sizes
from dynagate.robot import Robot


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

Step = Callable[[str], object]


class Trace:
    """The nodes made so far, equal ones once. many: called with their number, each time that there are MANY more."""

    def __init__(self, many: Callable[[int], object] | None = None) -> None:
        self._many = many
        self.nodes: list[RawNode] = []
        self.names: list[str] = []
        self.named: list[bool] = []
        self._known: dict[tuple[Any, ...], int] = {}

    def node(self, op: str, args: tuple[int, ...], constant: float | None = None, sign: int = 1) -> Expr:
        key = (op, args, constant)
        id = self._known.get(key)
        if id is None:
            id = self._known[key] = len(self.nodes)
            self.nodes.append(RawNode(op, args, constant))
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
        self._known.pop(("input", (), None))
        self.names[expr.id], self.named[expr.id] = name, True
        return expr

    def set_name(self, id: int, name: str) -> None:
        if not self.named[id]:
            self.names[id], self.named[id] = name, True

    def number(self, value: Any) -> int:
        """The id of a node with the value of an expression or a number."""
        return self.without_sign(value) if isinstance(value, Expr) else self.node("const", (), float(value)).id

    def add(self, a: Any, b: Any) -> Any:
        if not isinstance(a, Expr):
            a, b = b, a
        if not isinstance(b, Expr):
            return self._add_const(a, float(b))
        if a.id == b.id:
            return 0.0 if a.sign != b.sign else a * 2.0
        if a.id > b.id:
            a, b = b, a
        return self.node("add" if a.sign == b.sign else "sub", (a.id, b.id), sign=a.sign)

    def _add_const(self, a: Expr, c: float) -> Any:
        if c == 0.0:
            return a
        known = self.nodes[a.id]
        if known.op == "add_const":  # (x + k) + c
            return Expr(self, known.args[0], a.sign) + difference(c, -a.sign * float(known.constant or 0.0))
        return self.node("add_const", (a.id,), _digits(a.sign * c), a.sign)

    def mul(self, a: Any, b: Any) -> Any:
        if not isinstance(a, Expr):
            a, b = b, a
        if not isinstance(b, Expr):
            return self._mul_const(a, float(b))
        return self.node("mul", (min(a.id, b.id), max(a.id, b.id)), sign=a.sign * b.sign)

    def _mul_const(self, a: Expr, c: float) -> Any:
        sign, size = (a.sign, c) if c > 0.0 else (-a.sign, -c)
        size = _digits(size)
        if size == 0.0:
            return 0.0
        if size == 1.0:
            return Expr(self, a.id, sign)
        known = self.nodes[a.id]
        if known.op == "mul_const":  # (x k) c
            return self._mul_const(Expr(self, known.args[0], sign), size * float(known.constant or 0.0))
        return self.node("mul_const", (a.id,), size, sign)


def _digits(c: float) -> float:
    """Constants that differ in the last digits alone come from one number by different roads: share them."""
    return float(f"{c:.14e}")


def trace(
    robot: Robot,
    name: str | Function,
    *,
    form: str | None = None,
    frame: Frame | None = None,
    mass: str | None = None,
    prefix: bool = False,
    external_forces: bool = False,
    step: Step | None = None,
) -> Graph:
    """The checked graph of one function of one robot: a listed one by its name, or one of your own.

    form, frame, mass, prefix, external_forces: as in `dynamics.AlgorithmOptions`. Besides the frames of
    `dynamics.frames`, "fewest" finds the one of each chain that takes the fewest operations and "accurate" the one that
    errs least in float32.
    step: called with what is about to happen, where that takes seconds: a chain of a hundred joints has 350,000
    operations in its forward dynamics (and 25,000 in its form "aba").
    Raises ValueError for a name that the function table does not list or an option that the function does not take,
    RobotError where M is needed and has no inverse.
    """
    algorithm = name if isinstance(name, Function) else function(name)
    options = AlgorithmOptions(form, frame, mass, prefix).as_dict()
    if isinstance(frame, str):
        if frame not in FRAMES:
            raise ArgumentError(f"frame '{frame}'; expected {', '.join(FRAMES)}, a link index, or a map of them")
        if frame in FRAME_SEARCHES:
            options["frame"] = FRAME_SEARCHES[frame](robot, trace)
    with _without_collection():
        return _traced(robot, algorithm, external_forces, step or (lambda text: None), options)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Nothing that is recorded is garbage; looking for some takes a third of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _traced(robot: Robot, algorithm: Function, external_forces: bool, step: Step, options: dict[str, Any]) -> Graph:
    recorder = Trace(lambda count: step(f"recording {algorithm.name}, {count:,} operations so far"))
    tree = Tree(robot)
    arguments = algorithm.inputs_with(external_forces)
    inputs = [(argument, _input(recorder, argument, robot)) for argument in arguments]
    results = algorithm(tree, *(values[()] for _, values in inputs), **options)
    sizes = {
        value.id: float(size)
        for (_, values), entries in zip(inputs, input_sizes(tree, arguments), strict=True)
        for value, size in zip(values.flat, entries.flat, strict=True)
    }
    arrays = [np.asarray(result, dtype=object) for result in results]
    outputs = list(zip(algorithm.outputs, arrays, strict=True))
    return lower(
        algorithm.name,
        robot.name,
        Raw(recorder.nodes, recorder.names, recorder.named),
        [_port(argument, robot, values) for argument, values in inputs],
        [_port(argument, robot, values) for argument, values in outputs],
        Trace,
        {argument.name: argument.unit_vectors(robot) for argument in arguments},
        sizes,
        step if len(recorder.nodes) >= MANY else lambda text: None,
    )


def _input(recorder: Trace, argument: Argument, robot: Robot) -> Any:
    shape = argument.shape(robot)
    values = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        if argument.kind == SYMMETRIC and index[0] > index[1]:
            values[index] = values[index[::-1]]
        else:
            values[index] = recorder.input(argument.name + "".join(f"_{k}" for k in index))
    return values


def _port(argument: Argument, robot: Robot, values: Any) -> tuple[str, tuple[int, ...], Sequence[Any]]:
    def value(v: Any) -> Any:
        return (v.id, v.sign) if isinstance(v, Expr) else float(v)

    return argument.name, argument.shape(robot), [value(v) for v in np.ravel(values)]
