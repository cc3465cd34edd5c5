"""Number formats of AXI streams: a float32 for each number, or the datapath's packed integers."""

from __future__ import annotations

import math
from collections.abc import Sequence

FLOAT32, FIXED = "float32", "fixed"
FLOAT64 = "float64"
"""Type of result arrays that no stream has rounded."""
WORDS = FLOAT32, FIXED
PER_SAMPLE, PER_BATCH = "sample", "batch"
LASTS = PER_SAMPLE, PER_BATCH
"""Units that TLAST can end."""
WIDTHS = (32, 64, 128, 256, 512)
"""Bits of a beat."""
WORD = 32
"""Bits of a word of a stream or a register, and of a tag."""
TAG_WORDS = 1
"""Words of a sample's tag, after the others."""
TAG_COUNT_BITS = 20
"""Low bits of a tag, which count samples. The bits above are the epoch, which begins anew with each reset."""
TAG_COUNT_MASK = (1 << TAG_COUNT_BITS) - 1


def number_of(words: str) -> str | None:
    """The type that a stream rounds a number to; None where integers are packed."""
    return None if words == FIXED else words


def words_of(widths: Sequence[int], words: str, *, flag: bool = False) -> int:
    """Words of a sample, or of a result, of numbers of this many bits. flag: packed integers have a bit more, which
    says that the result cannot be used."""
    bits = sum(widths) + flag if words == FIXED else WORD * len(widths)
    return math.ceil(bits / WORD)


def beats(words: int, width: int) -> int:
    """Beats of a sample of this many words and its tag; a sample begins with a beat of its own."""
    return math.ceil((words + TAG_WORDS) / (width // WORD))


def sample_bytes(words: int, width: int) -> int:
    """Bytes of a sample of this many words on a stream, and on the link behind it: its tag and whole beats. The one
    place where they are counted."""
    return beats(words, width) * width // 8
