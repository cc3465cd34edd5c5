"""Random numbers of `base.philox` in C, the same integers, and straight lines between them."""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base import philox
from dynagate.base.errors import ArgumentError
from dynagate.native.arrays import TYPES
from dynagate.native.compile import library
from dynagate.native.emit import PHILOX, Source

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int32]
NAME = "dynagate_noise"
WIDE = 8
"""Entries that C writes at once."""


def integers(count: int, seed: int, draw: int) -> Integers:
    """The first numbers (count,) of a draw, in numpy: the reference. seed, draw: of 32 bits each."""
    return philox.integers(np.arange(count), draw, seed).astype(np.int32)


class Lines:
    """Straight lines between numbers at nodes, over knots: each knot has a part `left` of its node and a part `right`
    of the next one. Independent numbers of variance 1 give a mean variance of scale² over the knots.

    scale (width,): of the numbers. Raises ValueError: there are more nodes than knots, or one node of several knots.
    """

    def __init__(self, nodes: int, knots: int, scale: Array) -> None:
        if nodes > knots or nodes < min(2, knots):
            raise ArgumentError(f"nodes={nodes}; expected 2 to {knots}, as many as knots")
        at = np.linspace(0.0, nodes - 1.0, knots)
        self.nodes, self.knots, self.width = nodes, knots, len(scale)
        self.node = np.minimum(at.astype(np.int32), max(nodes - 2, 0))
        self.after = np.minimum(self.node + 1, nodes - 1)
        right = at - self.node
        left = 1.0 - right
        size = np.sqrt((left**2 + right**2).mean())
        self.left, self.right = ((x / size)[:, None] * scale for x in (left, right))
        self._parts = {dtype: [_padded(x, dtype) for x in (self.left, self.right)] for dtype in TYPES}

    def about(self, mean: Array, numbers: Integers) -> Array:
        """mean (batch, knots, width) and numbers (batch, samples, nodes, width) to (batch, samples, knots, width), in
        numpy: the reference."""
        lines = self.left * numbers[:, :, self.node] + self.right * numbers[:, :, self.after]
        return np.asarray(mean[:, None] + lines, mean.dtype)

    def compiled(self, mean: Array, numbers: Integers) -> Array:
        """The same in C. Raises CompileError."""
        samples = numbers.shape[1]
        result = np.empty((len(mean), samples, self.knots, self.width), mean.dtype)
        function = _function(f"dynagate_lines_{TYPES[mean.dtype]}", 7, (ctypes.c_long,) * 4)
        sizes = samples, self.nodes * self.width, self.knots, self.width
        for to, drawn, about in zip(result, np.ascontiguousarray(numbers), mean, strict=True):
            arrays = (to, drawn, _padded(about, mean.dtype), self.node, self.after, *self._parts[mean.dtype])
            function(*(x.ctypes.data for x in arrays), *sizes)
        return result


def _padded(array: Array, dtype: np.dtype[Any]) -> Array:
    """All entries, and WIDE more that C reads."""
    padded = np.zeros(array.size + WIDE, dtype)
    padded[: array.size] = array.ravel()
    return padded


def compiled(count: int, seed: int, draw: int) -> Integers:
    """`integers` in C. Raises CompileError."""
    numbers = np.empty(count, np.int32)
    function = _function("dynagate_noise", 1, (ctypes.c_long, ctypes.c_uint32, ctypes.c_uint32))
    function(numbers.ctypes.data, count, seed, draw)
    return numbers


@cache
def _function(name: str, arrays: int, counts: tuple[Any, ...]) -> Any:
    function = _library(None)[name]
    function.argtypes, function.restype = [*[ctypes.c_void_p] * arrays, *counts], None
    return function


@cache
def _library(folder: Path | None) -> ctypes.CDLL:
    texts = {file: (files("dynagate.native") / file).read_text() for file in (f"{NAME}.c", PHILOX)}
    source = Source(NAME, texts, hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:16])
    return ctypes.CDLL(str(library(source, double=False, folder=folder)))
