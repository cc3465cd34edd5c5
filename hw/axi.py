"""What a user chooses of the AXI interfaces (plain Python)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dynagate.base.arguments import check_flags, store_plain_numbers
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.design.words import (
    FLOAT16,
    FLOAT16_ERROR,
    FLOAT32,
    LARGEST_FLOAT16,
    LASTS,
    PER_BATCH,
    PER_SAMPLE,
    SMALLEST_FLOAT16,
    WIDTHS,
    WORD,
    WORDS,
)
from dynagate.fixedpoint.assign import FormattedGraph
from dynagate.fixedpoint.goal import Goal

__all__ = ["PER_BATCH", "PER_SAMPLE", "WIDTHS", "Axi", "check_goal", "check_words"]


@explained
@dataclass(frozen=True)
class Axi:
    """What the AXI shell around a datapath has.

    width: bits of both streams, 32, 64, 128, 256 or 512. last: TLAST ends every "sample", or a "batch" of them.
    words: what they carry, "float32" or "float16" for each number, or the datapath's own integers packed, "fixed".
    choice: a register chooses which outputs of a function are sent, while the accelerator runs.
    Raises ValueError: one is none of these."""

    width: int = 512
    last: str = PER_SAMPLE
    words: str = FLOAT32
    choice: bool = False

    def __post_init__(self) -> None:
        store_plain_numbers(self)
        if self.width not in WIDTHS:
            raise ArgumentError(f"stream of {self.width} bits; expected one of {', '.join(map(str, WIDTHS))}")
        if self.last not in LASTS:
            raise ArgumentError(f"TLAST per '{self.last}'; expected '{PER_SAMPLE}' or '{PER_BATCH}'")
        if self.words not in WORDS:
            raise ArgumentError(f"words '{self.words}'; expected one of {', '.join(WORDS)}")
        check_flags(choice=self.choice)

    @property
    def lanes(self) -> int:
        """32-bit words of a beat."""
        return self.width // WORD


def check_words(formatted: FormattedGraph, words: str) -> None:
    """Raises ValueError naming an input or output whose numbers a float16 does not hold."""
    for side, ports in (("input", formatted.graph.inputs), ("output", formatted.graph.outputs)):
        for port in ports if words == FLOAT16 else ():
            numbers = [i for i in port.nodes if not formatted.graph.nodes[i].is_zero and not port.parameter]
            if not numbers:
                continue
            largest = max(_largest(formatted, i) for i in numbers)
            if largest > LARGEST_FLOAT16 + 32.0:  # from there on a format's last few numbers become infinite
                raise ArgumentError(
                    f"{side} '{port.name}' is up to {largest:.6g}; float16 holds up to {LARGEST_FLOAT16:g}: expected "
                    "words float32 or fixed, a smaller operating region, or other outputs"
                )
            if largest < SMALLEST_FLOAT16:
                raise ArgumentError(
                    f"{side} '{port.name}' is at most {largest:.3g}; float16 has its 11 bits from "
                    f"{SMALLEST_FLOAT16:.3g} on only: expected words float32 or fixed"
                )


def _largest(formatted: FormattedGraph, node: int) -> float:
    """The size that a number may have: of an input what its format is for, of another one what its format holds."""
    return max(map(abs, formatted.bounds.get(node, formatted.formats[node].limits)))


def check_goal(goal: Goal, words: str) -> None:
    """Raises ValueError: a float16 errs more than the goal allows."""
    errors = goal.error if isinstance(goal.error, Mapping) else {"": goal.error}
    for name, error in errors.items():
        if words == FLOAT16 and error < FLOAT16_ERROR:
            of = f" of '{name}'" if name else ""
            raise ArgumentError(
                f"an error{of} of {error:g} in words of float16, whose 11 bits alone bring up to {FLOAT16_ERROR:.2g}; "
                "expected a larger error, or words float32 or fixed"
            )
