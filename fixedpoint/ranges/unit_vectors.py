"""Ranges of quadratic forms of unit vectors: a quaternion rotates a vector and keeps its length.

The entries of a quaternion lie between -1 and 1, so plain intervals would let the entries of its rotation matrix reach
3. The values of bᵀv + vᵀA v + c for a vector v of length 1 lie between the eigenvalues of A, shifted by c ± |b|.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from dynagate.base.arguments import UNIT
from dynagate.base.arrays import Floats
from dynagate.fixedpoint.intervals import Interval, outward
from dynagate.graph import Graph
from dynagate.graph.graph import Node

MARGIN = 1e-12
"""Margin relative to the entries, above the float64 errors of eigenvalues and forms."""


class _Form(NamedTuple):
    """A quadratic form of the unit vector whose first entry is `vector`: linear (n,), quadratic (n, n), constant."""

    vector: int
    linear: Floats
    quadratic: Floats
    constant: float

    def times(self, factor: float) -> _Form:
        """Return the form times a factor."""
        return _Form(self.vector, self.linear * factor, self.quadratic * factor, self.constant * factor)

    def plus(self, other: _Form) -> _Form:
        """Return the sum of two forms."""
        linear, quadratic = self.linear + other.linear, self.quadratic + other.quadratic
        return _Form(self.vector, linear, quadratic, self.constant + other.constant)

    def times_linear(self, other: _Form) -> _Form | None:
        """Return the product of two linear forms; None if one has other terms."""
        if self.constant or other.constant or self.quadratic.any() or other.quadratic.any():
            return None
        product = np.outer(self.linear, other.linear)
        return _Form(self.vector, 0.0 * self.linear, (product + product.T) / 2.0, 0.0)

    def range(self) -> Interval:
        """Return the interval of the form's values, for vectors whose length is 1 to within UNIT."""
        values = np.linalg.eigvalsh(self.quadratic)
        length = 1.0 + UNIT
        spread = float(np.linalg.norm(self.linear)) * length
        ends = [float(x) * y for x in (values[0], values[-1]) for y in (length**2, (1.0 - UNIT) ** 2)]
        margin = MARGIN * (float(np.abs(self.quadratic).sum()) + spread + abs(self.constant))
        return outward(min(ends) - spread + self.constant - margin, max(ends) + spread + self.constant + margin)


def unit_ranges(graph: Graph) -> dict[int, Interval]:
    """Return the ranges of nodes that are quadratic forms of one unit vector among the inputs, by node."""
    forms: dict[int, _Form] = dict(_entries(graph))
    for i, node in enumerate(graph.nodes):
        if node.args and all(a in forms for a in node.args):
            form = _form(node, [forms[a] for a in node.args])
            if form is not None:
                forms[i] = form
    return {i: form.range() for i, form in forms.items()}


def _entries(graph: Graph) -> Iterator[tuple[int, _Form]]:
    """Yield the entries of the unit vectors among the inputs, as forms."""
    for port in graph.inputs:
        for start, stop in port.unit_vectors:
            size = stop - start
            for k in range(size):
                yield port.nodes[start + k], _Form(port.nodes[start], np.eye(size)[k], np.zeros((size, size)), 0.0)


def _form(node: Node, operands: Sequence[_Form]) -> _Form | None:
    """Return the form of a node from those of its operands; None if the result is no such form."""
    constant: Any = node.constant
    first, *rest = operands
    if any(form.vector != first.vector for form in rest):
        return None
    match node.op:
        case "add":
            return first.plus(rest[0])
        case "sub":
            return first.plus(rest[0].times(-1.0))
        case "neg":
            return first.times(-1.0)
        case "add_const":
            return first._replace(constant=first.constant + constant)
        case "mul_const":
            return first.times(constant)
        case "shift":
            return first.times(2.0**constant)
        case "mul":
            return first.times_linear(rest[0])
    return None
