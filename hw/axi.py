"""What a user chooses of the AXI interfaces (plain Python)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dynagate.base.errors import ArgumentError

PER_SAMPLE, PER_BATCH = "sample", "batch"
FLOAT32, FIXED = "float32", "fixed"
WORDS = FLOAT32, FIXED
"""What streams carry: a float32 for each number, or the datapath's integers, packed."""
WORD = 32
"""Bits of a float32, and of a tag."""
TAG_WORDS = 1
"""The word after a sample's float32 words, which its result brings back."""
WIDTHS = (32, 64, 128, 256, 512)


@dataclass(frozen=True)
class Axi:
    """width: bits of both streams. last: TLAST ends every "sample", or a "batch" of them. words: what they carry,
    "float32" for each number or the datapath's own integers packed, "fixed"."""

    width: int = 512
    last: str = PER_SAMPLE
    words: str = FLOAT32

    def __post_init__(self) -> None:
        if self.width not in WIDTHS:
            raise ArgumentError(f"stream of {self.width} bits; expected one of {', '.join(map(str, WIDTHS))}")
        if self.last not in (PER_SAMPLE, PER_BATCH):
            raise ArgumentError(f"TLAST per '{self.last}'; expected '{PER_SAMPLE}' or '{PER_BATCH}'")
        if self.words not in WORDS:
            raise ArgumentError(f"words '{self.words}'; expected one of {', '.join(WORDS)}")

    @property
    def lanes(self) -> int:
        """32-bit words of a beat."""
        return self.width // WORD


def beats(words: int, width: int) -> int:
    """Beats of a sample of so many float32 words and its tag; a sample begins with a beat of its own."""
    return math.ceil((words + TAG_WORDS) / (width // WORD))


def words_of(widths: Sequence[int], words: str, *, flag: bool = False) -> int:
    """Words of a sample, or of a result, of numbers of so many bits. flag: a bit more says that it cannot be used."""
    return len(widths) if words == FLOAT32 else -(-(sum(widths) + flag) // WORD)
