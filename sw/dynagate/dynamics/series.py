"""Power series used for rotations, and their evaluation over any scalar."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb, factorial
from typing import Any

Scalar = Any


def polynomial(coefficients: Sequence[float], x: Scalar) -> Scalar:
    """Evaluate a polynomial by Horner's rule. `coefficients` run from the highest power to the constant."""
    value = coefficients[0]
    for c in coefficients[1:]:
        value = value * x + c
    return value


def sine_series(start: int, terms: int) -> list[float]:
    """Return the coefficients (-1)ᵏ / (2k + start)! for k = 0, 1, ..., terms - 1.

    In powers of x², start 0 gives cos x, 1 gives sin x / x, 2 gives (1 - cos x) / x², and 3 gives (x - sin x) / x³.
    """
    return [(-1) ** k / factorial(2 * k + start) for k in range(terms)]


def arc_sine_series(terms: int) -> list[float]:
    """Return the coefficients of asin(x) / x in powers of x², starting with the constant."""
    return [comb(2 * n, n) / (4.0**n * (2 * n + 1)) for n in range(terms)]


def unscrew_series(terms: int) -> list[float]:
    """Return the coefficients |B₂ₖ| / (2k)! of (1 - x/2 cot(x/2)) / x² in powers of x², starting with the constant.

    They are exact to rounding, because they are computed in fractions from the power series of x / (eˣ - 1).
    """
    series = [Fraction(1)]
    for n in range(1, 2 * terms + 1):
        series.append(-sum((c / factorial(n + 1 - k) for k, c in enumerate(series)), Fraction(0)))
    return [float(abs(c)) for c in series[2::2]]
