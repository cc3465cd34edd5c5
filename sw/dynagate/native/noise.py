"""Random numbers from a counter: the integers are the definition, in numpy and in C.

Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) gives 128 bits for each count. A
number is the sum of four halves of 16 bits: nearly normal, within 3.5 deviations, and the same on every machine.
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.native.arrays import TYPES
from dynagate.native.compile import library
from dynagate.native.emit import Source

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int32]
NAME = "dynagate_noise"
MEAN = 131070
DEVIATION = float(np.sqrt(4.0 * (65536.0**2 - 1.0) / 12.0))
"""Of the sum of four halves."""
FACTORS, KEYS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)


def philox(counters: npt.NDArray[np.uint32], seed: int) -> npt.NDArray[np.uint32]:
    """Blocks (count, 4) of 32 bits from counters (count, 4)."""
    a, b, c, d = (counters[:, k].astype(np.uint64) for k in range(4))
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        left, right = a * np.uint64(FACTORS[0]), c * np.uint64(FACTORS[1])
        a, b, c, d = (
            (right >> half) ^ b ^ np.uint64(keys[0]),
            right & low,
            (left >> half) ^ d ^ np.uint64(keys[1]),
            left & low,
        )
        keys = [(key + step) & 0xFFFFFFFF for key, step in zip(keys, KEYS, strict=True)]
    return np.stack([a, b, c, d], axis=1).astype(np.uint32)


def integers(count: int, seed: int, draw: int) -> Integers:
    """The first numbers (count,) of a draw, in numpy: the reference. seed, draw: of 64 bits each."""
    blocks = np.arange((count + 1) // 2, dtype=np.uint64)
    counters = np.empty((len(blocks), 4), np.uint32)
    counters[:, 0], counters[:, 1] = blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32)
    counters[:, 2], counters[:, 3] = draw & 0xFFFFFFFF, draw >> 32
    bits = philox(counters, seed).astype(np.int64)
    halves = (bits >> 16) + (bits & 0xFFFF)
    sums = np.stack([halves[:, 0] + halves[:, 1], halves[:, 2] + halves[:, 3]], axis=1) - MEAN
    return sums.astype(np.int32).reshape(-1)[:count]


class Lines:
    """Straight lines between numbers at nodes, over knots: each knot has a part `left` of its node and a part `right`
    of the next one. Independent numbers of variance 1 give a mean variance of 1 over the knots.

    Raises ValueError: there are more nodes than knots, or one node of several knots.
    """

    def __init__(self, nodes: int, knots: int) -> None:
        if nodes > knots or nodes < min(2, knots):
            raise ArgumentError(f"nodes={nodes}; expected 2 to {knots}, as many as knots")
        at = np.linspace(0.0, nodes - 1.0, knots)
        self.nodes, self.knots = nodes, knots
        self.node = np.minimum(at.astype(np.int32), max(nodes - 2, 0))
        self.right = at - self.node
        self.left = 1.0 - self.right
        size = np.sqrt((self.left**2 + self.right**2).mean())
        self.left, self.right = self.left / size, self.right / size

    def about(self, mean: Array, numbers: Integers, scale: Array) -> Array:
        """mean (knots, width) and numbers (samples, nodes, width) times scale (width) to (samples, knots, width), in
        numpy: the reference."""
        left, right = self._parts(scale)
        lines = left * numbers[:, self.node] + right * numbers[:, self._after]
        return np.asarray(mean + lines, mean.dtype)

    def compiled(self, mean: Array, numbers: Integers, scale: Array) -> Array:
        """The same in C. Raises CompileError."""
        samples, _, width = numbers.shape
        result = np.empty((samples, self.knots, width), mean.dtype)
        entries = np.arange(width, dtype=np.int32)
        places = [np.ascontiguousarray(node[:, None] * width + entries, np.int32) for node in (self.node, self._after)]
        parts = [np.ascontiguousarray(x, mean.dtype) for x in self._parts(scale)]
        arrays = (result, np.ascontiguousarray(numbers), np.ascontiguousarray(mean), *places, *parts)
        function = _library(None)[f"dynagate_lines_{TYPES[result.dtype]}"]
        function.argtypes, function.restype = [ctypes.c_void_p] * 7 + [ctypes.c_long] * 3, None
        function(*(x.ctypes.data for x in arrays), samples, self.nodes * width, self.knots * width)
        return result

    @property
    def _after(self) -> Integers:
        return np.minimum(self.node + 1, self.nodes - 1)

    def _parts(self, scale: Array) -> tuple[Array, Array]:
        """(knots, width) each."""
        return self.left[:, None] * scale, self.right[:, None] * scale


def compiled(count: int, seed: int, draw: int) -> Integers:
    """`integers` in C. Raises CompileError."""
    numbers = np.empty(count, np.int32)
    function = _library(None)["dynagate_noise"]
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_long, ctypes.c_uint64, ctypes.c_uint64], None
    function(numbers.ctypes.data, count, seed, draw)
    return numbers


@cache
def _library(folder: Path | None) -> ctypes.CDLL:
    text = (files("dynagate.native") / f"{NAME}.c").read_text()
    source = Source(NAME, {f"{NAME}.c": text}, hashlib.sha256(text.encode()).hexdigest()[:16])
    return ctypes.CDLL(str(library(source, double=False, folder=folder)))
