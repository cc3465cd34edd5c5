"""Latencies, widths and sizes of arithmetic units (plain Python).

Schedules, records and programs need these numbers. A computer without Amaranth can therefore open a design that another
one has built. The file of each unit uses, or asserts, the numbers for it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dynagate.base.errors import ArgumentError
from dynagate.base.philox import FACTOR, ROUNDS
from dynagate.fixedpoint.elementary import Quadratic, ReciprocalPlan, exp_plan, reciprocal_plan, sine_plan
from dynagate.fixedpoint.format import Format
from dynagate.fixedpoint.wordlength.goal import DSP48E2, Multiplier


class ProductPart(NamedTuple):
    """A multiplier block's share of a product."""

    low_a: int
    """Lowest bit of operand a that the block multiplies."""
    bits_a: int
    """Number of bits of operand a."""
    low_b: int
    """Lowest bit of operand b."""
    bits_b: int
    """Number of bits of operand b."""
    weight: int
    """Bit of the full product at which the block's product begins."""


def parts(width_a: int, width_b: int, block: Multiplier = DSP48E2) -> list[ProductPart]:
    """Divide a product into the fewest multiplier blocks, least significant first.

    Args:
        width_a: Bits of one factor.
        width_b: Bits of the other factor.
        block: Type of the multiplier block.
    """
    limits = (block.wide, block.narrow), (block.narrow, block.wide)
    cuts = [(_pieces(width_a, a), _pieces(width_b, b)) for a, b in limits]
    wider_first = cuts if width_a >= width_b else cuts[::-1]
    pieces_a, pieces_b = min(wider_first, key=lambda pieces: len(pieces[0]) * len(pieces[1]))
    blocks = (ProductPart(a, wa, b, wb, a + b) for a, wa in pieces_a for b, wb in pieces_b)
    return sorted(blocks, key=lambda part: (part.weight, part.low_a))


def _pieces(width: int, limit: int) -> list[tuple[int, int]]:
    """Return low bit and bits of each piece: unsigned pieces of limit - 1 bits, then a signed one of at most limit
    bits.
    """
    pieces = []
    low = 0
    while width - low > limit:
        pieces.append((low, limit - 1))
        low += limit - 1
    return [*pieces, (low, width - low)]


def dsp_blocks(width_a: int, width_b: int, block: Multiplier = DSP48E2) -> int:
    """Return the number of multiplier blocks for a product of two signed factors of these widths."""
    return block.blocks(width_a, width_b)


def product_latency(width_a: int, width_b: int) -> int:
    """Return the cycles from two factors to the sum of their product and a constant: two, plus one for each block."""
    return 2 + dsp_blocks(width_a, width_b)


def constant_width(constant: int) -> int:
    """Return the bits of a constant with its sign."""
    return constant.bit_length() + 1


def signed_width(values: tuple[int, ...]) -> int:
    """Return the bits of the largest of these coefficients with its sign."""
    return max(v.bit_length() for v in values) + 1


def quadratic_products(plan: Quadratic) -> list[tuple[int, int, int, int]]:
    """Return the widths of operands, sum and product for the inner product and for the outer one."""
    inner, outer = plan.product_widths
    return [
        (plan.offset_bits, signed_width(plan.c2), plan.slope_width + plan.inner_shift, inner),
        (plan.offset_bits, plan.slope_width, plan.sum_width, outer),
    ]


def quadratic_cycles(plan: Quadratic) -> int:
    """Return the cycles of a quadratic: a stage for the table, and its products."""
    return 1 + sum(product_latency(*widths[:2]) for widths in quadratic_products(plan))


def sine_products(source: Format, to: Format) -> list[tuple[int, ...]]:
    """Return the widths of the three products: operands, and sum and product if they are narrower."""
    plan = sine_plan(source, to)
    return [(source.width, constant_width(plan.per_radian)), *quadratic_products(plan.quarter)]


def sine_latency(source: Format, to: Format) -> int:
    """Return the cycles of a sine or cosine: range reduction, the quadratic, a stage for the sign."""
    reduce, *_ = sine_products(source, to)
    return product_latency(*reduce) + quadratic_cycles(sine_plan(source, to).quarter) + 1


