"""Integers of fixed-point formats, with the extremes of each format."""

from __future__ import annotations

import numpy as np
from dynagate.fixedpoint.format import Format

COUNT = 2000


def every(fmt: Format) -> np.ndarray:
    return np.arange(fmt.lowest, fmt.highest + 1)


def some(fmt: Format, seed: int, count: int = COUNT) -> np.ndarray:
    """Random integers of a format, its extremes among them."""
    values = np.random.default_rng(seed).integers(fmt.lowest, fmt.highest + 1, count)
    values[:6] = [fmt.lowest, fmt.highest, -1, 0, 1, fmt.lowest + 1]
    return values


def pairs(a: Format, b: Format) -> tuple[np.ndarray, np.ndarray]:
    """All pairs at small widths, random ones else; the extremes meet each other."""
    if a.width + b.width <= 12:
        grid = np.meshgrid(every(a), every(b))
        return grid[0].ravel(), grid[1].ravel()
    x, y = some(a, 1), some(b, 2)
    y[:6] = y[:6][::-1]
    x[6:8], y[6:8] = a.lowest, (b.lowest, b.highest)
    return x, y
