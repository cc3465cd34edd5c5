"""Run a loop on a GPU: all iterations in one launch, with numpy arrays or with arrays that are already on
the GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.graph.loop import Loop
from dynagate.native.arrays import check
from dynagate.native.compile import CUDA, Compiler
from dynagate.native.cuda_loop import cuda_loop_source
from dynagate.native.gpu import GpuProgram, GpuText


@dataclass(frozen=True)
class _Array:
    """An input or output of all iterations, with its shape for one sample."""

    name: str
    shape: tuple[int, ...]


class GpuLoop(GpuProgram):
    """The CUDA of a loop, compiled for the cards of `compile.CARDS` and newer ones, on one card.

    Arrays are in rows: (batch, iterations, *shape) for per-iteration inputs, (batch, iterations // every, *shape) for
    kept outputs, (batch, *shape) for others.

    Args:
        loop: The loop.
        dtype: float32 or float64.
        iterations: Number of iterations; None if the loop states it.
        device: Number of the card.

    Raises:
        ArgumentError: The dtype is unknown, or iterations differs from the loop's number.
        CompileError: The source cannot be compiled.
        GpuError: The card cannot be used.
    """

    def __init__(
        self,
        loop: Loop,
        dtype: npt.DTypeLike,
        iterations: int | None = None,
        *,
        device: int = 0,
        folder: Path | None = None,
        toolchain: Compiler = CUDA,
    ) -> None:
        self.loop, own = loop, np.dtype(dtype)
        check(own, "rows")
        count = loop.counted(iterations)
        inputs, outputs = (
            tuple(_Array(port.name, (*([iterations] if port.name in each else []), *port.shape)) for port in ports)
            for ports, each, iterations in (
                (loop.inputs, loop.per_iteration, count),
                (loop.outputs, loop.kept, count // loop.every),
            )
        )
        source = cuda_loop_source(loop, double=own == np.float64)
        text = GpuText(loop.name, source, inputs, outputs, count, writes_all=True)
        super().__init__(text, own, "rows", device=device, folder=folder, toolchain=toolchain)

    def __call__(self, inputs: Mapping[str, npt.NDArray[Any]], outputs: Mapping[str, npt.NDArray[Any]]) -> None:
        """Compute a batch in host memory.

        Args:
            inputs: Name -> array; an array with one row applies to all samples.
            outputs: Name -> array, which may have gaps between samples.

        Raises:
            GpuError: The card failed.
        """
        batch = len(next(iter(outputs.values())))
        whole = {
            name: np.broadcast_to(array, (batch, *array.shape[1:])) if len(array) == 1 else array
            for name, array in inputs.items()
        }
        gaps = {name: array for name, array in outputs.items() if not np.asarray(array).flags.c_contiguous}
        written = {**outputs, **{name: np.empty_like(array, order="C") for name, array in gaps.items()}}
        super().__call__(whole, written)
        for name, array in gaps.items():
            array[...] = written[name]
