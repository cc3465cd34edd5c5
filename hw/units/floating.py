"""Floating-point numbers as bits: what converters compute, in numpy, and how long they take. No gateware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.format import Arithmetic, Format, Integers, Rescaled, rescale, to_float

FROM_FLOAT_LATENCY = 4
"""Cycles from a float32 to an integer."""
POINT_BITS = 11
"""Bits of the signed exponent that says where a number's binary point is."""
Words = npt.NDArray[Any]
"""Floating-point numbers as their bits: uint32 of float32."""


@dataclass(frozen=True)
class FloatFormat:
    """A floating-point format of IEEE 754. significand: its bits, the implicit one included. number, word: numpy's
    types of the number and of its bits."""

    bits: int
    significand: int
    number: type[np.floating]
    word: type[np.unsignedinteger]

    @property
    def exponent_bits(self) -> int:
        return self.bits - self.significand

    @property
    def bias(self) -> int:
        return (1 << self.exponent_bits - 1) - 1

    @property
    def longest_exact(self) -> int:
        """Bits of the widest word that no rounding is needed for: a sign and a significand."""
        return self.significand + 1

    @property
    def nan(self) -> int:
        """The bits of the NaN that stands for results that cannot be used."""
        return ((1 << self.exponent_bits + 1) - 1) << self.significand - 2


BINARY32 = FloatFormat(32, 24, np.float32, np.uint32)


def from_floating(words: Words, fmt: Format, widest: int, kind: FloatFormat) -> Rescaled:
    """Numbers as their bits (count,) to integers of a format, and which are NaN, infinite or do not fit.

    widest: of the formats that share the unit; it says how large a number has to be for nothing to be left of it.
    """
    field = words.astype(np.int64) >> kind.significand - 1 & (1 << kind.exponent_bits) - 1
    too_large = (field > largest_exponent(fmt, widest, kind)) | (field == (1 << kind.exponent_bits) - 1)
    real = np.where(too_large, 0.0, words.view(kind.number).astype(np.float64))
    exact = np.floor(np.ldexp(real, fmt.frac) + 0.5).astype(np.int64)
    fitted = rescale(exact, fmt.frac, fmt, Arithmetic())
    return Rescaled(fitted.value, fitted.overflow | too_large)


def to_floating(x: Integers, fmt: Format, kind: FloatFormat) -> Words:
    """The bits of the nearest numbers; infinite where they are too large."""
    with np.errstate(over="ignore"):
        return to_float(x, fmt).astype(kind.number).view(kind.word)


def to_float_latency(widest: int) -> int:
    """Cycles of the unit, of which one rounds."""
    return 5 if widest > BINARY32.longest_exact else 4


def up_shift(widest: int, kind: FloatFormat) -> int:
    """A significand moved up so far loses no bit that the widest format has, nor the one below it that rounds."""
    return max(widest - kind.significand + 1, 0)


def largest_exponent(fmt: Format, widest: int, kind: FloatFormat) -> int:
    """The biased exponent at which a significand is moved up all the way."""
    return up_shift(widest, kind) + kind.bias + kind.significand - 2 - fmt.frac


def point_into(fmt: Format) -> int:
    """Return the exponent that `FromFloatAt` expects for a format."""
    return largest_exponent(fmt, fmt.width, BINARY32)


def point_out_of(fmt: Format) -> int:
    """Return the exponent that `ToFloatAt` expects for a format: that of a number whose top bit is set."""
    return BINARY32.bias + fmt.width - 1 - fmt.frac
