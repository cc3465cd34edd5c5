"""A C function of straight-line code, traced from mathematics over any scalar.

A step reads and writes arrays by pointers: numbers of a link (`real`, the same for all samples) and values of the
samples (`vec`, a lane each). Zeros are left out and equal subexpressions computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dynagate.dynamics.spatial import Array, array
from dynagate.graph.recorder import Expr, Trace


class Step:
    """One C function under construction: arguments in the order in which they are asked for, outputs last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._trace = Trace()
        self._arguments: list[str] = []
        self._source: dict[int, tuple[str, str]] = {}

    def numbers(self, name: str, count: int) -> Array:
        """Numbers of a link, the same for all samples (count,)."""
        return self._read("real", name, count)

    def vectors(self, name: str, count: int) -> Array:
        """Values of the samples (count,)."""
        return self._read("vec", name, count)

    def _read(self, type: str, name: str, count: int) -> Array:
        self._arguments.append(f"const {type} *{name}")
        values = [self._trace.input(f"{name}_{k}") for k in range(count)]
        self._source |= {value.id: (type, f"{name}[{k}]") for k, value in enumerate(values)}
        return array(values)

    def text(self, outputs: Mapping[str, Any]) -> str:
        """The function's C, which writes these values (any shape, flattened) in this order of arguments. Everything is
        read before anything is written, so an output may be an input's memory."""
        flat = {name: list(np.ravel(np.asarray(values, dtype=object))) for name, values in outputs.items()}
        nodes = self._trace.nodes
        needed = {value.id for values in flat.values() for value in values if isinstance(value, Expr)}
        for i in reversed(range(len(nodes))):
            if i in needed:
                needed.update(nodes[i].args)
        types: dict[int, str] = {}
        lines = []
        for i in sorted(needed):
            if i in self._source:
                types[i], expression = self._source[i]
            else:
                types[i] = "vec" if any(types[a] == "vec" for a in nodes[i].args) else "real"
                expression = _expression(nodes[i].op, [f"n{a}" for a in nodes[i].args], nodes[i].constant)
            lines.append(f"const {types[i]} n{i} = {expression};")
        for name, values in flat.items():
            lines += [f"{name}[{k}] = {_written(value, types)};" for k, value in enumerate(values)]
        arguments = ", ".join([*self._arguments, *(f"vec *{name}" for name in flat)])
        body = "\n    ".join(lines)
        return f"DG_INLINE void {self.name}({arguments}) {{\n    {body}\n}}\n"


def _expression(op: str, args: Sequence[str], constant: float | None) -> str:
    number = "" if constant is None else f"(real){constant!r}"
    operators = {"add": " + ", "sub": " - ", "mul": " * ", "mul_const": " * ", "add_const": " + "}
    if op in operators:
        return operators[op].join([*args, number] if number else args)
    if op == "const":
        return number
    return {"neg": f"-{args[0]}", "reciprocal": f"(real)1 / {args[0]}"}[op]


def _written(value: Any, types: Mapping[int, str]) -> str:
    """What is the same for all samples becomes a vector of it."""
    if not isinstance(value, Expr):
        return f"(vec){{0}} + (real){float(value)!r}"
    signed = f"{'-' if value.sign < 0 else ''}n{value.id}"
    return signed if types[value.id] == "vec" else f"(vec){{0}} + {signed}"
