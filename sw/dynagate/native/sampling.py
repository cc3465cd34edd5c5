"""Sampled rollouts around mean torques and their weighted mean, in C.

Each block of samples is drawn, rolled out and weighted before the next block starts, so its torques stay in the cache.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping

import numpy as np

from dynagate.base.arrays import Array
from dynagate.native.arrays import address
from dynagate.native.loop import LoopKernel
from dynagate.native.noise import WIDE, LinesInC, NoiseLines, compiled_noise, gapped

SAMPLES = 64
"""Number of samples in a block."""
TORQUES = "tau"
RESULTS = ("cost", "least", "effective")


class _Sampled(ctypes.Structure):
    """`sampled` of the C file."""

    _fields_ = (
        ("lines", LinesInC),
        *((name, ctypes.c_void_p) for name in ("loop", "read", "stride")),
        *((name, ctypes.c_long) for name in ("inputs", "torques", "samples")),
        *((name, ctypes.c_uint32) for name in ("seed", "draw")),
        ("temperature", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("parts", "sums", "reals", "numbers")),
        ("busy", ctypes.c_int),
    )


class Sampling:
    """Sampled rollouts of a loop, compiled.

    Args:
        kernel: A loop from torques `tau` (knots, width) and other inputs to a cost ().
        lines: The noise that is added to the mean torques.
        samples: Number of samples.
        bounds: Lower and upper bounds of torques.

    Raises:
        CompileError: The source cannot be compiled.
    """

    def __init__(
        self,
        kernel: LoopKernel,
        lines: NoiseLines,
        samples: int,
        seed: int,
        temperature: float,
        bounds: tuple[Array, Array] | None,
    ) -> None:
        self.kernel, self.samples, self.seed, self.temperature = kernel, samples, seed, temperature
        self._lines = lines.told(kernel.dtype, bounds)
        self._library = compiled_noise(kernel.dtype)
        self._rows = ctypes.cast(self._library.dynagate_sampled, ctypes.c_void_p).value or 0

    def bound(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], batch: int
    ) -> Callable[[int, bool], None]:
        """Bind arrays for repeated draws.

        Args:
            inputs: Inputs of the loop, (batch, ...), or (1, ...) for all problems; `tau` is the mean.
            outputs: `tau`, the new mean, and for each problem `cost`, `least` and `effective`, float64, and
                `failed`.
            batch: Number of problems.

        Returns:
            A function of the number of a draw. With True it draws around the previous result.

        Raises:
            ArgumentError: An array does not fit.
        """
        loop, knots, width = self.kernel.loop, self._lines.knots, self._lines.width
        arrays, read, stride = self.kernel.given(inputs, batch, 1)
        blocks = -(-self.samples // SAMPLES)
        parts = np.empty((batch, blocks, 4))
        sums = np.empty((batch, blocks, knots, width), self.kernel.dtype)
        row, size = self._lines.nodes * width, knots * width
        numbers = np.empty((self.kernel.threads, SAMPLES * row + WIDE), np.int32)
        reals = np.empty((self.kernel.threads, (SAMPLES + 1) * gapped(size) + SAMPLES), self.kernel.dtype)
        torques = [port.name for port in loop.inputs].index(TORQUES)
        sampled = _Sampled(
            self._lines,
            self.kernel.address,
            ctypes.addressof(read),
            ctypes.addressof(stride),
            len(read),
            torques,
            self.samples,
            self.seed,
            0,
            self.temperature,
            *map(address, (parts, sums, reals, numbers)),
            0,
        )
        mean = outputs[TORQUES]
        written = [ctypes.c_void_p(address(outputs[name])) for name in (TORQUES, *RESULTS, "failed")]
        told = (ctypes.c_void_p * 1)(ctypes.addressof(sampled))
        places = (read[torques], stride[torques]), (address(mean), mean[0].size)
        of_rows, last = self.kernel.sharing(self._rows, batch * blocks * SAMPLES), self._library.dynagate_mean
        kept, count = (self._lines, arrays, parts, sums, reals, numbers, outputs), ctypes.c_long(batch)

        def run(draw: int, again: bool = False) -> None:
            assert kept
            sampled.draw, sampled.busy = draw, 0
            read[torques], stride[torques] = places[again]
            of_rows(None, told)
            last(ctypes.byref(sampled), *written, count)

        return run
