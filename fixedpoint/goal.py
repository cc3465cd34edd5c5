"""What formats are to reach, and the multipliers that they are to fill."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.graph import OPS

DSP_BITS = 40
"""What a multiplier block weighs beside bits of registers and adders: it holds about as many in its pipeline."""


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
    """What is wanted: relative L2 error of every output block at most `error` in a `quantile` of the region's states.

    error: for all blocks, or by the name of each (a block without one may be as wrong as it likes).
    confidence: of that statement. dsp: the target's multiplier, whose wide operand is the longest word. spare: part of
    the products that may take more than one, exceeded only where no formats meet the error otherwise. states, seed:
    what the quantile is measured on.
    """

    error: float | Mapping[str, float]
    quantile: float = 0.999
    confidence: float = 0.99
    dsp: Multiplier = DSP48E2
    spare: float = 0.1
    states: int = 16384
    seed: int = 31

    def __post_init__(self) -> None:
        errors = [self.error] if isinstance(self.error, float | int) else list(self.error.values())
        if (
            not all(0.0 < e < 1.0 for e in errors)
            or not errors
            or not 0.0 < self.quantile < 1.0
            or not 0.0 <= self.spare <= 1.0
        ):
            raise ValueError(f"{self}; expected an error and a quantile between 0 and 1, and spare from 0 to 1")

    def of(self, block: str) -> float:
        """The error that a block may have."""
        return float(self.error) if isinstance(self.error, float | int) else float(self.error.get(block, math.inf))


def dsp_blocks(formatted: FormattedGraph, dsp: Multiplier = DSP48E2) -> list[int]:
    """Multiplier blocks that each product takes, if it has them for its own."""
    found = []
    for i, node in enumerate(formatted.graph.nodes):
        if OPS[node.op].unit == "multiply":
            widths = [formatted.read_format(i, k).width for k in range(len(node.args))]
            widths += [formatted.constants[i][1].width] if i in formatted.constants else []
            found.append(dsp.blocks(*widths))
    return found


def bits(formatted: FormattedGraph, dsp: Multiplier = DSP48E2) -> int:
    """A measure of cost that needs no schedule: the bits of all nodes, and DSP_BITS for a multiplier block."""
    return sum(f.width for f in formatted.formats) + DSP_BITS * sum(dsp_blocks(formatted, dsp))
