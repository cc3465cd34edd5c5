"""Fixed-point formats and the one definition of rounding and overflow, on integers.

A value is integer / 2**frac, the integer a two's complement number of `width` bits. Sums and products are taken
exactly and brought to their result's format once, by `rescale`. Integers are numpy int64 where the exact result is
known to fit, Python integers (dtype object) where it may not: same code, same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from dynagate.base.errors import ArgumentError

Integers = npt.NDArray[Any]
"""int64, or object holding Python integers."""

HALF_UP = "half_up"
FLOOR = "floor"
SATURATE = "saturate"
WRAP = "wrap"
INT64_BITS = 62
"""Widest exact intermediate kept in int64: one bit is left for the rounding constant."""


@dataclass(frozen=True, order=True)
class Format:
    """width bits in all, sign included; frac of them right of the binary point (may be negative or exceed width)."""

    width: int
    frac: int

    def __post_init__(self) -> None:
        if self.width < 2:
            raise ArgumentError(f"Format width {self.width}; expected 2 or more bits, sign included")

    @property
    def lowest(self) -> int:
        return -(1 << (self.width - 1))

    @property
    def highest(self) -> int:
        return (1 << (self.width - 1)) - 1

    @property
    def step(self) -> float:
        """The value of one unit in the last place."""
        return 2.0**-self.frac

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and largest value."""
        return self.lowest * self.step, self.highest * self.step

    def __str__(self) -> str:
        return f"s{self.width}.{self.frac}"


@dataclass(frozen=True)
class Arithmetic:
    """How exact results become a format's: rounding half_up (⌊x + ½⌋) or floor, overflow wrap or saturate. What does
    not fit is flagged either way; saturation puts a multiplexer behind every adder."""

    rounding: str = HALF_UP
    overflow: str = WRAP

    def __post_init__(self) -> None:
        if self.rounding not in (HALF_UP, FLOOR):
            raise ArgumentError(f"rounding '{self.rounding}'; expected '{HALF_UP}' or '{FLOOR}'")
        if self.overflow not in (SATURATE, WRAP):
            raise ArgumentError(f"overflow '{self.overflow}'; expected '{SATURATE}' or '{WRAP}'")


class Rescaled(NamedTuple):
    """Integers in the requested format, and which of them did not fit."""

    value: Integers
    overflow: npt.NDArray[np.bool_]


class FormattedIntegers(NamedTuple):
    """Integers with the format that they are in."""

    value: Integers
    format: Format


def wide(value: Integers, bits: int) -> Integers:
    """The integers in a type that holds exact results of this many bits."""
    return value.astype(object) if bits > INT64_BITS and value.dtype != object else value


def rescale(value: Integers, frac: int, to: Format, arithmetic: Arithmetic) -> Rescaled:
    """Exact integers with `frac` fraction bits, rounded once and brought into `to`."""
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
    """Return a shift to the right that numpy defines for this array, with the same result as a shift by `count`."""
    return count if value.dtype == object else min(count, 63)


def quantize(x: npt.ArrayLike, to: Format) -> Rescaled:
    """Real numbers to the nearest integer of the format (half up), saturated. NaN is refused with ValueError."""
    scaled = np.ldexp(np.asarray(x, dtype=np.float64), to.frac)
    if np.isnan(scaled).any():
        raise ArgumentError("quantize: the input holds NaN")
    rounded = np.floor(scaled + 0.5)
    overflow = (rounded < to.lowest) | (rounded > to.highest)
    clipped = np.clip(rounded, float(to.lowest), float(to.highest))
    return Rescaled(np.minimum(clipped.astype(np.int64), to.highest), np.asarray(overflow, dtype=bool))


def carried(x: npt.NDArray[Any], number: str | None) -> npt.NDArray[Any]:
    """Numbers after a stream that carries this type, "float32"; None: as they are. What is too large
    becomes infinite."""
    if number is None:
        return x
    with np.errstate(over="ignore"):
        return x.astype(number).astype(np.float64)


def to_float(value: Integers, fmt: Format) -> npt.NDArray[np.float64]:
    return np.ldexp(np.asarray(value, dtype=np.float64), -fmt.frac)
