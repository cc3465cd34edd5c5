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


def integers(count: int, seed: int, draw: int) -> Integers:
    """The first numbers (count,) of a draw, in numpy: the reference. seed, draw: of 32 bits each."""
    return philox.integers(np.arange(count), draw, seed).astype(np.int32)


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
        places = [np.ascontiguousarray(node, np.int32) for node in (self.node, self._after)]
        parts = [np.ascontiguousarray(x, mean.dtype) for x in self._parts(scale)]
        arrays = (result, np.ascontiguousarray(numbers), np.ascontiguousarray(mean), *places, *parts)
        function = _library(None)[f"dynagate_lines_{TYPES[result.dtype]}"]
        function.argtypes, function.restype = [ctypes.c_void_p] * 7 + [ctypes.c_long] * 4, None
        function(*(x.ctypes.data for x in arrays), samples, self.nodes * width, self.knots, width)
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
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_long, ctypes.c_uint32, ctypes.c_uint32], None
    function(numbers.ctypes.data, count, seed, draw)
    return numbers


@cache
def _library(folder: Path | None) -> ctypes.CDLL:
    texts = {file: (files("dynagate.native") / file).read_text() for file in (f"{NAME}.c", PHILOX)}
    source = Source(NAME, texts, hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:16])
    return ctypes.CDLL(str(library(source, double=False, folder=folder)))
