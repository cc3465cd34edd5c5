"""The accuracy goal of word length optimization, multiplier blocks of targets, and the cost of formats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dynagate.base.arguments import (
    check_count,
    check_kind,
    is_collection,
    is_finite,
    is_number,
    shown,
    store_plain_numbers,
)
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.upper_limits import MAX_STATES
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.graph.ops import PRODUCTS
from dynagate.graph.region import KINDS, Kind

DSP_BITS = 40
"""Cost of a multiplier block in bits of registers and adders: its pipeline holds about as many."""

FLOOR = 0.1
"""Default floor of the error, as a share of an output block's root mean square over the operating region."""


@dataclass(frozen=True)
class Multiplier:
    """A hardware multiplier of signed operands."""

    name: str
    """Name of the block."""
    wide: int
    """Bits of the wider input."""
    narrow: int
    """Bits of the narrower input."""

    def blocks(self, a: int, b: int) -> int:
        """Return the number of blocks for a product of operands with a and b bits.

        If an operand is divided, each part has one bit less than the input, because only the top part has the sign.
        """

        def tiles(wide: int, narrow: int) -> int:
            return math.ceil(max(wide - 1, 1) / (self.wide - 1)) * math.ceil(max(narrow - 1, 1) / (self.narrow - 1))

        return min(tiles(a, b), tiles(b, a))


DSP48E2 = Multiplier("DSP48E2", 27, 18)
DSP48E1 = Multiplier("DSP48E1", 25, 18)
MULT18X18 = Multiplier("18x18", 18, 18)
MULTIPLIERS = {m.name: m for m in (DSP48E2, DSP48E1, MULT18X18)}
"""Multiplier blocks by name."""


@explained
@dataclass(frozen=True)
class Goal:
    """An accuracy goal: in a share `quantile` of the states, the error of every output block is at most `error`.

    An error is the L2 norm of the block's error, divided by the L2 norm of the block or by its floor, whichever is
    larger. The floor is `floor` times the block's root mean square over the operating region.

    Raises:
        ArgumentError: An error or a quantile is not between 0 and 1, or another number is out of range.
    """

    error: float | Mapping[str, float]
    """Largest error of all blocks, or of each block by name; a block without one may have any error."""
    quantile: float = 0.999
    """Share of the states that keep the error."""
    confidence: float = 0.99
    """Probability that the statement on the quantile holds."""
    floor: float = FLOOR
    """Share of a block's root mean square; 0 makes errors relative, which no format achieves where a block vanishes."""
    kinds: tuple[Kind, ...] = ("uniform",)
    """Kinds of states that the goal covers (`Region.sample`)."""
    dsp: Multiplier = DSP48E2
    """Multiplier block of the target. Its wide input is the longest word."""
    spare: float = 0.1
    """Share of the products that may take more than one block; exceeded only if no formats meet the goal otherwise."""
    states: int = 16384
    """Number of states on which formats are chosen."""
    fresh: int = 65536
    """Number of states on which they are checked afterwards."""
    seed: int = 31
    """Seed of the states."""

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        errors = {"": self.error} if is_number(self.error) else dict(self.error)
        if not errors:
            raise ArgumentError(
                "a goal without an error; expected one number, or one by output block", code="DG-FORMAT-036"
            )
        for block, error in errors.items():
            if not (is_finite(error) and 0.0 < error < 1.0):
                where = f" of {block}" if block else ""
                raise ArgumentError(
                    f"error {shown(error)}{where}; expected more than 0, less than 1", code="DG-FORMAT-037"
                )
        for name in ("quantile", "confidence"):
            if not (is_finite(value := getattr(self, name)) and 0.0 < value < 1.0):
                raise ArgumentError(f"{name} {shown(value)}; expected more than 0, less than 1", code="DG-FORMAT-038")
        for name in ("floor", "spare"):
            if not (is_finite(value := getattr(self, name)) and 0.0 <= value <= 1.0):
                raise ArgumentError(f"{name} {shown(value)}; expected 0 to 1", code="DG-FORMAT-039")
        if not is_collection(self.kinds) or not len(self.kinds) or not set(self.kinds) <= set(KINDS):
            raise ArgumentError(
                f"states of kinds {self.kinds}; expected some of {', '.join(KINDS)}", code="DG-FORMAT-040"
            )
        for name in ("states", "fresh"):
            check_count(name, getattr(self, name), MAX_STATES)
        check_count("seed", self.seed, 2**63, 0)
        check_kind("dsp", self.dsp, Multiplier, optional=False)
        own = float(self.error) if is_number(self.error) else {name: float(error) for name, error in errors.items()}
        object.__setattr__(self, "error", own)

    def of(self, block: str) -> float:
        """Return the largest error that a block may have."""
        return float(self.error) if is_number(self.error) else float(self.error.get(block, math.inf))


def dsp_blocks(formatted: FormattedGraph, dsp: Multiplier = DSP48E2) -> list[int]:
    """Return the multiplier blocks of each product, if no products share one."""
    blocks = []
    for i, node in enumerate(formatted.graph.nodes):
        if node.op in PRODUCTS:
            blocks.append(dsp.blocks(*(fmt.width for fmt in formatted.operand_formats(i))))
    return blocks


def bits(formatted: FormattedGraph, dsp: Multiplier = DSP48E2) -> int:
    """Return the cost without a schedule: the bits of all nodes, plus DSP_BITS per multiplier block."""
    return sum(f.width for f in formatted.formats) + DSP_BITS * sum(dsp_blocks(formatted, dsp))
