"""Rounds of a bench: first single samples, then all pairs of pause patterns on both streams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

PATTERNS = 4
"""Number of pause patterns on each stream: none, rare, mostly pauses, bursts."""
ROUNDS = 1 + PATTERNS * PATTERNS
"""Number of rounds, with the first one, whose samples follow singly.

The bench of a slow design has as many rounds again, with more samples; FEW of `verify.sh` stops before them.
"""
ALONE = 40
"""Largest number of samples in the first round, each of which enters an idle module; at most an eighth of all samples.
"""
NONE = 0xFFFFFFFF
"""Number in place of a sample's function if the sample has no result."""


def bounds(groups: Sequence[int], shares: Sequence[int] | None = None) -> npt.NDArray[np.int64]:
    """Return the number of samples until the end of each round, so that a round has samples of one group only.

    Args:
        groups: Sizes of consecutive groups.
        shares: Number of rounds of each group; by default nearly equal. The first round belongs to the first group.
    """
    count = len(groups)
    shares = shares or [ROUNDS // count + (k < ROUNDS % count) for k in range(count)]
    ends: list[int] = []
    done = 0
    for k, (size, share) in enumerate(zip(groups, shares, strict=True)):
        alone = min(ALONE, size // 8) if k == 0 else 0
        others = share - (k == 0)
        if k == 0:
            ends.append(done + (alone if others else size))
        ends += [done + alone + (size - alone) * (j + 1) // others for j in range(others)]
        done += size
    return np.array(ends, np.int64)