def exp_products(source: Format, to: Format) -> list[tuple[int, ...]]:
    """Return the widths of the three products: operands, and sum and product if they are narrower."""
    plan = exp_plan(source, to)
    return [(source.width, constant_width(plan.per_unit)), *quadratic_products(plan.power)]


def exp_latency(source: Format, to: Format) -> int:
    """Return the cycles of an exponential: range reduction, the quadratic, a stage that rounds, two that move
    the binary point."""
    reduce, *_ = exp_products(source, to)
    return product_latency(*reduce) + quadratic_cycles(exp_plan(source, to).power) + 3


SHIFT_BITS = 10
"""Bits of the `shift` input of a reciprocal."""


def shift_of(source: Format, to: Format) -> int:
    """Return the `shift` input for an operand and a result of these formats.

    Raises:
        ArgumentError: The value does not fit the input.
    """
    shift = reciprocal_plan(source, to).shift
    if not -(1 << (SHIFT_BITS - 1)) <= shift < 1 << (SHIFT_BITS - 1):
        raise ArgumentError(
            f"reciprocal of {source} as {to}: the binary points are {shift} bits apart; expected fewer than 512",
            code="DG-HW-033",
        )
    return shift


class Newton(NamedTuple):
    """One Newton step of a reciprocal."""

    have: int
    """Fraction bits of the estimate."""
    error_frac: int
    """Fraction bits of its error."""
    reached: int
    """Fraction bits of the next estimate."""
    inner: tuple[int, int, int]
    """Widths of the factors and the sum of 1 - n r."""
    outer: tuple[int, int, int]
    """Widths of the factors and the sum of r + r e."""

    @property
    def latency(self) -> int:
        """Return the cycles of the step."""
        return product_latency(*self.inner[:2]) + product_latency(*self.outer[:2])


def newton_steps(source_width: int, to_width: int) -> list[Newton]:
    """Return the Newton steps of a reciprocal, first to last."""
    plan = widths_plan(source_width, to_width)
    return [
        Newton(
            have,
            error_frac,
            reached,
            (source_width + 1, have + 2, source_width + have + 2),
            (error_frac - plan.index_bits + 3, have + 2, have + error_frac + 3),
        )
        for have, error_frac, reached in plan.steps
    ]


def reciprocal_products(source_width: int, to_width: int) -> list[tuple[int, int, int]]:
    """Return the operand and sum widths of a reciprocal's products."""
    return [product for step in newton_steps(source_width, to_width) for product in (step.inner, step.outer)]


def reciprocal_latency(source_width: int, to_width: int) -> int:
    """Return the cycles of a reciprocal: three stages to the seed, the Newton steps, two stages back."""
    return 5 + sum(step.latency for step in newton_steps(source_width, to_width))


def widths_plan(source_width: int, to_width: int) -> ReciprocalPlan:
    """Return the plan of a reciprocal for words of these widths."""
    return reciprocal_plan(Format(source_width, 0), Format(to_width, 0))


def root_bits(source_width: int, shift: int) -> int:
    """Return the bits of a root, one below the result's last included."""
    return max(math.ceil((source_width - 1 + shift) / 2), 1)


def root_latency(source_width: int, to_width: int, shift: int) -> int:
    """Return the cycles of a square root: a stage for each bit, one that rounds."""
    return root_bits(source_width, shift) + 1


NOISE_WORD = 32
"""Bits of the counters and the key of random numbers."""
ROUND_CYCLES = product_latency(NOISE_WORD + 1, constant_width(FACTOR)) + 1
"""Cycles of one round of Philox."""
NOISE_LATENCY = ROUNDS * ROUND_CYCLES + 2
"""Cycles from the operands of a random number to the number."""
ROUND_STARTS = tuple(ROUND_CYCLES * k for k in range(ROUNDS))
"""Cycles, counted from the start of a random number, in which it begins a round.

No other number may begin a round in the same cycle.
"""
