"""Which triangle is seen in each pixel: a depth buffer in numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Array
from dynagate.views.scene.camera import Camera

Indices = npt.NDArray[np.int64]

MAX_SPANS = 2_000_000
"""Number of pixels of triangles that are compared at a time."""


class Seen(NamedTuple):
    """The pixels in which something is seen.

    pixel: Index of the pixel, row by row from the top, (n,). triangle: The triangle nearest to the camera, (n,).
    weights: Parts of its three corners in the pixel, (n, 3). depth: m, (n,).
    """

    pixel: Indices
    triangle: Indices
    weights: Array
    depth: Array


def to_pixels(camera: Camera, frame: int, points: Array, width: int, height: int) -> tuple[Array, Array]:
    """Project points (..., 3), m, to pixels (..., 2) from the upper left corner, and return these and their depths
    (...) in m.
    """
    flat, depth = camera.seen(points, frame)
    return flat * [0.5 * height, -0.5 * height] + [0.5 * width, 0.5 * height], depth


def seen(corners: Array, depth: Array, width: int, height: int, *, one_sided: npt.NDArray[np.bool_]) -> Seen:
    """Return what is seen of triangles.

    Args:
        corners: (n, 3, 2), pixels.
        depth: (n, 3), m.
        width, height: Size of the picture in pixels.
        one_sided: Triangles that are left out where their corners are not counter-clockwise, (n,).
    """
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    kept = np.flatnonzero((np.abs(area) > 1e-9) & ((area < 0.0) | ~one_sided) & (depth.min(axis=1) > 1e-6))
    own, own_area, nearness = corners[kept], area[kept], 1.0 / depth[kept]
    scale = float(2**31 - 1) / max(float(nearness.max(initial=0.0)), 1e-300)
    plane = _planes(own, own_area, nearness * scale)
    best = np.zeros(width * height, np.uint64)
    for spans in _rows(own, height):
        _fill(best, *spans, plane, width)
    pixel = np.flatnonzero(best)
    owner = (best[pixel] & np.uint64(2**32 - 1)).astype(np.int64) - 1
    weights = _weights(own[owner], own_area[owner], pixel % width + 0.5, pixel // width + 0.5)
    weights *= nearness[owner]
    near = weights.sum(axis=1)
    return Seen(pixel, kept[owner], weights / near[:, None], 1.0 / near)


def covered(corners: Array, width: int, height: int) -> npt.NDArray[np.bool_]:
    """Return the pixels (height, width) that triangles (n, 3, 2) cover."""
    mask = np.zeros(width * height, bool)
    for _, row, low, high in _rows(corners, height):
        begins, counts = _columns(low, high, width)
        for pixel, _ in _spread(row * width + begins, counts):
            mask[pixel] = True
    return mask.reshape(height, width)


def _planes(corners: Array, area: Array, values: Array) -> Array:
    """Return p (n, 3) so that p0 x + p1 y + p2 has these values (n, 3) at the corners of triangles (n, 3, 2)."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    second, third = values[:, 1] - values[:, 0], values[:, 2] - values[:, 0]
    x = (second * (c[:, 1] - a[:, 1]) - third * (b[:, 1] - a[:, 1])) / area
    y = (third * (b[:, 0] - a[:, 0]) - second * (c[:, 0] - a[:, 0])) / area
    return np.stack([x, y, values[:, 0] - x * a[:, 0] - y * a[:, 1]], axis=1)


def _weights(corners: Array, area: Array, x: Array, y: Array) -> Array:
    """Return the parts of the three corners at points x, y (n,) of triangles (n, 3, 2)."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    second = ((x - a[:, 0]) * (c[:, 1] - a[:, 1]) - (y - a[:, 1]) * (c[:, 0] - a[:, 0])) / area
    third = ((b[:, 0] - a[:, 0]) * (y - a[:, 1]) - (b[:, 1] - a[:, 1]) * (x - a[:, 0])) / area
    return np.stack([1.0 - second - third, second, third], axis=1)


def _rows(corners: Array, height: int) -> Iterator[tuple[Indices, Indices, Array, Array]]:
    """Yield the rows of pixels that triangles meet: triangle, row, and the first and last x in pixels, (m,) each."""
    top = np.clip(np.ceil(corners[:, :, 1].min(axis=1) - 0.5), 0, height).astype(np.int64)
    bottom = np.clip(np.floor(corners[:, :, 1].max(axis=1) - 0.5), -1, height - 1).astype(np.int64)
    counts = np.maximum(bottom - top + 1, 0)
    ends = np.cumsum(counts)
    begin = 0
    while begin < len(counts):
        until = max(begin + 1, int(np.searchsorted(ends, (ends[begin - 1] if begin else 0) + MAX_SPANS // 8)))
        own = counts[begin:until]
        owner = np.repeat(np.arange(begin, until), own)
        row = top[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(own) - own, own)
        yield owner, row, *_span(corners[owner], row + 0.5)
        begin = until


def _span(corners: Array, y: Array) -> tuple[Array, Array]:
    """Return the first and last x at which rows y (m,) cross triangles (m, 3, 2)."""
    low, high = np.full(len(y), np.inf), np.full(len(y), -np.inf)
    for k in range(3):
        a, b = corners[:, k], corners[:, (k + 1) % 3]
        fall = b[:, 1] - a[:, 1]
        crosses = (np.minimum(a[:, 1], b[:, 1]) <= y) & (np.maximum(a[:, 1], b[:, 1]) >= y) & (fall != 0.0)
        x = a[:, 0] + (y - a[:, 1]) * (b[:, 0] - a[:, 0]) / np.where(fall == 0.0, 1.0, fall)
        low = np.where(crosses, np.minimum(low, x), low)
        high = np.where(crosses, np.maximum(high, x), high)
    return low, high


def _columns(low: Array, high: Array, width: int) -> tuple[Indices, Indices]:
    """Return the first pixel of spans from x = low to high, and their numbers of pixels."""
    first = np.ceil(np.clip(low, -1.0, width + 1.0) - 0.5).clip(0, width).astype(np.int64)
    last = np.floor(np.clip(high, -1.0, width + 1.0) - 0.5).clip(-1, width - 1).astype(np.int64)
    return first, np.maximum(last - first + 1, 0)


def _spread(begins: Indices, counts: Indices) -> Iterator[tuple[Indices, Indices]]:
    """Yield the numbers begins[k], begins[k] + 1, ... of spans k with these counts, and k for each."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        until = max(start + 1, int(np.searchsorted(ends, (ends[start - 1] if start else 0) + MAX_SPANS)))
        own = counts[start:until]
        span = np.repeat(np.arange(start, until), own)
        yield np.arange(len(span)) + np.repeat(begins[start:until] - np.cumsum(own) + own, own), span
        start = until


def _fill(
    best: npt.NDArray[np.uint64], owner: Indices, row: Indices, low: Array, high: Array, plane: Array, width: int
) -> None:
    """Enter the nearest triangle for each pixel of spans into `best`: its nearness, then its number plus 1."""
    begins, counts = _columns(low, high, width)
    for column, span in _spread(begins, counts):
        triangle = owner[span]
        slope, start = plane[triangle, 0], (plane[owner, 1] * (row + 0.5) + plane[owner, 2])[span]
        near = np.clip(slope * (column + 0.5) + start, 1.0, 2.0**31).astype(np.uint64)
        np.maximum.at(best, row[span] * width + column, (near << np.uint64(32)) | (triangle + 1).astype(np.uint64))
