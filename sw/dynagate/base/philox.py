"""Counter-based random numbers, defined by integers that are the same on every backend and on a chip.

Philox 2x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) computes 64 bits from two counters
and a key of 32 bits each. A number is the sum of their four halves of 16 bits: nearly normal, within 3.5 standard
deviations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]

FACTOR, KEY_STEP, ROUNDS = 0xD256D193, 0x9E3779B9, 10
MEAN = 131070
"""Mean of the sum of four 16-bit halves, which is subtracted from each sum."""
FRAC, WIDTH = 15, 18
"""Fraction bits and total bits of a number's integer. Numbers are between -4 and 4."""
DEVIATION = float(np.sqrt(4.0 * (65536.0**2 - 1.0) / 12.0))
"""Standard deviation of the integers."""
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(first: Any, second: Any, key: Any) -> tuple[Words, Words]:
    """Return two words of 32 bits, computed from two counters and a key of 32 bits each.

    Args:
        first: First counter, a nonnegative integer or an array of them.
        second: Second counter.
        key: Key.
    """
    a, b, k = (np.asarray(x, dtype=np.uint64) for x in (first, second, key))
    for _ in range(ROUNDS):
        product = a * np.uint64(FACTOR)
        a, b = (product >> _HALF) ^ k ^ b, product & _LOW
        k = (k + np.uint64(KEY_STEP)) & _LOW
    return a, b


def integers(number: Any, draw: Any, seed: Any) -> Integers:
    """Return the integers of random numbers: -131070 to 131070, with mean 0.

    Args:
        number: Indices of the numbers, 32 bits each.
        draw: Index of the draw, 32 bits.
        seed: Seed, 32 bits.
    """
    halves = np.uint64(0xFFFF)
    total = sum((x >> np.uint64(16)) + (x & halves) for x in philox(number, draw, seed))
    return np.asarray(total).astype(np.int64) - MEAN


def real(number: Any, draw: Any, seed: Any) -> Any:
    """Return random numbers as floats: integers times 2**-FRAC.

    The arguments are rounded to integers, half up, and taken modulo 2**32.

    Args:
        number: Indices of the numbers.
        draw: Index of the draw.
        seed: Seed.
    """
    whole = []
    for x in (number, draw, seed):
        rounded = np.floor(np.real(np.asarray(x)).astype(np.float64) + 0.5)
        whole.append(np.mod(np.where(np.isfinite(rounded), rounded, 0.0), 2.0**32).astype(np.uint64))
    return (integers(*whole) * 2.0**-FRAC)[()]
