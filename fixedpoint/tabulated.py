"""1/x on integers for operands that span few octaves: a table of short polynomials without normalization.

The format of the operand bounds x above; the format of the result bounds 1/x, and so x below. Between the two lie a few
octaves of x. A Newton step needs a seed with half the result's bits, and so a normalized operand. A segment of the
table instead holds the line, or the parabola, that approximates 1/x in it.

Segments grow with x: within a window of two octaves all have one width, since the error falls with x.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
from dynagate.fixedpoint.elementary import signed_bits
from dynagate.fixedpoint.format import Arithmetic, Format, Integers, Rescaled, rescale, wide

LARGEST_TABLE = 1 << 17
"""Bits of the largest table: four block RAMs of 36 Kbit, minus what their widths waste."""
LONGEST_FACTORS = 18, 27
"""Bits of the two factors of a product in one multiplier block."""
TABULATED_OCTAVES = 8
"""Octaves of the operand up to which tables exist for words of 20 bits."""
SPARE_BITS = 3
"""Fraction bits of a segment's value beyond the result's."""

FEWEST_INDEX_BITS = 2
"""Smallest number of index bits of a window: at least two halves of three octaves, so that no segment begins at
zero.
"""


@dataclass(frozen=True)
class Window:
    """Segments of one width."""

    bits: int
    """Bits of x in the window without leading zeros; x may have one bit less."""
    offset_bits: int
    """Lower bits of x: a segment holds 2**offset_bits operands."""
    first: int
    """Address of the segment with index zero."""

    @property
    def index_bits(self) -> int:
        """Return the bits that select a segment of the window."""
        return self.bits - self.offset_bits


@dataclass(frozen=True)
class TablePlan:
    """Table for y = c0 + d c1, or c0 + d (c1 + d c2), with the signed offset d from the center of a segment."""

    least: int
    """Smallest operand whose result fits."""
    windows: tuple[Window, ...]
    """Windows, that of the smallest operands first."""
    coefficients: tuple[tuple[int, ...], ...]
    """Coefficients c0, c1 and possibly c2, (segments,) each. c0 includes half a unit for the last rounding."""
    frac1: int
    """Bits of c1 below the last bit of the result."""
    frac2: int
    """Bits of c2 below the last bit of the result."""

    @property
    def degree(self) -> int:
        """Return the degree of the polynomials."""
        return len(self.coefficients) - 1

    @property
    def offset_width(self) -> int:
        """Return the bits of d."""
        return self.windows[-1].offset_bits

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Return the bits of each coefficient, with sign."""
        return tuple(max(c.bit_length() for c in column) + 1 for column in self.coefficients)

    @property
    def bits(self) -> int:
        """Return the bits of the table."""
        return sum(self.widths) * len(self.coefficients[0])

    @property
    def inner_shift(self) -> int:
        """Return the bits to drop from d c2 to align it with c1."""
        return self.frac2 - self.frac1

    @cached_property
    def slope_width(self) -> int:
        """Return the bits of the last factor of d: c1, or c1 + d c2."""
        return signed_bits(slope for _, _, slope in self._ends())

    @cached_property
    def sum_width(self) -> int:
        """Return the bits of the sum before its `frac1` last bits are dropped, with the sign."""
        return signed_bits((c0 << (self.frac1 - SPARE_BITS)) + d * slope for c0, d, slope in self._ends())

    @cached_property
    def product_widths(self) -> tuple[int, ...]:
        """Return the bits of d c2 if there is a c2, and those of the product of d and the slope, with the sign."""
        outer = signed_bits(d * slope for _, d, slope in self._ends())
        if self.degree == 1:
            return (outer,)
        return signed_bits(d * self.coefficients[2][k] for k, offsets in self._segments() for d in offsets), outer

    def _segments(self) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the address, and the smallest and the largest d, for each segment."""
        for window in self.windows:
            half = 1 << (window.offset_bits - 1)
            yield from ((window.first + k, (-half, half - 1)) for k in range(1 << window.index_bits))

    def _ends(self) -> Iterator[tuple[int, int, int]]:
        """Yield c0, an end of the range of d, and an end of the range of its last factor, for each segment."""
        for k, offsets in self._segments():
            c0, c1, *more = (column[k] for column in self.coefficients)
            half = 1 << (self.inner_shift - 1) if more else 0
            for bend in ((d * more[0] + half) >> self.inner_shift if more else 0 for d in offsets):
                yield from ((c0, d, c1 + bend) for d in offsets)


@lru_cache(maxsize=256)
def table_plan(source_width: int, to_width: int, point: int) -> TablePlan | None:
    """Return the shortest polynomials whose table is not larger than LARGEST_TABLE; None if no table is small enough.

    Args:
        source_width: Bits of the operand.
        to_width: Bits of the result.
        point: Fraction bits of operand and result together: 1/x of the integers is 2**point / x.
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
    """Return windows of two octaves in which polynomials through Chebyshev points err by at most a quarter of a unit.

    With n = degree + 1 points in a segment of width h around x, the error is 2 (h/4)**n 2**point / x**(n + 1).
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
    """Return the plan with the coefficients of all segments."""
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
    """Return the coefficients (degree + 1, segments) of polynomials in d that equal 2**point / x at Chebyshev points.

    In a segment with two operands, these are the points.
    """
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


def tabulated_address(x: Integers, plan: TablePlan, source: Format) -> tuple[npt.NDArray[np.int64], Integers]:
    """Return the entry that each operand reads, and its offset d from the center of the segment."""
    n = np.asarray(x, dtype=np.int64) & ((1 << (source.width - 1)) - 1)
    address, d = np.zeros_like(n), np.zeros_like(n)
    for k, window in enumerate(plan.windows):
        here = n >= (1 << plan.windows[k - 1].bits if k else 0)
        address = np.where(here, window.first + (n >> window.offset_bits), address)
        offset = (n & ((1 << window.offset_bits) - 1)) - (1 << (window.offset_bits - 1))
        d = np.where(here, offset, d)
    return np.minimum(address, len(plan.coefficients[0]) - 1), d  # of windows that are above the operand's own


def tabulated(x: Integers, plan: TablePlan, source: Format, to: Format) -> Rescaled:
    """Return 1/x, accurate to 0.9 of a unit; an overflow flag if x is not positive or the result does not fit."""
    address, d = tabulated_address(x, plan, source)
    c0, c1, *more = (np.array(column, dtype=np.int64)[address] for column in plan.coefficients)
    slope = c1 + ((d * more[0] + (1 << (plan.inner_shift - 1))) >> plan.inner_shift) if more else c1
    bits = to.width + SPARE_BITS + plan.frac1
    exact = wide(d, bits) * slope + (wide(c0, bits) << (plan.frac1 - SPARE_BITS))
    result = rescale(exact >> plan.frac1, to.frac, to, Arithmetic())
    return Rescaled(result.value, result.overflow | np.asarray((x < plan.least), dtype=bool))
