"""A function of straight-line code in C, traced from mathematics over any scalar.

A step reads and writes arrays: numbers of a link (`real`, the same for all samples) and values of the samples (`vec`, a
lane each). Zeros are left out and equal subexpressions computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dynagate.dynamics.spatial import Array, array
from dynagate.graph.recorder import Expr, Trace
from dynagate.native.expressions import operation


class LinkStep:
    """One function under construction, with its arguments in the order of the calls below and its outputs last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._trace = Trace()
        self._arguments: list[str] = []
        self._source: dict[int, tuple[str, str]] = {}

    def numbers(self, name: str, count: int) -> Array:
        """Return numbers of a link, which are equal for all samples, (count,)."""
        return self._read("real", name, count)

    def vectors(self, name: str, count: int) -> Array:
        """Return values that differ between samples, (count,)."""
        return self._read("vec", name, count)

    def _read(self, type: str, name: str, count: int) -> Array:
        self._arguments.append(f"const {type} *{name}")
        values = [self._trace.input(f"{name}_{k}") for k in range(count)]
        self._source |= {value.id: (type, f"{name}[{k}]") for k, value in enumerate(values)}
        return array(values)

    def text(self, outputs: Mapping[str, Any]) -> str:
        """Return the text of the function.

        All arguments are read before an output is written, so an output may be in the memory of an input.

        Args:
            outputs: Values of any shape by name, in the order of the arguments.
        """
        flat = {name: list(np.ravel(np.asarray(values, dtype=object))) for name, values in outputs.items()}
        nodes = self._trace.nodes
        needed = {value.id for values in flat.values() for value in values if isinstance(value, Expr)}
        for i in reversed(range(len(nodes))):
            if i in needed:
                needed.update(nodes[i].args)
        kinds: dict[int, str] = {}
        lines = []
        for i in sorted(needed):
            if i in self._source:
                kinds[i], expression = self._source[i]
            else:
                kinds[i] = "vec" if any(kinds[a] == "vec" for a in nodes[i].args) else "real"
                number = [] if nodes[i].constant is None else [f"(real){nodes[i].constant!r}"]
                expression = operation(nodes[i].op, [*(f"n{a}" for a in nodes[i].args), *number])
            lines.append(f"const {kinds[i]} n{i} = {expression};")
        for name, values in flat.items():
            lines += [f"{name}[{k}] = {_written(value, kinds)};" for k, value in enumerate(values)]
        arguments = ", ".join([*self._arguments, *(f"vec *{name}" for name in flat)])
        body = "\n    ".join(lines)
        return f"DG_INLINE void {self.name}({arguments}) {{\n    {body}\n}}\n"


def _written(value: Any, kinds: Mapping[int, str]) -> str:
    """Return the text of a value; a number that is equal for all samples becomes a vector."""
    if not isinstance(value, Expr):
        return f"DG_ALL((real){float(value)!r})"
    signed = f"{'-' if value.sign < 0 else ''}n{value.id}"
    return signed if kinds[value.id] == "vec" else f"DG_ALL({signed})"
