"""sin, cos, exp, 1/x and √x on integers: the definition that the hardware units follow step by step.

A plan holds the widths and tables that follow from the two formats; the functions are the arithmetic on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from dynagate.fixedpoint.format import Arithmetic, Format, Integers, Rescaled, rescale, wide

LAST = Arithmetic()
"""How results enter their format."""
LARGEST_SEED_TABLE = 12
"""Index bits of the largest reciprocal table: 4096 entries are two block RAMs and save a Newton step."""


@dataclass(frozen=True)
class Quadratic:
    """A function of u in [0, 1), by c0 + d (c1 + d c2) per table segment.

    u has `bits` bits. d: signed offset from the segment's center, in units of 2**-bits.
    c0, c1, c2: the segment's coefficients, with frac0, frac1, frac2 fraction bits. frac: those of the result.
    """

    bits: int
    index_bits: int
    frac: int
    frac0: int
    frac1: int
    frac2: int
    c0: tuple[int, ...]
    c1: tuple[int, ...]
    c2: tuple[int, ...]

    @property
    def offset_bits(self) -> int:
        return self.bits - self.index_bits

    @property
    def inner_shift(self) -> int:
        """From d c2 to the fraction of c1."""
        return self.frac2 + self.bits - self.frac1

    @property
    def outer_frac(self) -> int:
        """Fraction bits of d (c1 + ...)."""
        return self.bits + self.frac1

    @property
    def outer_shift(self) -> int:
        """From there to the fraction of the result."""
        return self.outer_frac - self.frac

    def rounded(self, u: Integers) -> Integers:
        """The function of u (int64), rounded half up."""
        segment = u >> self.offset_bits
        d = (u & ((1 << self.offset_bits) - 1)) - (1 << (self.offset_bits - 1))
        c0, c1, c2 = (np.array(table, dtype=np.int64)[segment] for table in (self.c0, self.c1, self.c2))
        slope = c1 + ((d * c2 + (1 << (self.inner_shift - 1))) >> self.inner_shift)
        bits = self.outer_frac + 4
        exact = wide(d, bits) * slope + (wide(c0, bits) << (self.outer_frac - self.frac0))
        return (exact + (1 << (self.outer_shift - 1))) >> self.outer_shift


def _quadratic(function: Callable[[Any], Any], bits: int, index_bits: int, frac: int) -> Quadratic:
    """Through Chebyshev points, which errs by f''' h³ / 192 on a segment of width h. u stands for the middle of its
    cell, so a function that falls as it rises mirrors exactly."""
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


def _integers(values: Any, frac: int) -> tuple[int, ...]:
    return tuple(int(v) for v in np.floor(np.ldexp(values, frac) + 0.5))


@dataclass(frozen=True)
class SinePlan:
    """sin of x rad: reduce to a fraction of a turn, fold to a quarter, whose table follows.

    phase = (x · per_radian) >> phase_shift, modulo 2**phase_bits, is the angle in turns.
    """

    per_radian: int
    phase_shift: int
    quarter: Quadratic

    @property
    def phase_bits(self) -> int:
        return self.quarter.bits + 2


@lru_cache(maxsize=256)
def sine_plan(source: Format, to: Format) -> SinePlan:
    """Tables that are right to half a unit in the last place, before the last rounding: with f = sin(π u / 2),
    2**index_bits segments make the quadratic's error less than 2**-(frac + 2).
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
    return _sine(x, source, to, 0)


def cosine(x: Integers, source: Format, to: Format) -> Rescaled:
    """cos x = sin(x + a quarter turn)."""
    return _sine(x, source, to, 1)


def _sine(x: Integers, source: Format, to: Format, quarters: int) -> Rescaled:
    plan = sine_plan(source, to)
    bits = source.width + plan.per_radian.bit_length() + 1
    quarter_bits = plan.quarter.bits
    turn = (wide(x, bits) * plan.per_radian) >> plan.phase_shift
    phase = (turn + (quarters << quarter_bits)) & ((1 << plan.phase_bits) - 1)
    phase = phase.astype(np.int64)
    quadrant = phase >> quarter_bits
    within = phase & ((1 << quarter_bits) - 1)
    size = plan.quarter.rounded(np.where(quadrant & 1, within ^ ((1 << quarter_bits) - 1), within))
    value = np.where(quadrant & 2, -size, size)
    return rescale(value, plan.quarter.frac, to, LAST)


@dataclass(frozen=True)
class ExpPlan:
    """e**x = 2**t: the table of 2**u follows, where u is the fraction of t, and its whole part moves the binary point.

    t = (x · per_unit) >> shift, with as many fraction bits as u has. down: from the table's result at t = 0 to the
    result's last bit.
    """

    per_unit: int
    shift: int
    power: Quadratic
    down: int

    def least_down(self, to: Format) -> int:
        """Bits to drop from 2**u so that the largest results fit."""
        return self.power.frac + 2 - to.width

    @property
    def most_down(self) -> int:
        """Bits to drop beyond which nothing is left."""
        return self.power.frac + 2


def octaves_of_exp(to: Format) -> int:
    """The size of log₂ of results from which on they are too large, or nothing is left of them."""
    return max(abs(to.width - to.frac), abs(to.frac) + 2)


@lru_cache(maxsize=256)
def exp_plan(source: Format, to: Format) -> ExpPlan:
    """The table has as many fraction bits as the result has bits. With f = 2**u, of which f''' is 2/3 at most,
    2**index_bits segments make the quadratic's error less than 2**-(frac + 2). log₂ e has the bits that operands need
    whose results are neither too large nor nothing."""
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
    """e**x, rounded half up; where it is too large 0 with the flag."""
    plan = exp_plan(source, to)
    bits = plan.power.bits
    t = wide(x, source.width + plan.per_unit.bit_length() + 1 + max(-plan.shift, 0)) * plan.per_unit
    t = t >> plan.shift if plan.shift >= 0 else t << -plan.shift
    power = plan.power.rounded((t & ((1 << bits) - 1)).astype(np.int64))
    down = plan.down - (t >> bits)
    fits = np.asarray(down >= plan.least_down(to), dtype=bool)
    down = np.clip(down, plan.least_down(to), plan.most_down).astype(np.int64)
    result = rescale((power + (np.ones_like(power) << (down - 1))) >> down, to.frac, to, LAST)  # may just not fit
    return Rescaled(np.where(fits, result.value, 0).astype(np.int64), result.overflow | ~fits)


@dataclass(frozen=True)
class ReciprocalPlan:
    """1/x of a positive x = n 2**-z with the top bit of n set: seed from a table, Newton, shift back.

    seed: by the bits after the top one, 1/n to seed_frac fraction bits, n in [1, 2). steps: (fraction bits of the
    estimate, of the error e = 1 - n r, of the next estimate r + r e). The last step keeps all its bits, `frac` of them,
    and rounds once, where the result's last bit will be: the result is (r + r e + half) >> (shift - z).
    """

    index_bits: int
    seed_frac: int
    seed: tuple[int, ...]
    steps: tuple[tuple[int, int, int], ...]
    shift: int

    @property
    def frac(self) -> int:
        """Fraction bits of the last sum."""
        have, error_frac, _ = self.steps[-1]
        return have + error_frac

    def least_down(self, to: Format) -> int:
        """Bits to drop from the last sum, of which 1/1 is 2**frac, so that the largest results fit."""
        return self.frac - to.width + 1

    @property
    def most_down(self) -> int:
        """Bits to drop beyond which nothing is left."""
        return self.frac + 2


@lru_cache(maxsize=256)
def reciprocal_plan(source: Format, to: Format) -> ReciprocalPlan:
    """The seed is good to index_bits + 1 bits and each Newton step doubles that."""
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


def reciprocal(x: Integers, source: Format, to: Format) -> Rescaled:
    """1/x of a positive x, rounded half up; where x is not positive, or the result too large, 0 with the flag."""
    plan = reciprocal_plan(source, to)
    width = source.width
    zeros = width - _bit_length(np.maximum(x, 1))
    n = np.maximum(x, 1) << zeros
    index = ((n >> (width - 1 - plan.index_bits)) & ((1 << plan.index_bits) - 1)).astype(np.int64)
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
    if size.dtype == object:
        return np.array([int(v).bit_length() for v in size.ravel()], dtype=np.int64).reshape(size.shape)
    return np.frexp(size.astype(np.float64))[1]


def root_shift(source: Format, to: Format) -> int:
    """Bits by which the operand's integer is moved up. Its root is then the result's integer with a bit below it."""
    return 2 * to.frac - source.frac + 2


def square_root(x: Integers, source: Format, to: Format) -> Rescaled:
    """√x, rounded half up; where x is negative 0 with the flag."""
    shift = root_shift(source, to)
    size = wide(np.maximum(x, 0), source.width + max(shift, 0))
    root = _integer_root(size << shift if shift >= 0 else size >> -shift)
    result = rescale((root + 1) >> 1, to.frac, to, LAST)
    return Rescaled(result.value, result.overflow | np.asarray(x < 0, dtype=bool))


def _integer_root(x: Integers) -> Integers:
    """The largest integers whose squares are not above x."""
    if x.dtype == object:
        return np.array([math.isqrt(int(v)) for v in x.ravel()], dtype=object).reshape(x.shape)
    root = np.sqrt(x.astype(np.float64)).astype(np.int64)
    root = root - (root * root > x)
    return root + ((root + 1) * (root + 1) <= x)
