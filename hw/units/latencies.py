"""Latencies, widths and sizes of arithmetic units, in plain Python.

Schedules, records and programs need these numbers. They come without the gateware, so that a computer without Amaranth
can open what another one has built. Each unit's file asserts or uses the numbers that this file gives for it.
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
    """A block of a product: low bit and bits of its piece of each operand. weight: place of its product's bit 0."""

    low_a: int
    bits_a: int
    low_b: int
    bits_b: int
    weight: int


def parts(width_a: int, width_b: int, block: Multiplier = DSP48E2) -> list[ProductPart]:
    """The blocks of a product, as few as there can be, least significant first."""
    limits = (block.wide, block.narrow), (block.narrow, block.wide)
    cuts = [(_pieces(width_a, a), _pieces(width_b, b)) for a, b in limits]
    wider_first = cuts if width_a >= width_b else cuts[::-1]
    pieces_a, pieces_b = min(wider_first, key=lambda pieces: len(pieces[0]) * len(pieces[1]))
    blocks = (ProductPart(a, wa, b, wb, a + b) for a, wa in pieces_a for b, wb in pieces_b)
    return sorted(blocks, key=lambda part: (part.weight, part.low_a))


def _pieces(width: int, limit: int) -> list[tuple[int, int]]:
    """(low bit, bits): unsigned pieces of limit - 1 bits, the last one signed and of up to limit bits."""
    pieces = []
    low = 0
    while width - low > limit:
        pieces.append((low, limit - 1))
        low += limit - 1
    return [*pieces, (low, width - low)]


def dsp_blocks(width_a: int, width_b: int, block: Multiplier = DSP48E2) -> int:
    """Return the multiplier blocks of a product of two signed factors."""
    return block.blocks(width_a, width_b)


def product_latency(width_a: int, width_b: int) -> int:
    """Return the cycles from two factors to their sum with a constant: two, and one for each block."""
    return 2 + dsp_blocks(width_a, width_b)


def constant_width(constant: int) -> int:
    """Return the bits of a constant with its sign."""
    return constant.bit_length() + 1


def signed_width(values: tuple[int, ...]) -> int:
    """Return the bits of the largest of these coefficients with its sign."""
    return max(v.bit_length() for v in values) + 1


def quadratic_products(plan: Quadratic) -> list[tuple[int, int, int]]:
    """Return the operand and sum widths of the inner product and of the outer one."""
    # c1 and the carries of d c2 may need one bit more than c1
    slope = signed_width(plan.c1) + 1
    return [
        (plan.offset_bits, signed_width(plan.c2), slope + plan.inner_shift),
        (plan.offset_bits, slope, plan.outer_frac + 3),
    ]


def quadratic_cycles(plan: Quadratic) -> int:
    """Return the cycles of a quadratic: a stage for the table, and its products."""
    return 1 + sum(product_latency(*widths[:2]) for widths in quadratic_products(plan))


def sine_products(source: Format, to: Format) -> list[tuple[int, ...]]:
    """Return the operand and sum widths of the three products."""
    plan = sine_plan(source, to)
    return [(source.width, constant_width(plan.per_radian)), *quadratic_products(plan.quarter)]


def sine_latency(source: Format, to: Format) -> int:
    """Return the cycles of a sine or cosine: range reduction, the quadratic, a stage for the sign."""
    reduce, *_ = sine_products(source, to)
    return product_latency(*reduce) + quadratic_cycles(sine_plan(source, to).quarter) + 1


def exp_products(source: Format, to: Format) -> list[tuple[int, ...]]:
    """Return the operand and sum widths of the three products."""
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
    """Return the `shift` input for an operand and a result of these formats. Raises ValueError: it does not fit its
    port."""
    shift = reciprocal_plan(source, to).shift
    if not -(1 << (SHIFT_BITS - 1)) <= shift < 1 << (SHIFT_BITS - 1):
        raise ArgumentError(f"reciprocal of {source} as {to}: the binary points are {shift} bits apart")
    return shift


class Newton(NamedTuple):
    """One step: fraction bits of the estimate, of its error and of the next estimate; operand and sum widths of its
    two products, 1 - n r and r + r e."""

    have: int
    error_frac: int
    reached: int
    inner: tuple[int, int, int]
    outer: tuple[int, int, int]

    @property
    def latency(self) -> int:
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
"""Cycles, counted from the start of a random number, in which it begins a round. No other number may begin a round in
the same cycle."""
