"""Define sin, cos, exp, 1/x and √x on integers. Hardware units follow these definitions step by step.

A plan holds the widths and tables that follow from the formats of operand and result. The functions apply a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from dynagate.fixedpoint.format import Arithmetic, Format, Integers, Rescaled, rescale, wide

LAST = Arithmetic()
"""Arithmetic with which results enter their format."""
LARGEST_SEED_TABLE = 12
"""Index bits of the largest reciprocal table: 4096 entries fill two block RAMs and save a Newton step."""


@dataclass(frozen=True)
class Quadratic:
    """A function of u in [0, 1), approximated by c0 + d (c1 + d c2) in each segment of a table."""

    bits: int
    """Bits of u."""
    index_bits: int
    """Upper bits of u, which select the segment. The remaining bits are d, a signed offset from the segment's
    center.
    """
    frac: int
    """Fraction bits of the result."""
    frac0: int
    """Fraction bits of c0."""
    frac1: int
    """Fraction bits of c1."""
    frac2: int
    """Fraction bits of c2."""
    c0: tuple[int, ...]
    """Constant coefficient of each segment."""
    c1: tuple[int, ...]
    """Linear coefficient of each segment, for d in units of 2**-bits."""
    c2: tuple[int, ...]
    """Quadratic coefficient of each segment."""

    @property
    def offset_bits(self) -> int:
        """Return the bits of the offset d."""
        return self.bits - self.index_bits

    @property
    def inner_shift(self) -> int:
        """Return the bits to drop from d c2 to align it with c1."""
        return self.frac2 + self.bits - self.frac1

    @property
    def outer_frac(self) -> int:
        """Return the fraction bits of d (c1 + d c2)."""
        return self.bits + self.frac1

    @property
    def outer_shift(self) -> int:
        """Return the bits to drop from that product to align it with the result."""
        return self.outer_frac - self.frac

    @cached_property
    def slope_width(self) -> int:
        """Return the bits of c1 + d c2, with the sign."""
        return signed_bits(slope for _, _, slope in self._ends())

    @cached_property
    def sum_width(self) -> int:
        """Return the bits of c0 + d (c1 + d c2) before the last bits are dropped, with the sign."""
        up, half = self.outer_frac - self.frac0, 1 << (self.outer_shift - 1)
        return signed_bits((c0 << up) + half + d * slope for c0, d, slope in self._ends())

    @cached_property
    def product_widths(self) -> tuple[int, int]:
        """Return the bits of d c2, and those of the product of d and the slope, with the sign."""
        return signed_bits(d * c2 for d in self._offsets for c2 in self.c2), signed_bits(
            d * slope for _, d, slope in self._ends()
        )

    @property
    def _offsets(self) -> tuple[int, int]:
        """Return the smallest and the largest d."""
        return -(1 << (self.offset_bits - 1)), (1 << (self.offset_bits - 1)) - 1

    def _ends(self) -> Iterator[tuple[int, int, int]]:
        """Yield c0, an end of the range of d, and an end of the range of c1 + d c2, for each segment."""
        half = 1 << (self.inner_shift - 1)
        for c0, c1, c2 in zip(self.c0, self.c1, self.c2, strict=True):
            for bend in ((d * c2 + half) >> self.inner_shift for d in self._offsets):
                yield from ((c0, d, c1 + bend) for d in self._offsets)

    def rounded(self, u: Integers) -> Integers:
        """Return the function of u (int64), rounded half up."""
        segment = u >> self.offset_bits
        d = (u & ((1 << self.offset_bits) - 1)) - (1 << (self.offset_bits - 1))
        c0, c1, c2 = (np.array(table, dtype=np.int64)[segment] for table in (self.c0, self.c1, self.c2))
        slope = c1 + ((d * c2 + (1 << (self.inner_shift - 1))) >> self.inner_shift)
        bits = self.outer_frac + 4
        exact = wide(d, bits) * slope + (wide(c0, bits) << (self.outer_frac - self.frac0))
        return (exact + (1 << (self.outer_shift - 1))) >> self.outer_shift


def _quadratic(function: Callable[[Any], Any], bits: int, index_bits: int, frac: int) -> Quadratic:
    """Return the table of a function from Chebyshev points; its error is f''' h³ / 192 on segments of width h.

    An integer u stands for the center of its cell, so that a function and its mirror image have mirrored tables.
    """
    frac0 = frac + 3
    frac1 = max(frac0 - index_bits, 2)
    frac2 = max(frac0 - 2 * index_bits, 2)
    h = 2.0**-index_bits
    nodes = np.cos(np.pi * (np.arange(3) + 0.5) / 3) * h / 2
    coefficients = []
    for segment in range(1 << index_bits):
        center = (segment + 0.5) * h + 2.0 ** -(bits + 1)
        coefficients.append(np.linalg.solve(np.vander(nodes, 3, increasing=True), function(center + nodes)))
    c0, c1, c2 = np.array(coefficients).T
    tables = (_integers(c0, frac0), _integers(c1, frac1), _integers(c2, frac2))
    return Quadratic(bits, index_bits, frac, frac0, frac1, frac2, *tables)


def signed_bits(values: Iterable[int]) -> int:
    """Return the bits, with the sign, that hold each of these integers."""
    return 1 + max(value.bit_length() if value >= 0 else (-value - 1).bit_length() for value in values)


def _integers(values: Any, frac: int) -> tuple[int, ...]:
    return tuple(int(v) for v in np.floor(np.ldexp(values, frac) + 0.5))


@dataclass(frozen=True)
class SinePlan:
    """Plan for sin x, with x in rad: reduce x to a fraction of a revolution, fold it to a quarter, and use a table."""

    per_radian: int
    """Integer factor: the phase, in revolutions, is (x · per_radian) >> phase_shift, modulo 2**phase_bits."""
    phase_shift: int
    """Bits to drop from that product."""
    quarter: Quadratic
    """Table of a quarter of the sine."""

    @property
    def phase_bits(self) -> int:
        """Return the bits of the phase."""
        return self.quarter.bits + 2


@lru_cache(maxsize=256)
def sine_plan(source: Format, to: Format) -> SinePlan:
    """Return the plan of a sine that is correct to half a unit in the last place before the last rounding.

    With f = sin(π u / 2), 2**index_bits segments keep the error of the quadratic below 2**-(frac + 2).
    """
    frac = max(to.frac, 2)
    phase_bits = max(frac + 4, 8)
    spare = max(source.width - source.frac - 1, 0)
    index_bits = min(max(math.ceil((frac - 3.6) / 3), 2), phase_bits - 4)
    return SinePlan(
        per_radian=round(2.0 ** (phase_bits + spare) / (2 * math.pi)),
        phase_shift=source.frac + spare,
        quarter=_quadratic(lambda u: np.sin(np.pi / 2 * u), phase_bits - 2, index_bits, frac),
    )


def sine(x: Integers, source: Format, to: Format) -> Rescaled:
    """Return sin x, rounded."""
    return _sine(x, source, to, 0)


def cosine(x: Integers, source: Format, to: Format) -> Rescaled:
    """Return cos x as the sine of x plus a quarter of a revolution."""
    return _sine(x, source, to, 1)


def _sine(x: Integers, source: Format, to: Format, quarters: int) -> Rescaled:
    plan = sine_plan(source, to)
    within, quadrant = sine_quarter(x, source, to, quarters)
    size = plan.quarter.rounded(within)
    value = np.where(quadrant & 2, -size, size)
    return rescale(value, plan.quarter.frac, to, LAST)


def sine_quarter(x: Integers, source: Format, to: Format, quarters: int) -> tuple[Integers, Integers]:
    """Return the operand of the table of a quarter of the sine, and the quadrant.

    Args:
        x: Angles.
        source: Format of the angles.
        to: Format of the result.
        quarters: Quarters of a revolution to add: 1 for a cosine.
    """
    plan = sine_plan(source, to)
    bits = source.width + plan.per_radian.bit_length() + 1
    quarter_bits = plan.quarter.bits
    turn = (wide(x, bits) * plan.per_radian) >> plan.phase_shift
    phase = (turn + (quarters << quarter_bits)) & ((1 << plan.phase_bits) - 1)
    phase = phase.astype(np.int64)
    quadrant = phase >> quarter_bits
    within = phase & ((1 << quarter_bits) - 1)
    return np.where(quadrant & 1, within ^ ((1 << quarter_bits) - 1), within), quadrant


@dataclass(frozen=True)
class ExpPlan:
    """Plan for e**x = 2**t: a table of 2**u for the fraction u of t, shifted by the integer part of t."""

    per_unit: int
    """Integer factor: t is (x · per_unit) >> shift, with the fraction bits of u."""
    shift: int
    """Bits to drop from that product."""
    power: Quadratic
    """Table of 2**u."""
    down: int
    """Bits to drop from the table's value for the result at t = 0."""

    def least_down(self, to: Format) -> int:
        """Return the bits to drop from 2**u so that the largest results fit."""
        return self.power.frac + 2 - to.width

    @property
    def most_down(self) -> int:
        """Return the number of dropped bits beyond which the result is 0."""
        return self.power.frac + 2


def octaves_of_exp(to: Format) -> int:
    """Return the magnitude of log₂ of a result from which on it is too large, or rounds to 0."""
    return max(abs(to.width - to.frac), abs(to.frac) + 2)


@lru_cache(maxsize=256)
def exp_plan(source: Format, to: Format) -> ExpPlan:
    """Return the plan of an exponential.

    The table has as many fraction bits as the result has bits. With f = 2**u, whose f''' is at most 2/3, 2**index_bits
    segments keep the error of the quadratic below 2**-(frac + 2). log₂ e has the bits that matter for operands whose
    results neither overflow nor vanish.
    """
    frac = max(to.width, 4)
    bits = frac + 4
    spare = min(max(source.width - source.frac - 1, 0), octaves_of_exp(to).bit_length())
    index_bits = min(max(math.ceil((frac - 6.0) / 3), 2), bits - 4)
    return ExpPlan(
        per_unit=round(math.ldexp(math.log2(math.e), bits + spare)),
        shift=source.frac + spare,
        power=_quadratic(np.exp2, bits, index_bits, frac),
        down=frac - to.frac,
    )


def exponential(x: Integers, source: Format, to: Format) -> Rescaled:
    """Return e**x, rounded half up; 0 and an overflow flag if it is too large."""
    plan = exp_plan(source, to)
    fraction, whole = exp_fraction(x, source, to)
    power = plan.power.rounded(fraction)
    down = plan.down - whole
    fits = np.asarray(down >= plan.least_down(to), dtype=bool)
    down = np.clip(down, plan.least_down(to), plan.most_down).astype(np.int64)
    result = rescale((power + (np.ones_like(power) << (down - 1))) >> down, to.frac, to, LAST)  # may just not fit
    return Rescaled(np.where(fits, result.value, 0).astype(np.int64), result.overflow | ~fits)


def exp_fraction(x: Integers, source: Format, to: Format) -> tuple[Integers, Integers]:
    """Return the operand of the table of 2**u, and the integer part of t."""
    plan = exp_plan(source, to)
    bits = plan.power.bits
    t = wide(x, source.width + plan.per_unit.bit_length() + 1 + max(-plan.shift, 0)) * plan.per_unit
    t = t >> plan.shift if plan.shift >= 0 else t << -plan.shift
    return (t & ((1 << bits) - 1)).astype(np.int64), t >> bits


@dataclass(frozen=True)
class ReciprocalPlan:
    """Plan for 1/x of a positive x = n 2**-z, where the top bit of n is set: seed from a table, Newton steps, shift
    back.

    The last step keeps all its bits and rounds once, at the last bit of the result: the result is (r + r e + half) >>
    (shift - z).
    """

    index_bits: int
    """Bits of n after the top one that select the seed."""
    seed_frac: int
    """Fraction bits of the seed."""
    seed: tuple[int, ...]
    """Approximations of 1/n for n in [1, 2)."""
    steps: tuple[tuple[int, int, int], ...]
    """For each step, the fraction bits of the estimate r, of its error e = 1 - n r, and of the next estimate r + r
    e.
    """
    shift: int
    """Bits to drop from the last sum for z = 0."""

    @property
    def frac(self) -> int:
        """Return the fraction bits of the last sum."""
        have, error_frac, _ = self.steps[-1]
        return have + error_frac

    def least_down(self, to: Format) -> int:
        """Return the bits to drop from the last sum so that the largest results fit; 1/1 is 2**frac there."""
        return self.frac - to.width + 1

    @property
    def most_down(self) -> int:
        """Return the number of dropped bits beyond which the result is 0."""
        return self.frac + 2


@lru_cache(maxsize=256)
def reciprocal_plan(source: Format, to: Format) -> ReciprocalPlan:
    """Return the plan of a reciprocal. The seed is accurate to index_bits + 1 bits, and each Newton step doubles
    that.
    """
    frac = to.width + 1
    count = 1 if frac <= 2 * LARGEST_SEED_TABLE + 2 else 2
    index_bits = min(max(math.ceil((frac - 1) / 2**count), 3), source.width - 1, LARGEST_SEED_TABLE)
    seed_frac = index_bits + 3
    seed = tuple(math.floor(2.0**seed_frac / (1 + (i + 0.5) * 2.0**-index_bits) + 0.5) for i in range(1 << index_bits))
    steps = []
    have = seed_frac
    for step in range(count):
        reached = frac if step == count - 1 else min(frac, 2 * have)
        steps.append((have, reached + 2, reached))
        have = reached
    last = steps[-1][0] + steps[-1][1]
    return ReciprocalPlan(index_bits, seed_frac, seed, tuple(steps), last - source.frac + source.width - 1 - to.frac)


def reciprocal_seed(x: Integers, source: Format, plan: ReciprocalPlan) -> tuple[Integers, Integers, Integers]:
    """Return the entry of the seed table that each operand reads, the normalized operand, and its shift."""
    width = source.width
    zeros = width - _bit_length(np.maximum(x, 1))
    n = np.maximum(x, 1) << zeros
    return ((n >> (width - 1 - plan.index_bits)) & ((1 << plan.index_bits) - 1)).astype(np.int64), n, zeros


def reciprocal(x: Integers, source: Format, to: Format, plan: ReciprocalPlan | None = None) -> Rescaled:
    """Return 1/x of a positive x, rounded half up; 0 and an overflow flag if x is not positive or the result is too
    large.

    Args:
        x: Operands.
        source: Format of the operands.
        to: Format of the result.
        plan: Tables and steps; None for those of the formats.
    """
    plan = reciprocal_plan(source, to) if plan is None else plan
    width = source.width
    index, n, zeros = reciprocal_seed(x, source, plan)
    bits = max(width + plan.steps[-1][0], plan.frac) + 4
    estimate: Integers = wide(np.array(plan.seed, dtype=np.int64)[index], bits)
    n = wide(n, bits)
    down = plan.shift - zeros
    fits = (x > 0) & (down >= plan.least_down(to))
    down = np.clip(down, plan.least_down(to), plan.most_down)
    for k, (have, error_frac, reached) in enumerate(plan.steps):
        error = (1 << (width - 1 + have)) - n * estimate
        cut = width - 1 + have - error_frac  # less than 0 where the operand is much shorter than the result
        error = error >> cut if cut >= 0 else error << -cut
        dropped = down if k == len(plan.steps) - 1 else have + error_frac - reached
        half = np.ones_like(estimate) << (dropped - 1)
        estimate = ((estimate << error_frac) + estimate * error + half) >> dropped
    result = rescale(estimate, to.frac, to, LAST)  # a power of two may just not fit
    return Rescaled(np.where(fits, result.value, 0).astype(np.int64), result.overflow | ~fits)


def _bit_length(size: Integers) -> Any:
    """Return the number of bits of non-negative integers."""
    if size.dtype == object:
        return np.array([int(v).bit_length() for v in size.ravel()], dtype=np.int64).reshape(size.shape)
    return np.frexp(size.astype(np.float64))[1]


def root_shift(source: Format, to: Format) -> int:
    """Return the bits by which the operand of a root is shifted left; its integer root then has one bit below the
    result.
    """
    return 2 * to.frac - source.frac + 2


def square_root(x: Integers, source: Format, to: Format) -> Rescaled:
    """Return √x, rounded half up; 0 and an overflow flag if x is negative."""
    shift = root_shift(source, to)
    size = wide(np.maximum(x, 0), source.width + max(shift, 0))
    root = _integer_root(size << shift if shift >= 0 else size >> -shift)
    result = rescale((root + 1) >> 1, to.frac, to, LAST)
    return Rescaled(result.value, result.overflow | np.asarray(x < 0, dtype=bool))


def _integer_root(x: Integers) -> Integers:
    """Return the largest integers whose squares are not above x."""
    if x.dtype == object:
        return np.array([math.isqrt(int(v)) for v in x.ravel()], dtype=object).reshape(x.shape)
    root = np.sqrt(x.astype(np.float64)).astype(np.int64)
    root = root - (root * root > x)
    return root + ((root + 1) * (root + 1) <= x)
