"""Scalars that carry their derivatives along some directions: forward mode by arithmetic, over any scalar."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.dynamics.spatial import Scalar, cos, select, sin, sqrt

Array = npt.NDArray[Any]


class Tangent:
    """A scalar and its rates (directions,), an object array. It has what steps of integrators need: sums, products,
    reciprocals, roots, sines, cosines and selections."""

    __slots__ = ("rates", "value")

    def __init__(self, value: Scalar, rates: Array) -> None:
        self.value, self.rates = value, rates

    def __neg__(self) -> Tangent:
        return Tangent(-self.value, -self.rates)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        if isinstance(other, Tangent):
            return Tangent(self.value + other.value, self.rates + other.rates)
        return Tangent(self.value + other, self.rates)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        if isinstance(other, Tangent):
            return Tangent(self.value * other.value, self.rates * other.value + other.rates * self.value)
        return Tangent(self.value * other, self.rates * other)

    __rmul__ = __mul__

    def __rtruediv__(self, other: Any) -> Any:
        inverse = 1.0 / self.value
        return Tangent(inverse, self.rates * -(inverse * inverse)) * other

    def sin(self) -> Tangent:
        return Tangent(sin(self.value), self.rates * cos(self.value))

    def cos(self) -> Tangent:
        return Tangent(cos(self.value), self.rates * -sin(self.value))

    def operation(self, name: str, *operands: Any) -> Tangent:
        """A root or a selection, as `dynamics.spatial` asks for them."""
        values = [_value(x) for x in operands]
        if name == "sqrt":
            root = sqrt(values[0])
            return Tangent(root, self.rates * (0.5 / root))
        assert name == "select", name
        none = np.zeros(len(self.rates)).astype(object)
        both = [operand.rates if isinstance(operand, Tangent) else none for operand in operands[1:]]
        rates = [select(values[0], a, b) for a, b in zip(*both, strict=True)]
        return Tangent(select(*values), np.array(rates, dtype=object))


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Tangent) else x


def seeded(values: Array, rates: Array) -> Array:
    """Scalars (n,) with their rates (n, directions)."""
    return np.array([Tangent(value, row) for value, row in zip(values, rates, strict=True)], dtype=object)


def values_of(scalars: Array) -> Array:
    """(n,) without the rates."""
    return np.array([_value(x) for x in scalars], dtype=object)


def rates_of(scalars: Array, directions: int) -> Array:
    """(n, directions); zeros for scalars without rates."""
    none = np.zeros(directions).astype(object)
    return np.array([x.rates if isinstance(x, Tangent) else none for x in scalars], dtype=object)
