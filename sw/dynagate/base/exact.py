"""Numbers that keep their exact value through arithmetic, in addition to their rounded float64 value.

The constants of a robot are multiplied and added before and during tracing. Two orders of the same operations give
floats that differ in their last digits, but one exact value. That value is kept modulo a prime: sums, products and
quotients of numbers are sums, products and quotients of their residues. Only the test whether two terms are equal reads
residues (`graph.field`); results are computed from the floats.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

PRIME = 0xC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DDEF9519B3CD3A437B
"""A prime of 384 bits, the first after 96 + π 2**382.

It has no short form such as 2**521 - 1, in which powers of two of very different sizes coincide.
"""


_new: Callable[..., Any] = float.__new__


class Exact(float):
    """A float64 and the residue of the exact number that it stands for. It compares, prints and hashes as a float."""

    __slots__ = ("residue",)

    __array_priority__ = 1000.0
    """Priority with which numpy leaves operations with arrays to this class."""

    residue: int

    def __new__(cls, value: float, residue: int) -> Exact:
        number = _new(cls, value)
        number.residue = residue
        return number

    def __getnewargs__(self) -> tuple[float, int]:  # type: ignore[override]
        return float(self), self.residue

    def __neg__(self) -> Exact:
        number: Exact = _new(Exact, -float(self))
        number.residue = PRIME - self.residue if self.residue else 0
        return number

    def __pos__(self) -> Exact:
        return self

    def __abs__(self) -> Exact:
        return -self if self < 0.0 else self

    def __add__(self, other: Any) -> Any:
        if isinstance(other, _NUMBERS):
            return _rounded(_add(self, other), self.residue + residue(other))
        return _with_array(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, _NUMBERS):
            return _rounded(_add(self, other), self.residue + residue(other))
        return _with_array(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, _NUMBERS):
            return _rounded(float.__sub__(self, other), self.residue - residue(other))
        return _with_array(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        if isinstance(other, _NUMBERS):
            return _rounded(float.__rsub__(self, other), residue(other) - self.residue)
        return _with_array(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, _NUMBERS):
            return _rounded(_mul(self, other), self.residue * residue(other))
        return _with_array(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        if isinstance(other, _NUMBERS):
            return _rounded(_mul(self, other), self.residue * residue(other))
        return _with_array(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, _NUMBERS):
            return _quotient(self, other)
        return _with_array(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        if isinstance(other, _NUMBERS):
            return _quotient(other, self)
        return _with_array(operator.truediv, other, self)


_NUMBERS = (float, int)
_add, _mul = float.__add__, float.__mul__


def _with_array(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Apply an operation to a number and an array.

    In an array of objects the number keeps its exact value; otherwise it becomes a float64.
    """
    if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
        return NotImplemented
    if (a if isinstance(a, np.ndarray) else b).dtype != object:
        return operation(*(float(x) if isinstance(x, Exact) else x for x in (a, b)))
    return operation(*(_boxed(x) if isinstance(x, Exact) else x for x in (a, b)))


def _boxed(number: Exact) -> Any:
    box = np.empty((), dtype=object)
    box[()] = number
    return box


def _quotient(a: float, b: float) -> float:
    value = float(a) / float(b)
    under = residue(b)
    return _rounded(value, residue(a) * pow(under, -1, PRIME)) if under else value


def _rounded(value: float, residue: int) -> Exact:
    """Return the number with this residue. If the residue is 0, the rounding error that is left becomes 0."""
    residue %= PRIME
    if not residue and math.isfinite(value):
        value = 0.0
    number: Exact = _new(Exact, value)
    number.residue = residue
    return number


def exact(value: float) -> Exact:
    """Return a number that stands for exactly its float value."""
    if isinstance(value, Exact):
        return value
    number: Exact = _new(Exact, value)
    number.residue = _residue(float(number))
    return number


def written(values: Any) -> Any:
    """Return an array of numbers that stand for their shortest decimals: 0.1 in a file is exactly 1/10."""
    numbers = np.asarray(values, dtype=np.float64)
    result = np.empty(numbers.shape, dtype=object)
    for index, value in np.ndenumerate(numbers):
        result[index] = Exact(float(value), _residue_of_decimal(float(value)))
    return result


def residue(value: float) -> int:
    """Return the exact value of a number modulo the prime; 0 for infinity and NaN."""
    return value.residue if isinstance(value, Exact) else _residue(float(value))


@lru_cache(maxsize=100_000)
def _residue(value: float) -> int:
    return _residue_of(Fraction(value)) if math.isfinite(value) else 0


@lru_cache(maxsize=100_000)
def _residue_of_decimal(value: float) -> int:
    return _residue_of(Fraction(repr(value))) if math.isfinite(value) else 0


def _residue_of(number: Fraction) -> int:
    return number.numerator * pow(number.denominator, -1, PRIME) % PRIME
