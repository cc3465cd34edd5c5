"""What formats are to reach, and the multipliers that they are to fill."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dynagate.base.errors import ArgumentError
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.graph import OPS
from dynagate.graph.region import KINDS, Kind

DSP_BITS = 40
"""What a multiplier block weighs beside bits of registers and adders: it holds about as many in its pipeline."""

FLOOR = 0.1
"""Blocks smaller than this part of their root mean square over the region err relative to that size."""


@dataclass(frozen=True)
class Multiplier:
    """A hardware multiplier of signed operands: bits of the wide one and of the narrow one."""

    name: str
    wide: int
    narrow: int

    def blocks(self, a: int, b: int) -> int:
        """Blocks that a product of a and b bits takes; a part has one bit less than an operand, but for the sign's."""

        def tiles(wide: int, narrow: int) -> int:
            return math.ceil(max(wide - 1, 1) / (self.wide - 1)) * math.ceil(max(narrow - 1, 1) / (self.narrow - 1))

        return min(tiles(a, b), tiles(b, a))


DSP48E2 = Multiplier("DSP48E2", 27, 18)
DSP48E1 = Multiplier("DSP48E1", 25, 18)
MULT18X18 = Multiplier("18x18", 18, 18)
MULTIPLIERS = {m.name: m for m in (DSP48E2, DSP48E1, MULT18X18)}


@dataclass(frozen=True)
class Goal:
    """An accuracy: in a `quantile` of the states every output block errs by at most `error`, relative to its L2 norm
    or, where that is smaller, to `floor` times its root mean square over the region.

    error: for all blocks, or by the name of each (a block without one may err by any amount). floor: 0 makes the error
    purely relative, which no format keeps where a block vanishes. kinds: of states (`Region.sample`), uniform ones
    unless others are given, near rest for instance. confidence: of the statement. dsp: the target's
    multiplier, whose wide operand is the longest word. spare: part of the products that may take more than one,
    exceeded only where no formats meet the error otherwise. states, seed: the states that choose the formats. fresh:
    the number of states on which they are then checked.
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
        errors = {"": self.error} if isinstance(self.error, float | int) else dict(self.error)
        if not errors:
            raise ArgumentError("a goal without an error; expected one number, or one by output block")
        for block, error in errors.items():
            if not 0.0 < error < 1.0:
                raise ArgumentError(
                    f"error {error:g}{f' of {block}' if block else ''}; expected more than 0, less than 1"
                )
        for name in ("quantile", "confidence"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ArgumentError(f"{name} {getattr(self, name):g}; expected more than 0, less than 1")
        for name in ("floor", "spare"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ArgumentError(f"{name} {getattr(self, name):g}; expected 0 to 1")
        if not self.kinds or not set(self.kinds) <= set(KINDS):
            raise ArgumentError(f"states of kinds {self.kinds}; expected some of {', '.join(KINDS)}")
        if min(self.states, self.fresh) < 1:
            raise ArgumentError(f"{self.states} states and {self.fresh} fresh ones; expected 1 or more of each")

    def of(self, block: str) -> float:
        """The error that a block may have."""
        return float(self.error) if isinstance(self.error, float | int) else float(self.error.get(block, math.inf))


def dsp_blocks(formatted: FormattedGraph, dsp: Multiplier = DSP48E2) -> list[int]:
    """Multiplier blocks that each product takes, if it has them for its own."""
    found = []
    for i, node in enumerate(formatted.graph.nodes):
        if OPS[node.op].unit == "multiply":
            widths = [fmt.width for fmt in formatted.operand_formats(i)]
            widths += [formatted.constants[i][1].width] if i in formatted.constants else []
            found.append(dsp.blocks(*widths))
    return found


def bits(formatted: FormattedGraph, dsp: Multiplier = DSP48E2) -> int:
    """A measure of cost that needs no schedule: the bits of all nodes, and DSP_BITS for a multiplier block."""
    return sum(f.width for f in formatted.formats) + DSP_BITS * sum(dsp_blocks(formatted, dsp))
