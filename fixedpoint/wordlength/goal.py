"""The accuracy goal of word length optimization, the target's multiplier, and the cost of formats."""

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
from dynagate.base.largest import MAX_STATES
from dynagate.fixedpoint.formatted import FormattedGraph
from dynagate.graph.ops import PRODUCTS
from dynagate.graph.region import KINDS, Kind

DSP_BITS = 40
"""Cost of a multiplier block, in bits of registers and adders: it holds about as many in its pipeline."""

FLOOR = 0.1
"""Default floor of the error: a fraction of an output block's root mean square over the operating region."""


@dataclass(frozen=True)
class Multiplier:
    """A hardware multiplier of signed operands. wide, narrow: bits of its two inputs."""

    name: str
    wide: int
    narrow: int

    def blocks(self, a: int, b: int) -> int:
        """Multiplier blocks that a product of a and b bits takes. An operand that is cut into parts gives each part one
        bit less than the input has, because only the top part has the sign."""

        def tiles(wide: int, narrow: int) -> int:
            return math.ceil(max(wide - 1, 1) / (self.wide - 1)) * math.ceil(max(narrow - 1, 1) / (self.narrow - 1))

        return min(tiles(a, b), tiles(b, a))


DSP48E2 = Multiplier("DSP48E2", 27, 18)
DSP48E1 = Multiplier("DSP48E1", 25, 18)
MULT18X18 = Multiplier("18x18", 18, 18)
MULTIPLIERS = {m.name: m for m in (DSP48E2, DSP48E1, MULT18X18)}


@explained
@dataclass(frozen=True)
class Goal:
    """An accuracy goal: in a `quantile` of the states the error of every output block is at most `error`.

    An error is the L2 norm of the block's error, divided by the L2 norm of the block or by its floor, whichever is
    larger. The floor is `floor` times the block's root mean square over the operating region.

    error: one for all blocks, or one by block name; a block without one may have any error. floor: 0 makes the error
    purely relative, which no format achieves where a block vanishes. kinds: kinds of states that the goal covers
    (`Region.sample`). confidence: of the statement on the quantile. dsp: the target's multiplier; its wide input is the
    longest word. spare: fraction of the products that may take more than one block; a larger one is used only if no
    formats meet the goal otherwise. states, seed: the states that formats are chosen on. fresh: the number of states
    that they are checked on afterwards.
    Raises ValueError: an error or a quantile is not between 0 and 1, or another number is out of range.
    """

    error: float | Mapping[str, float]
    quantile: float = 0.999
    confidence: float = 0.99
    floor: float = FLOOR
    kinds: tuple[Kind, ...] = ("uniform",)
    dsp: Multiplier = DSP48E2
    spare: float = 0.1
    states: int = 16384
    fresh: int = 65536
    seed: int = 31

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        errors = {"": self.error} if is_number(self.error) else dict(self.error)
        if not errors:
            raise ArgumentError("a goal without an error; expected one number, or one by output block")
        for block, error in errors.items():
            if not (is_finite(error) and 0.0 < error < 1.0):
                where = f" of {block}" if block else ""
                raise ArgumentError(f"error {shown(error)}{where}; expected more than 0, less than 1")
        for name in ("quantile", "confidence"):
            if not (is_finite(value := getattr(self, name)) and 0.0 < value < 1.0):
                raise ArgumentError(f"{name} {shown(value)}; expected more than 0, less than 1")
        for name in ("floor", "spare"):
            if not (is_finite(value := getattr(self, name)) and 0.0 <= value <= 1.0):
                raise ArgumentError(f"{name} {shown(value)}; expected 0 to 1")
        if not is_collection(self.kinds) or not len(self.kinds) or not set(self.kinds) <= set(KINDS):
            raise ArgumentError(f"states of kinds {self.kinds}; expected some of {', '.join(KINDS)}")
        for name in ("states", "fresh"):
            check_count(name, getattr(self, name), MAX_STATES)
        check_count("seed", self.seed, 2**63, 0)
        check_kind("dsp", self.dsp, Multiplier, optional=False)
        own = float(self.error) if is_number(self.error) else {name: float(error) for name, error in errors.items()}
        object.__setattr__(self, "error", own)

    def of(self, block: str) -> float:
        """The largest error that a block may have."""
        return float(self.error) if is_number(self.error) else float(self.error.get(block, math.inf))


def dsp_blocks(formatted: FormattedGraph, dsp: Multiplier = DSP48E2) -> list[int]:
    """Multiplier blocks of each product, if products shared none."""
    blocks = []
    for i, node in enumerate(formatted.graph.nodes):
        if node.op in PRODUCTS:
            blocks.append(dsp.blocks(*(fmt.width for fmt in formatted.operand_formats(i))))
    return blocks


def bits(formatted: FormattedGraph, dsp: Multiplier = DSP48E2) -> int:
    """Cost without a schedule: the bits of all nodes, and DSP_BITS for each multiplier block."""
    return sum(f.width for f in formatted.formats) + DSP_BITS * sum(dsp_blocks(formatted, dsp))
