"""1/x on integers where the two formats leave x few octaves: a table of short polynomials, no normalization.

The operand's format bounds x above, the result's format bounds 1/x and so x below. Between the two lie `octaves` of x.
A Newton step needs a seed of half the result's bits, which is a normalized operand's affair; a segment of the table
instead has the line, or the parabola, that is near 1/x in it.

Segments grow with x: within a window of two octaves all have one width, since the error falls with x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.format import Arithmetic, Format, Integers, Rescaled, rescale, wide

LARGEST_TABLE = 1 << 17
"""Bits of the largest table: four block RAMs of 36 Kbit, less what their widths waste."""
LONGEST_FACTORS = 18, 27
"""Bits of the two factors of a product within one multiplier block."""
TABULATED_OCTAVES = 8
"""Octaves of the operand at which there are tables for words of 20 bits."""
SPARE_BITS = 3
"""Fraction bits of a segment's value beyond the result's."""

FEWEST_INDEX_BITS = 2
"""Smallest number of index bits of a window: two halves of three octaves at least, so that no segment begins at
zero.
"""


@dataclass(frozen=True)
class Window:
    """Segments of one width. x of the window has `bits` bits without leading zeros, or one less. A segment holds
    2**offset_bits operands and `first` is its address, if its index were zero."""

    bits: int
    offset_bits: int
    first: int

    @property
    def index_bits(self) -> int:
        return self.bits - self.offset_bits


@dataclass(frozen=True)
class TablePlan:
    """y = c0 + d c1, or c0 + d (c1 + d c2), where d is the signed offset from the center of a segment.

    least: the least operand whose result fits. windows: the smallest operands' first. coefficients: c0, c1 (, c2), each
    (segments,). c1 and c2 have frac1 and frac2 bits below the result's last one, c0 has SPARE_BITS, half a unit for the
    last rounding included.
    """

    least: int
    windows: tuple[Window, ...]
    coefficients: tuple[tuple[int, ...], ...]
    frac1: int
    frac2: int

    @property
    def degree(self) -> int:
        return len(self.coefficients) - 1

    @property
    def offset_width(self) -> int:
        """Bits of d."""
        return self.windows[-1].offset_bits

    @property
    def widths(self) -> tuple[int, ...]:
        """Bits of each coefficient, signed."""
        return tuple(max(c.bit_length() for c in column) + 1 for column in self.coefficients)

    @property
    def bits(self) -> int:
        return sum(self.widths) * len(self.coefficients[0])

    @property
    def inner_shift(self) -> int:
        """From d c2 to the fraction of c1."""
        return self.frac2 - self.frac1

    @property
    def slope_width(self) -> int:
        """Bits of what d is multiplied with at last: c1, or c1 + d c2, which may need one bit more."""
        return self.widths[1] + self.degree - 1


@lru_cache(maxsize=256)
def table_plan(source_width: int, to_width: int, point: int) -> TablePlan | None:
    """The shortest polynomials whose table is no larger than LARGEST_TABLE; None where there are none.

    point: the fraction bits of operand and result together, so that 1/x of the integers is 2**point / x.
    """
    least = (1 << (point + 1)) // ((1 << to_width) - 1) + 1 if point >= 0 else 1
    first_bit = least.bit_length() - 1
    if point < 0 or not FEWEST_INDEX_BITS <= first_bit < source_width - 1:
        return None
    for degree in (1, 2):
        windows = _windows(degree, first_bit, source_width - 1, point)
        entries = windows[-1].first + (1 << windows[-1].index_bits)
        if entries * (to_width + SPARE_BITS) > LARGEST_TABLE:
            continue
        plan = _filled(degree, windows, least, point)
        narrow, broad = sorted((plan.offset_width, plan.slope_width))
        if plan.bits <= LARGEST_TABLE and narrow <= LONGEST_FACTORS[0] and broad <= LONGEST_FACTORS[1]:
            return plan
    return None


def _windows(degree: int, first_bit: int, last_bit: int, point: int) -> tuple[Window, ...]:
    """Windows of two octaves, in which polynomials through Chebyshev points err by a quarter of a unit at most.

    Through n = degree + 1 points of a segment of width h about x they err by 2 (h/4)**n 2**point / x**(n + 1).
    """
    n = degree + 1
    windows: list[Window] = []
    free = 0
    for bit in range(first_bit, last_bit, 2):
        bits = min(bit + 2, last_bit)
        accurate = ((n + 1) * bit - point - 3) // n + 2
        offset_bits = max(1, min(accurate, bits - FEWEST_INDEX_BITS))
        size = 1 << (bits - offset_bits)
        first = -(-free // size) * size  # a multiple, so that the address is wiring
        windows.append(Window(bits, offset_bits, first))
        free = first + size
    return tuple(windows)


def _filled(degree: int, windows: tuple[Window, ...], least: int, point: int) -> TablePlan:
    entries = windows[-1].first + (1 << windows[-1].index_bits)
    columns = np.zeros((degree + 1, entries))
    offset_bits = windows[-1].offset_bits
    fractions = SPARE_BITS, offset_bits + 2, 2 * offset_bits + 1
    for k, window in enumerate(windows):
        lowest = max(least, 1 << windows[k - 1].bits if k else 0)
        segments = np.arange(lowest >> window.offset_bits, 1 << window.index_bits)
        columns[:, window.first + segments] = _polynomials(degree, segments, window.offset_bits, point)
    columns[0] += np.where(columns[0] > 0.0, 0.5, 0.0)
    rounded = [
        tuple(int(c) for c in np.floor(np.ldexp(column, frac) + 0.5))
        for column, frac in zip(columns, fractions, strict=False)
    ]
    return TablePlan(least, windows, tuple(rounded), fractions[1], fractions[2])


def _polynomials(degree: int, segments: npt.NDArray[np.int64], offset_bits: int, point: int) -> npt.NDArray[np.float64]:
    """Coefficients (degree + 1, segments) of the polynomials in d that equal 2**point / x at Chebyshev points of each
    segment. With two operands a segment they are the points."""
    half = (2.0**offset_bits - 1.0) / 2.0  # d runs from -half - 1/2 to half - 1/2
    if offset_bits == 1:
        degree_here, nodes = 1, np.array([-1.0, 0.0])
    else:
        degree_here = degree
        nodes = half * np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1)) - 0.5
    centers = (segments + 0.5) * 2.0**offset_bits
    values = np.ldexp(1.0, point) / (centers + nodes[:, None])
    coefficients = np.zeros((degree + 1, len(segments)))
    coefficients[: degree_here + 1] = np.linalg.solve(np.vander(nodes, increasing=True), values)
    return coefficients


def tabulated(x: Integers, plan: TablePlan, source: Format, to: Format) -> Rescaled:
    """1/x, within 0.9 of a unit; the flag where x is not positive or the result does not fit."""
    n = np.asarray(x, dtype=np.int64) & ((1 << (source.width - 1)) - 1)
    address, d = np.zeros_like(n), np.zeros_like(n)
    for k, window in enumerate(plan.windows):
        here = n >= (1 << plan.windows[k - 1].bits if k else 0)
        address = np.where(here, window.first + (n >> window.offset_bits), address)
        offset = (n & ((1 << window.offset_bits) - 1)) - (1 << (window.offset_bits - 1))
        d = np.where(here, offset, d)
    address = np.minimum(address, len(plan.coefficients[0]) - 1)  # of windows that are above the operand's own
    c0, c1, *more = (np.array(column, dtype=np.int64)[address] for column in plan.coefficients)
    slope = c1 + ((d * more[0] + (1 << (plan.inner_shift - 1))) >> plan.inner_shift) if more else c1
    bits = to.width + SPARE_BITS + plan.frac1
    exact = wide(d, bits) * slope + (wide(c0, bits) << (plan.frac1 - SPARE_BITS))
    result = rescale(exact >> plan.frac1, to.frac, to, Arithmetic())
    return Rescaled(result.value, result.overflow | np.asarray((x < plan.least), dtype=bool))
