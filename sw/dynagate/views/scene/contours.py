"""Regions of pixels as polygons."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Floats

Mask = npt.NDArray[np.bool_]

SMALLEST = 12.0
"""Regions and holes with a smaller area in pixels are left out."""


def contours(mask: Mask, tolerance: float) -> list[Floats]:
    """Return closed polygons (n, 2), x and y in pixels, around the regions of a mask, and around their holes.

    mask: (height, width). tolerance: how far a polygon may be from the border of pixels.
    """
    loops = [loop for loop in _loops(mask) if len(loop) > SMALLEST and abs(_area(loop)) >= SMALLEST]
    simple = [_simplified(loop, tolerance) for loop in loops]
    return [loop for loop in simple if len(loop) > 2]


def _loops(mask: Mask) -> list[Floats]:
    """Return the borders of a mask as loops of the middles of pixels' edges.

    An edge between pixels leads from one corner of the grid to the next, with the region on its right. Where two
    regions meet at a corner, the border bends to the right, so that they stay apart.
    """
    padded = np.pad(mask, 1)
    height, width = padded.shape[0] + 1, padded.shape[1] + 1
    starts, ways = [], []
    for axis, (first, second) in enumerate(
        ((padded[:-1, :], padded[1:, :]), (padded[:, :-1], padded[:, 1:])),
    ):
        for entering in (True, False):
            y, x = np.nonzero(~first & second if entering else first & ~second)
            if axis == 0:  # a horizontal edge: to the right above a region, to the left below it
                starts.append((y + 1) * width + x + (0 if entering else 1))
                ways.append(np.full(len(y), 0 if entering else 2))
            else:  # a vertical edge: up at the left of a region, down at its right
                starts.append((y + (1 if entering else 0)) * width + x + 1)
                ways.append(np.full(len(y), 3 if entering else 1))
    start, way = np.concatenate(starts), np.concatenate(ways)
    table = np.full((height * width, 4), -1)
    table[start, way] = np.arange(len(start))
    step = np.array([1, width, -1, -width])
    end = start + step[way]
    following = np.full(len(start), -1)
    for turn in (3, 0, 1):  # left, straight on, right: the last edge that exists wins
        candidate = table[end, (way + turn) % 4]
        following = np.where(candidate >= 0, candidate, following)
    middle = np.stack([start % width, start // width], axis=1) + 0.5 * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])[way]
    return [middle[loop] - 1.0 for loop in _cycles(following.tolist())]


def _cycles(following: list[int]) -> list[list[int]]:
    """Return the cycles of a permutation."""
    left = [True] * len(following)
    cycles = []
    for first in range(len(following)):
        if left[first]:
            cycle, k = [], first
            while left[k]:
                left[k] = False
                cycle.append(k)
                k = following[k]
            cycles.append(cycle)
    return cycles


def _area(loop: Floats) -> float:
    x, y = loop.T
    return 0.5 * float(x[:-1] @ y[1:] - y[:-1] @ x[1:] + x[-1] * y[0] - y[-1] * x[0])


def _simplified(loop: Floats, tolerance: float) -> Floats:
    """Return a loop with fewer points, by Douglas and Peucker from its two points that are furthest apart."""
    far = int(((loop - loop[0]) ** 2).sum(axis=1).argmax())
    far_from = int(((loop - loop[far]) ** 2).sum(axis=1).argmax())
    turned = np.roll(loop, -far_from, axis=0)
    split = (far - far_from) % len(loop)
    closed = np.concatenate([turned, turned[:1]])
    kept = np.zeros(len(closed), bool)
    kept[[0, split, len(closed) - 1]] = True
    waiting = [(0, split), (split, len(closed) - 1)]
    while waiting:
        begin, end = waiting.pop()
        if end - begin < 2:
            continue
        chord = closed[end] - closed[begin]
        inner = closed[begin + 1 : end] - closed[begin]
        length = float(np.hypot(*chord))
        if length > 0.0:
            away = np.abs(inner[:, 0] * chord[1] - inner[:, 1] * chord[0]) / length
        else:
            away = np.hypot(inner[:, 0], inner[:, 1])
        worst = int(away.argmax())
        if away[worst] > tolerance:
            kept[begin + 1 + worst] = True
            waiting += [(begin, begin + 1 + worst), (begin + 1 + worst, end)]
    return np.asarray(closed[:-1][kept[:-1]])
