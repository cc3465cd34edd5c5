"""Random numbers of `base.philox` in C, and piecewise linear noise from them. A numpy version is the reference."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base import philox
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.native.arrays import address
from dynagate.native.compile import library
from dynagate.native.headers import header
from dynagate.native.source import CSource

Integers = npt.NDArray[np.int32]
NAME = "dynagate_noise"
WIDE, ABREAST = 8, 4
"""Number of entries that C writes at once, and number of samples."""


def integers(count: int, seed: int, draw: int) -> Integers:
    """Return the first numbers (count,) of a draw in numpy: the reference. seed and draw have 32 bits."""
    return philox.integers(np.arange(count), draw, seed).astype(np.int32)


class NoiseLines:
    """Piecewise linear functions over knots through random numbers at nodes.

    Each knot takes a part `left` of its node's number and a part `right` of the next node's. Independent numbers of
    variance 1 give a mean variance of scale² over the knots.

    Args:
        nodes: Number of nodes.
        knots: Number of knots.
        scale: Standard deviation of the noise, (width,).

    Raises:
        ArgumentError: There are more nodes than knots, or one node for several knots.
    """

    def __init__(self, nodes: int, knots: int, scale: Array) -> None:
        if nodes > knots or nodes < min(2, knots):
            raise ArgumentError(f"nodes={nodes}; expected 2 to {knots}, as many as knots", code="DG-COMPILE-018")
        at = np.linspace(0.0, nodes - 1.0, knots)
        self.nodes, self.knots, self.width = nodes, knots, len(scale)
        self.node = np.minimum(at.astype(np.int32), max(nodes - 2, 0))
        self.after = np.minimum(self.node + 1, nodes - 1)
        right = at - self.node
        left = 1.0 - right
        size = np.sqrt((left**2 + right**2).mean())
        self.left, self.right = ((x / size)[:, None] * scale for x in (left, right))

    def about(self, mean: Array, numbers: Integers) -> Array:
        """Add noise to means in numpy: the reference.

        Args:
            mean: Means (batch, knots, width).
            numbers: Random numbers (batch, samples, nodes, width).

        Returns:
            Samples (batch, samples, knots, width).
        """
        lines = self.left * numbers[:, :, self.node] + self.right * numbers[:, :, self.after]
        return np.asarray(mean[:, None] + lines, mean.dtype)

    def compiled(self, mean: Array, numbers: Integers) -> Array:
        """Add noise to means as `about` does, in C. Raise CompileError if it cannot be compiled."""
        batch, samples = numbers.shape[:2]
        size, told = self.knots * self.width, self.told(mean.dtype)
        function = compiled_noise(mean.dtype).dynagate_lines
        result = np.empty((batch, samples + ABREAST, gapped(size)), mean.dtype)
        for to, own, about in zip(result, numbers, mean, strict=True):
            drawn = np.resize(own, (samples + ABREAST, *own.shape[1:]))  # the last ones belong to no sample
            arrays = (to, padded(drawn, np.dtype(np.int32)), padded(about, mean.dtype))
            function(ctypes.byref(told), *(ctypes.c_void_p(address(x)) for x in arrays), ctypes.c_long(samples))
        return result[:, :samples, :size].reshape(batch, samples, self.knots, self.width)

    def told(self, dtype: np.dtype[Any], bounds: tuple[Array, Array] | None = None) -> LinesInC:
        """Return the lines for C, in a dtype, with lower and upper bounds (width,) of the results if given."""
        ends = () if bounds is None else (np.broadcast_to(x, self.left.shape) for x in bounds)
        arrays = [self.node, self.after, *(padded(x, dtype) for x in (self.left, self.right, *ends))]
        told = LinesInC(self.nodes, self.knots, self.width, *map(address, arrays))
        told.kept = arrays
        return told


class LinesInC(ctypes.Structure):
    """`lines` of the C file."""

    kept: Any
    """The arrays to which it points."""
    _fields_ = (
        *((name, ctypes.c_long) for name in ("nodes", "knots", "width")),
        *((name, ctypes.c_void_p) for name in ("here", "next", "left", "right", "low", "high")),
    )


def gapped(size: int) -> int:
    """Return the number of elements from a sample with this many entries to the next."""
    return (size + 2 * WIDE - 1) // WIDE * WIDE


def padded(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return all entries in a row, followed by WIDE more that C may read."""
    result = np.zeros(array.size + WIDE, dtype)
    result[: array.size] = array.ravel()
    return result


def compiled(count: int, seed: int, draw: int) -> Integers:
    """Return the numbers of `integers`, computed in C. Raise CompileError if it cannot be compiled."""
    numbers = np.empty(count, np.int32)
    function = compiled_noise(np.dtype(np.float32)).dynagate_noise
    function(ctypes.c_void_p(address(numbers)), ctypes.c_long(count), ctypes.c_uint32(seed), ctypes.c_uint32(draw))
    return numbers


@cache
def compiled_noise(dtype: np.dtype[Any]) -> ctypes.CDLL:
    """Return the compiled C file with numbers of a dtype. Raise CompileError if it cannot be compiled."""
    source = CSource.of(NAME, {f"{NAME}.c": header(f"{NAME}.c")})
    return ctypes.CDLL(str(library(source, double=dtype == np.float64)))
