"""Count the multiplications of an algorithm by running it on numbers at a random state, without tracing it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class Products:
    """The set of distinct products that an algorithm computed. Equal values count once, as in a graph."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(1)
        self._different: set[tuple[int, int]] = set()

    def __len__(self) -> int:
        return len(self._different)

    def inputs(self, count: int) -> list[Varying]:
        """Return `count` random scalars that stand for inputs."""
        return [Varying(float(x), self) for x in self._random.uniform(0.5, 2.0, count)]

    def times(self, a: float, b: float) -> Varying:
        """Return the product of two values and count it."""
        mantissa, exponent = math.frexp(abs(a * b))
        self._different.add((round(mantissa * 2**32), exponent))
        return Varying(a * b, self)


class Varying:
    """A value that depends on the state, represented by its number at one random state.

    Plain numbers are constants, and products with powers of two are free. The number is a plain float, because an
    `Exact` number would keep its rounding error.
    """

    __slots__ = ("products", "value")

    def __init__(self, value: float, products: Products) -> None:
        self.value = value
        self.products = products

    def __neg__(self) -> Varying:
        return Varying(-self.value, self.products)

    def __add__(self, other: Any) -> Any:
        term = other.value if isinstance(other, Varying) else float(other)
        total = self.value + term
        return Varying(total, self.products) if abs(total) > 1e-12 * abs(term) else 0.0

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Varying):
            return self.products.times(self.value, other.value)
        other = float(other)
        if other == 0.0:
            return 0.0
        if math.frexp(abs(other))[0] == 0.5:
            return Varying(self.value * other, self.products)
        return self.products.times(self.value, other)

    __rmul__ = __mul__

    def __rtruediv__(self, other: Any) -> Any:
        return Varying(1.0 / self.value, self.products) * other

    def operation(self, name: str, *operands: Any) -> Varying:
        """Return a number that differs from all operands, in place of the result of an operation."""
        values = (x.value if isinstance(x, Varying) else float(x) for x in operands)
        return Varying(sum(k * x for k, x in enumerate(values, start=3)), self.products)

    def sin(self) -> Varying:
        return Varying(math.sin(self.value), self.products)

    def cos(self) -> Varying:
        return Varying(math.cos(self.value), self.products)
