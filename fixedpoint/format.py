"""Fixed-point formats, and the only definition of rounding and overflow, on integers.

A value is integer / 2**frac, where the integer is a two's complement number of `width` bits. Sums and products are
exact and are rounded to the format of their result once, by `rescale`. Integers are numpy int64 if the exact result is
known to fit, else Python integers (dtype object): same code, same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.base.errors import ArgumentError

Integers = npt.NDArray[Any]
"""Array of int64, or of Python integers with dtype object."""

HALF_UP = "half_up"
"""Rounding to the nearest integer, halves upwards: ⌊x + ½⌋."""
FLOOR = "floor"
"""Rounding downwards."""
SATURATE = "saturate"
"""Overflow: the nearest number that fits."""
WRAP = "wrap"
"""Overflow: the low bits of the integer."""
INT64_BITS = 62
"""Largest number of bits of an exact intermediate value in int64: one bit remains for the rounding constant."""


@dataclass(frozen=True, order=True)
class Format:
    """A fixed-point format."""

    width: int
    """Bits in all, with the sign; at least 2."""
    frac: int
    """Bits right of the binary point; may be negative or exceed the width."""

    def __post_init__(self) -> None:
        if self.width < 2:
            raise ArgumentError(
                f"Format width {self.width}; expected 2 or more bits, sign included", code="DG-FORMAT-010"
            )

    @property
    def lowest(self) -> int:
        """Return the smallest integer."""
        return -(1 << (self.width - 1))

    @property
    def highest(self) -> int:
        """Return the largest integer."""
        return (1 << (self.width - 1)) - 1

    @property
    def step(self) -> float:
        """Return the value of one unit in the last place."""
        return 2.0**-self.frac

    @property
    def limits(self) -> tuple[float, float]:
        """Return the smallest and the largest value."""
        return self.lowest * self.step, self.highest * self.step

    def __str__(self) -> str:
        return f"s{self.width}.{self.frac}"


@dataclass(frozen=True)
class Arithmetic:
    """How exact results enter a format. Results that do not fit are flagged in any case."""

    rounding: str = HALF_UP
    """HALF_UP or FLOOR."""
    overflow: str = WRAP
    """WRAP or SATURATE; saturation puts a multiplexer behind every adder."""

    def __post_init__(self) -> None:
        if self.rounding not in (HALF_UP, FLOOR):
            raise ArgumentError(f"rounding '{self.rounding}'; expected '{HALF_UP}' or '{FLOOR}'", code="DG-FORMAT-011")
        if self.overflow not in (SATURATE, WRAP):
            raise ArgumentError(f"overflow '{self.overflow}'; expected '{SATURATE}' or '{WRAP}'", code="DG-FORMAT-012")


class Rescaled(NamedTuple):
    """Integers in a format, and which of them did not fit."""

    value: Integers
    overflow: npt.NDArray[np.bool_]


class FormattedIntegers(NamedTuple):
    """Integers with their format."""

    value: Integers
    format: Format


def wide(value: Integers, bits: int) -> Integers:
    """Return integers in a type that holds exact results of this many bits."""
    return value.astype(object) if bits > INT64_BITS and value.dtype != object else value


def rescale(value: Integers, frac: int, to: Format, arithmetic: Arithmetic) -> Rescaled:
    """Round exact integers into a format.

    Args:
        value: Exact integers.
        frac: Fraction bits of the integers.
        to: Format of the result.
        arithmetic: Rounding and overflow.
    """
    shift = frac - to.frac
    if shift > 0:
        # the bit below the last one is added after the shift: half of a large shift, added before it, needs more bits
        half = (value >> _shift(value, shift - 1)) & 1 if arithmetic.rounding == HALF_UP else 0
        value = (value >> _shift(value, shift)) + half
    elif shift < 0:
        largest = max(abs(int(value.max())), abs(int(value.min()))) if value.size else 0
        value = wide(value, largest.bit_length() - shift + 1) << -shift
    overflow = np.asarray((value < to.lowest) | (value > to.highest), dtype=bool)
    if np.count_nonzero(overflow):  # a third of any's time
        if arithmetic.overflow == SATURATE:
            value = np.clip(value, to.lowest, to.highest)
        else:
            value = ((value - to.lowest) & ((1 << to.width) - 1)) + to.lowest
    if value.dtype == object and to.width <= INT64_BITS:
        value = value.astype(np.int64)
    return Rescaled(value, overflow)


def _shift(value: Integers, count: int) -> int:
    """Return a right shift that numpy defines for this array, with the same result as a shift by `count`."""
    return count if value.dtype == object else min(count, 63)


def quantize(x: npt.ArrayLike, to: Format) -> Rescaled:
    """Round real numbers to the nearest integers of a format (half up) and saturate them.

    Args:
        x: Real numbers, any shape.
        to: Format of the result.

    Raises:
        ArgumentError: A number is NaN.
    """
    scaled = np.ldexp(np.asarray(x, dtype=np.float64), to.frac)
    if np.isnan(scaled).any():
        raise ArgumentError("quantize: the input holds NaN", code="DG-FORMAT-013")
    rounded = np.floor(scaled + 0.5)
    overflow = (rounded < to.lowest) | (rounded > to.highest)
    clipped = np.clip(rounded, float(to.lowest), float(to.highest))
    return Rescaled(np.minimum(clipped.astype(np.int64), to.highest), np.asarray(overflow, dtype=bool))


def carried(x: npt.NDArray[Any], number: str | None) -> npt.NDArray[Any]:
    """Return numbers as a stream of this type carries them; numbers that are too large become infinite.

    Args:
        x: Numbers, any shape.
        number: "float32", or None for no rounding.
    """
    if number is None:
        return x
    with np.errstate(over="ignore"):
        return x.astype(number).astype(np.float64)


def to_float(value: Integers, fmt: Format) -> npt.NDArray[np.float64]:
    """Return the values of integers in a format, as float64."""
    return np.ldexp(np.asarray(value, dtype=np.float64), -fmt.frac)
