"""Number formats of AXI streams: float32, or the datapath's packed integers."""

from __future__ import annotations

import math
from collections.abc import Sequence

FLOAT32, FIXED = "float32", "fixed"
FLOAT64 = "float64"
"""Type of result arrays that no stream has rounded."""
WORDS = FLOAT32, FIXED
PER_SAMPLE, PER_BATCH = "sample", "batch"
LASTS = PER_SAMPLE, PER_BATCH
"""Units that TLAST may end."""
WIDTHS = (32, 64, 128, 256, 512)
"""Accepted widths of a beat in bits."""
WORD = 32
"""Bits of a word in a stream, of a register, and of a tag."""
TAG_WORDS = 1
"""Number of words of a sample's tag, after the other words."""
TAG_COUNT_BITS = 20
"""Number of low bits of a tag that count samples. The bits above are the epoch, which restarts with each reset."""
TAG_COUNT_MASK = (1 << TAG_COUNT_BITS) - 1


def number_of(words: str) -> str | None:
    """Return the type to which a stream rounds numbers; None for packed integers."""
    return None if words == FIXED else words


def words_of(widths: Sequence[int], words: str, *, flag: bool = False) -> int:
    """Return the number of words of a sample or result.

    Args:
        widths: Widths of its numbers in bits.
        words: Number format of the stream.
        flag: Whether packed integers have one more bit, which is set if the result cannot be used.
    """
    bits = sum(widths) + flag if words == FIXED else WORD * len(widths)
    return math.ceil(bits / WORD)


def beats(words: int, width: int) -> int:
    """Return the number of beats of a sample with this many words and its tag. A sample starts with a new beat."""
    return math.ceil((words + TAG_WORDS) / (width // WORD))


def sample_bytes(words: int, width: int) -> int:
    """Return the number of bytes of a sample on a stream and on the link behind it, with its tag and
    complete beats.
    """
    return beats(words, width) * width // 8
