"""Tags: a sample carries one on the input stream and its result brings it back, so no result is another sample's."""

from __future__ import annotations

import secrets

import numpy as np

from dynagate.design.codec import Words
from dynagate.design.words import TAG_COUNT_BITS as COUNT_BITS
from dynagate.design.words import TAG_COUNT_MASK as COUNT_MASK
from dynagate.host.links import DeviceError

EPOCHS = 1 << 32 - COUNT_BITS


class Tags:
    """The tags of the samples of one device. The first ones are random, so that they differ from those of a killed
    process.
    """

    def __init__(self) -> None:
        self._epoch, self._next = secrets.randbelow(EPOCHS), 0

    def take(self, count: int) -> int:
        """Return the first tag of a batch. The others follow, as `tags_from` returns them.

        Args:
            count: Number of samples.

        Returns:
            The tag.
        """
        first, self._next = self._next, self._next + count & COUNT_MASK
        return self._epoch << COUNT_BITS | first

    def begin_anew(self) -> None:
        """Start a new epoch; transfers in flight belong to the old one."""
        self._epoch, self._next = (self._epoch + 1) % EPOCHS, 0


def tags_from(first: int, count: int) -> Words:
    """Return consecutive tags.

    Args:
        first: The first tag.
        count: Number of tags.

    Returns:
        The tags (count,).
    """
    counts = np.arange(first & COUNT_MASK, (first & COUNT_MASK) + count, dtype=np.uint32)
    counts &= np.uint32(COUNT_MASK)
    counts |= np.uint32(first & ~COUNT_MASK)
    return counts


def check_tags(text: str, expected: Words, tags: Words) -> None:
    """Check that each result has the tag of its sample.

    Args:
        text: Description of the device, for the error.
        expected: Tags of the samples.
        tags: Tags of the results.

    Raises:
        DeviceError: A result has another tag. The message names the first such sample.
    """
    if np.array_equal(expected, tags):
        return
    sample = int(np.argmax(expected != tags))
    right, tag = int(expected[sample]), int(tags[sample])
    ahead = (tag - right) & COUNT_MASK
    if tag == ~right & 0xFFFFFFFF:
        raise DeviceError(
            f"{text} got sample {sample} damaged: a beat of it was lost, came twice or has a hole; the device was "
            "reset: call again",
            code="DG-LINK-063",
        )
    if tag >> COUNT_BITS != right >> COUNT_BITS:
        what = "a stale one, of before the last reset, came instead"
    elif ahead <= COUNT_MASK >> 1:
        what = f"that of sample {sample + ahead} came instead, so {ahead} are lost"
    elif (other := sample + ahead - COUNT_MASK - 1) >= 0:
        what = f"that of sample {other} came again"
    else:
        what = f"one of a batch before, {-other} samples before this one's first, came again"
    raise DeviceError(
        f"{text} gave no result for sample {sample}: {what} (tag 0x{tag:08X}, expected 0x{right:08X}); the device was "
        "reset: call again",
        code="DG-LINK-064",
    )
