"""Decide by exact arithmetic whether two nodes of a recording are equal for every input.

Each node is evaluated modulo a prime at two random points. A constant is the exact dyadic number of its float. The sine
and cosine of an angle are a rational point of the circle that depends only on the angle's value, and a unit vector is a
rational point of the sphere. Sums, products and reciprocals of such numbers are rational functions. Two different
rational functions of degree d agree at a random point with a probability of at most 2 d / PRIME (Schwartz-Zippel). An
element whose degree could exceed LARGEST_DEGREE is replaced by a fresh random number. Every other operation is an
unknown function of its operands: equal operands give equal results, and nothing else is assumed. No rounding is
involved, so different terms stay different however large or small they are.

`Element` supports the scalar arithmetic that `ops.OPS` is written in, so `Op.real` is the rule for each operation.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dynagate.base.exact import PRIME, residue
from dynagate.dynamics.operators import Operators
from dynagate.graph.ops import OPS

POINTS = 2
LARGEST_DEGREE = 2**256
"""Largest bound on the degree of a numerator or denominator: the probability of a wrong equality is below 2**-126."""
SURE = 2**96
"""Margin for recognizing a rational number n / d from its residue: |n| d < PRIME / SURE. A random residue is mistaken
for such a number with a probability of about 1 / SURE.
"""

_BYTES = (PRIME.bit_length() + 7) // 8

Points = tuple[int, ...]


class Element(Operators):
    """A node's values at the random points, and bounds on the degrees of its numerator and denominator."""

    __slots__ = ("denominator", "numerator", "points")

    def __init__(self, points: Points, numerator: int = 1, denominator: int = 0) -> None:
        self.points = points
        self.numerator = numerator
        self.denominator = denominator

    def __neg__(self) -> Element:
        a, b = self.points
        return Element((-a % PRIME, -b % PRIME), self.numerator, self.denominator)

    def __add__(self, other: Any) -> Element:
        if not isinstance(other, Element):
            other = constant(other)
        (a, b), (x, y) = self.points, other.points
        over, under = self.denominator, other.denominator
        numerator, denominator = max(self.numerator + under, other.numerator + over), over + under
        if numerator > LARGEST_DEGREE or denominator > LARGEST_DEGREE:
            return unknown("add", self, other)
        return Element(((a + x) % PRIME, (b + y) % PRIME), numerator, denominator)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Element:
        return self + -other

    def __rsub__(self, other: Any) -> Element:
        return -self + other

    def __mul__(self, other: Any) -> Element:
        if not isinstance(other, Element):
            other = constant(other)
        (a, b), (x, y) = self.points, other.points
        numerator, denominator = self.numerator + other.numerator, self.denominator + other.denominator
        if numerator > LARGEST_DEGREE or denominator > LARGEST_DEGREE:
            return unknown("mul", self, other)
        return Element((a * x % PRIME, b * y % PRIME), numerator, denominator)

    __rmul__ = __mul__

    def __rtruediv__(self, other: Any) -> Element:
        """Divide by this element. The reciprocal of zero is an unknown number."""
        if 0 in self.points:
            return unknown("reciprocal", self) * other
        a, b = self.points
        return Element((pow(a, -1, PRIME), pow(b, -1, PRIME)), self.denominator, self.numerator) * other

    def sin(self) -> Element:
        return self._of_circle(lambda tangent, scale: 2 * tangent * scale)

    def cos(self) -> Element:
        return self._of_circle(lambda tangent, scale: (1 - tangent * tangent) * scale)

    def operation(self, name: str, *operands: Any) -> Element:
        """Apply an operation by name. A selection between equal elements is that element."""
        elements = [x if isinstance(x, Element) else constant(x) for x in operands]
        if name == "select" and elements[1].points == elements[2].points:
            return elements[1]
        return unknown(name, *elements)

    def _of_circle(self, coordinate: Callable[[int, int], int]) -> Element:
        """Return a coordinate of the point of the circle for this angle.

        The opposite angle has the opposite tangent of its half, so the sine is odd and the cosine even.
        """
        points = []
        for k, angle in enumerate(self.points):
            opposite = -angle % PRIME
            tangent = _draw("tangent", k, (min(angle, opposite),)) if angle else 0
            tangent = -tangent if opposite < angle else tangent
            points.append(coordinate(tangent, pow(1 + tangent * tangent, -1, PRIME)) % PRIME)
        return Element(tuple(points), 2, 2)


def _draw(name: str, point: int, values: Sequence[int]) -> int:
    """Return a pseudorandom residue that is a function of a name, a point and values."""
    digest = hashlib.blake2b(f"{name} {point}".encode(), digest_size=_BYTES + 8)
    for value in values:
        digest.update(value.to_bytes(_BYTES, "big"))
    return int.from_bytes(digest.digest(), "big") % PRIME


def unknown(name: str, *operands: Element) -> Element:
    """Return the result of an operation of which nothing is known but that it is a function of its operands."""
    return Element(tuple(_draw(name, k, [x.points[k] for x in operands]) for k in range(POINTS)))


def inputs(names: Sequence[str]) -> list[Element]:
    """Return independent random elements; equal names give equal elements."""
    return [unknown(f"input {name}") for name in names]


def unit_vector(names: Sequence[str]) -> list[Element]:
    """Return the coordinates of a random rational point of the unit sphere, by stereographic projection."""
    plane = inputs(names[1:])
    scales = [x.points for x in plane]
    columns: list[list[int]] = [[] for _ in names]
    for k in range(POINTS):
        squares = sum(points[k] ** 2 for points in scales)
        inverse = pow(1 + squares, -1, PRIME)
        columns[0].append((1 - squares) * inverse % PRIME)
        for column, points in zip(columns[1:], scales, strict=True):
            column.append(2 * points[k] * inverse % PRIME)
    return [Element(tuple(column), 2, 2) for column in columns]


def constant(value: float) -> Element:
    """Return the element of a number: a float, or the exact number of an `Exact`. Infinity and NaN are unknown
    numbers.
    """
    if not math.isfinite(value):
        return unknown(f"constant {value}")
    return Element((residue(value),) * POINTS, 0, 0)


def rational(element: Element) -> Fraction | None:
    """Return the rational constant that an element equals.

    It is the rational number with the smallest numerator and denominator that has the residue. The result is None if
    the element depends on inputs, or if no such number is small enough to be certain.
    """
    first, second = element.points
    return _rational(first) if first == second else None


@lru_cache(maxsize=10_000)
def _rational(residue: int) -> Fraction | None:
    """Reconstruct a rational number from its residue by Monagan's maximal quotient algorithm.

    Euclid's algorithm on the prime and the residue reaches n / d just before its largest quotient.
    """
    if residue == 0:
        return Fraction(0)
    best, constant = SURE, None
    (larger, smaller), (before, now) = (PRIME, residue), (0, 1)
    while smaller:
        quotient, rest = divmod(larger, smaller)
        if quotient > best:
            best, constant = quotient, Fraction(smaller, now)
        larger, smaller, before, now = smaller, rest, now, before - quotient * now
    return constant


def _check_rules() -> None:
    """Raise TypeError if an operation in `ops.OPS` is not defined for elements."""
    samples = inputs("abc")
    for op in OPS.values():
        operands: list[Any] = [*samples[: op.arity], *([1.0] if op.constant else [])]
        if op.arity and not isinstance(op.real(*operands), Element):
            raise TypeError(f"operation '{op.name}' has no meaning modulo a prime; expected Op.real to accept Element")


_check_rules()
