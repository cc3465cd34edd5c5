"""Models of the floating-point converters in numpy, and their latencies (no gateware)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.format import Arithmetic, Format, Integers, Rescaled, rescale, to_float

FROM_FLOAT_LATENCY = 4
"""Cycles from a float32 to an integer."""
POINT_BITS = 11
"""Bits of the signed exponent that places a number's binary point."""
Words = npt.NDArray[Any]
"""Bits of floating-point numbers, uint32 for float32."""


@dataclass(frozen=True)
class FloatFormat:
    """A floating-point format of IEEE 754."""

    bits: int
    """Bits of a number."""
    significand: int
    """Bits of the significand, including the implicit one."""
    number: type[np.floating]
    """Numpy type of a number."""
    word: type[np.unsignedinteger]
    """Numpy type of its bits."""

    @property
    def exponent_bits(self) -> int:
        """Return the bits of the exponent."""
        return self.bits - self.significand

    @property
    def bias(self) -> int:
        """Return the exponent's bias."""
        return (1 << self.exponent_bits - 1) - 1

    @property
    def longest_exact(self) -> int:
        """Return the bits of the widest integer that converts without rounding: a sign and a significand."""
        return self.significand + 1

    @property
    def nan(self) -> int:
        """Return the bits of the NaN that marks unusable results."""
        return ((1 << self.exponent_bits + 1) - 1) << self.significand - 2


BINARY32 = FloatFormat(32, 24, np.float32, np.uint32)
"""The format of float32."""


def from_floating(words: Words, fmt: Format, widest: int, kind: FloatFormat) -> Rescaled:
    """Convert floating-point words to integers.

    Args:
        words: Bits of the numbers, (count,).
        fmt: Format of the integers.
        widest: Bits of the widest format of the unit. Numbers far above it become 0.
        kind: Floating-point format.

    Returns:
        The integers, and which numbers are NaN, infinite or do not fit.
    """
    field = words.astype(np.int64) >> kind.significand - 1 & (1 << kind.exponent_bits) - 1
    too_large = (field > largest_exponent(fmt, widest, kind)) | (field == (1 << kind.exponent_bits) - 1)
    real = np.where(too_large, 0.0, words.view(kind.number).astype(np.float64))
    exact = np.floor(np.ldexp(real, fmt.frac) + 0.5).astype(np.int64)
    fitted = rescale(exact, fmt.frac, fmt, Arithmetic())
    return Rescaled(fitted.value, fitted.overflow | too_large)


def to_floating(x: Integers, fmt: Format, kind: FloatFormat) -> Words:
    """Return the bits of the nearest floating-point numbers; infinity if an integer is too large.

    Args:
        x: Integers (count,).
        fmt: Format of the integers.
        kind: Floating-point format.
    """
    with np.errstate(over="ignore"):
        return to_float(x, fmt).astype(kind.number).view(kind.word)


def to_float_latency(widest: int) -> int:
    """Return the cycles from an integer to a float32; words wider than a significand take one more to round."""
    return 5 if widest > BINARY32.longest_exact else 4


def up_shift(widest: int, kind: FloatFormat) -> int:
    """Return the bits by which a significand is shifted left, so that no bit of the widest format is lost."""
    return max(widest - kind.significand + 1, 0)


def largest_exponent(fmt: Format, widest: int, kind: FloatFormat) -> int:
    """Return the biased exponent at which a significand is shifted left all the way."""
    return up_shift(widest, kind) + kind.bias + kind.significand - 2 - fmt.frac


def point_into(fmt: Format) -> int:
    """Return the exponent that `FromFloatAt` expects for a format."""
    return largest_exponent(fmt, fmt.width, BINARY32)


def point_out_of(fmt: Format) -> int:
    """Return the exponent that `ToFloatAt` expects for a format: the one of a number whose top bit is set."""
    return BINARY32.bias + fmt.width - 1 - fmt.frac
