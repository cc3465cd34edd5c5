"""Executor "cpu": C compiled for this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.progress import Progress, quiet
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop
from dynagate.host.devices.certified import CertifiedOptions, certified_graph_of
from dynagate.host.devices.face import Executor, Overflow
from dynagate.host.devices.functions import opening_graphs
from dynagate.host.devices.loops import LoopExecutor
from dynagate.host.devices.options import DeviceOptions
from dynagate.host.devices.scan import describe
from dynagate.host.devices.sources import LoopSource
from dynagate.host.inputs import TOO_LARGE, Arrays, check_angles, check_finite, check_results
from dynagate.native.kernel import TANGLED
from dynagate.native.loop import LoopKernel


@dataclass(frozen=True)
class LoopOnCpu(DeviceOptions):
    """C on this machine for a rollout or a solver, with the loop inside the vector. Options as of `Cpu`."""

    name: ClassVar[str] = "cpu"

    dtype: npt.DTypeLike = "float64"
    threads: int = 1


@explained
@dataclass(frozen=True)
class Cpu(CertifiedOptions, LoopOnCpu):
    """C on this machine, vectors over the batch.

    dtype: float64 or float32. layout: "rows", arrays with the batch first in memory, or "planes", with the batch last.
    pack: results are vectors of their different entries, without those that are always zero (`Function.unpack`).
    threads: how many share a batch. certificate, region: as `CertifiedOptions` has them.
    """

    layout: str = "rows"
    pack: bool = False


def _open_graph(graph: Graph, options: Cpu, progress: Progress) -> Executor:
    return CpuDevice(
        graph,
        dtype=options.dtype,
        threads=options.threads,
        layout=options.layout,
        pack=options.pack,
        progress=progress,
    )


def _open_scan(loop: Loop, external_forces: bool, options: Cpu, progress: Progress) -> Executor:
    return CpuScan(
        loop, external_forces, dtype=options.dtype, threads=options.threads, pack=options.pack, progress=progress
    )


open_function = opening_graphs(_open_graph, _open_scan, certified_graph_of)


def open_loop(source: LoopSource, options: LoopOnCpu, progress: Progress = quiet) -> LoopExecutor:
    """Compile a loop for this machine."""
    kernel = LoopKernel(source.loop, np.dtype(options.dtype), threads=options.threads)
    by_arrays = source.iterations is None and source.loop.stop == Count(None)
    return CompiledLoop(kernel, None if by_arrays else source.loop.counted(source.iterations))


class CompiledLoop(LoopExecutor):
    """A loop in C, with a number of iterations, or None for as many as the arrays of a call have."""

    kernel: LoopKernel

    def __init__(self, kernel: LoopKernel, iterations: int | None) -> None:
        self.kernel, self.iterations = kernel, iterations
        self.loop, self.dtype = kernel.loop, kernel.dtype

    def __call__(self, inputs: Mapping[str, npt.NDArray[Any]], outputs: Mapping[str, npt.NDArray[Any]]) -> bool:
        return self.bound(inputs, outputs)()

    def bound(
        self, inputs: Mapping[str, npt.NDArray[Any]], outputs: Mapping[str, npt.NDArray[Any]]
    ) -> Callable[[], bool]:
        iterations = self.loop.iterations(inputs) if self.iterations is None else self.iterations
        return self.kernel.bound(inputs, outputs, len(next(iter(outputs.values()))), iterations)

    def close(self) -> None:
        self.kernel.close()


class CpuDevice(Executor):
    """C compiled for this machine, vectors over the batch. Inputs are checked as they are read, and results by the
    processor's flags; arrays are only looked through if that says so.

    dtype: float64 or float32. threads: how many share a batch. layout: "rows" or "planes", as `native.kernel` has it.
    pack: outputs are vectors of their different entries, without those that are always zero (`Function.unpack`).
    """

    checks_finite = True

    def __init__(
        self,
        graph: Graph,
        *,
        dtype: npt.DTypeLike = np.float64,
        threads: int = 1,
        layout: str = "rows",
        pack: bool = False,
        progress: Progress = quiet,
    ) -> None:
        from dynagate.native.kernel import Kernel

        graph = self._packed(graph, pack)
        self.dtype = np.dtype(dtype)
        progress("C compiler: kernel")
        self.kernel = Kernel(graph, self.dtype, threads=threads, layout=layout)
        self.text = f"C, {self.dtype}, {threads} thread{'s' if threads > 1 else ''}"

    def new_inputs(self, batch: int) -> Arrays:
        return self.kernel.new_inputs(batch)

    def new_outputs(self, batch: int) -> Arrays:
        return self.kernel.new_outputs(batch)

    def fits(self, array: npt.NDArray[Any]) -> bool:
        return self.kernel.fits(array)

    def clear(self, outputs: Arrays) -> None:
        self.kernel.clear(outputs)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        if batch and (status := self.kernel.status(arrays, self.kernel.written(outputs), batch)):
            self._refuse(status, arrays, outputs)
        return np.zeros(batch, dtype=bool)

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        call = self.kernel.bound(arrays, self.kernel.written(outputs), batch) if batch else None
        if call is None:
            return None

        def run() -> None:
            if status := call():
                self._refuse(status, arrays, outputs)

        return run

    def _refuse(self, status: int, arrays: Arrays, outputs: Arrays) -> None:
        """Raises ValueError: what the kernel has noticed."""
        if status & TANGLED:
            raise ArgumentError(
                "out lies over inputs of other samples in memory; expected arrays apart, or the same ones"
            )
        check_finite(arrays, self.dtype)
        check_angles(arrays, self.angles, self.dtype)
        check_results(outputs, self.dtype)
        raise ArgumentError(TOO_LARGE.format(self.dtype))

    def close(self) -> None:
        self.kernel.close()


class CpuScan(Executor):
    """C compiled for this machine: each vector of samples goes over all links. dtype: float64 or float32. threads: how
    many share a batch."""

    checks_finite = True

    def __init__(
        self,
        loop: Loop,
        external_forces: bool,
        *,
        dtype: npt.DTypeLike,
        threads: int = 1,
        pack: bool = False,
        progress: Progress = quiet,
    ) -> None:
        describe(self, loop, external_forces, pack)
        self.dtype = np.dtype(dtype)
        progress("C compiler: loop over links")
        self.kernel = LoopKernel(loop, self.dtype, threads=threads)
        shared = f", {threads} threads" if threads > 1 else ""
        self.text = f"C, {self.dtype}{shared}, a loop over links"

    def close(self) -> None:
        self.kernel.close()

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        if batch:
            self._checked(self.kernel.bound(arrays, outputs, batch, 1), arrays, outputs)
        return np.zeros(batch, dtype=bool)

    def bound(self, arrays: Arrays, outputs: Arrays, batch: int) -> Callable[[], Overflow | None] | None:
        in_place = all(array.dtype == self.dtype and array.flags.c_contiguous for array in arrays.values())
        if not batch or not in_place:
            return None
        call = self.kernel.bound(arrays, outputs, batch, 1)
        return lambda: self._checked(call, arrays, outputs)

    def _checked(self, call: Callable[[], bool], arrays: Arrays, outputs: Arrays) -> None:
        """Calls. Raises ValueError: an input is not finite, which every result shows, or is too large an angle; or
        values become too large."""
        right = call()
        with np.errstate(all="ignore"):
            finite = all(np.isfinite(output.sum()) for output in outputs.values())
        if right and finite:
            return
        check_finite(arrays, self.dtype)
        check_angles(arrays, self.angles, self.dtype)
        check_results(outputs, self.dtype)
        if not right:
            raise ArgumentError(TOO_LARGE.format(self.dtype))
