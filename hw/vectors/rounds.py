"""The rounds in which a bench streams its samples: first single samples, then all pairs of patterns of both sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

PATTERNS = 4
"""Number of pause patterns on either side: none, rare, mostly pauses, bursts."""
ROUNDS = 1 + PATTERNS * PATTERNS
"""With the first one, in which samples follow singly. A bench of a slow design has as many again behind them, with more
samples; FEW of `verify.sh` stops before these."""
ALONE = 40
"""Samples of the first round, each of which enters when nothing is under way; an eighth of all where that is fewer."""
NONE = 0xFFFFFFFF
"""In place of a sample's function: no result of it comes."""


def bounds(groups: Sequence[int], shares: Sequence[int] | None = None) -> npt.NDArray[np.int64]:
    """Return the number of samples until the end of each round, so that a round has samples of one group only.

    groups: sizes of consecutive groups. shares: rounds of each group; by default about the same number. The first round
    belongs to the first group.
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
