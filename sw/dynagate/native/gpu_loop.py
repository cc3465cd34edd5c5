"""A loop on a GPU: all iterations in one launch, behind numpy arrays or arrays that are there already."""

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
    """An input or output of all iterations. shape: of a sample."""

    name: str
    shape: tuple[int, ...]


class GpuLoop(GpuProgram):
    """The CUDA of a loop, compiled for the cards of `compile.CARDS` and newer, on one of them. Arrays are rows: per
    iteration (batch, iterations, *shape), kept (batch, iterations // every, *shape), others (batch, *shape).

    iterations: of a loop that counts; None for those that it says itself. device: the card's number. Raises ValueError:
    another dtype, or iterations that are not the loop's; CompileError; GpuError.
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
        """Arrays in host memory by name, as `GpuProgram` takes them; inputs of one row are those of all samples, and
        samples of outputs may have gaps between them. Raises GpuError."""
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
