"""Executor "cpu": C compiled for this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import shown
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.nearest import nearest
from dynagate.base.progress import Progress, quiet
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop
from dynagate.host.devices.certified import CertifiedOptions
from dynagate.host.devices.face import Executor, Overflow
from dynagate.host.devices.loops import LoopExecutor
from dynagate.host.devices.options import DeviceOptions
from dynagate.host.devices.scan import set_ports
from dynagate.host.devices.sources import LoopSource
from dynagate.host.inputs import TOO_LARGE, Arrays, check_angles, check_finite, check_results
from dynagate.native.kernel import TANGLED
from dynagate.native.kernel_code import CodeOf, compiled_code
from dynagate.native.loop import LoopKernel


@dataclass(frozen=True)
class LoopOnCpu(DeviceOptions):
    """Options of C on this machine for a rollout or a solver. Problems are in the lanes of vectors."""

    name: ClassVar[str] = "cpu"

    dtype: npt.DTypeLike = "float64"
    """"float64" or "float32"."""
    threads: int = 1
    """Number of threads that share a batch."""


@explained
@dataclass(frozen=True)
class Cpu(CertifiedOptions, LoopOnCpu):
    """Options of C on this machine. Samples of a batch are in the lanes of vectors."""

    layout: str = "rows"
    """Memory layout of arrays: "rows" has the batch as the first axis, "planes" as the last one."""
    pack: bool = False
    """Return each result as a vector of its distinct entries, without those that are always zero
    (`Function.unpack`).
    """
    tier: str = "compiled"
    """"compiled" for C compiled for this machine, "interpreted" for an interpreter that needs no compiler for each
    function, or "auto" for the interpreter until the compiler is done.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tier not in TIERS:
            raise ArgumentError(
                f"tier={shown(self.tier)}{nearest(self.tier, TIERS)}; expected one of {', '.join(TIERS)}",
                code="DG-DEVICE-069",
            )


TIERS = ("compiled", "interpreted", "auto")
"""Ways to compute a graph on this processor."""


def open_loop(source: LoopSource, options: LoopOnCpu, progress: Progress = quiet) -> LoopExecutor:
    """Compile a loop for this machine.

    Args:
        source: The loop.
        options: Type of the numbers and number of threads.
        progress: Function that receives a line of text before the compiler runs.

    Returns:
        The compiled loop.
    """
    kernel = LoopKernel(source.loop, np.dtype(options.dtype), threads=options.threads)
    by_arrays = source.iterations is None and source.loop.stop == Count(None)
    return CompiledLoop(kernel, None if by_arrays else source.loop.counted(source.iterations))


class CompiledLoop(LoopExecutor):
    """A loop in C. Its number of iterations is fixed, or follows from the arrays of each call."""

    kernel: LoopKernel
    """The compiled C."""

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
    """C compiled for this machine, with the samples of a batch in the lanes of vectors.

    Inputs are checked as they are read. Results are checked by the processor's floating-point flags: only if a flag is
    set are the arrays searched for numbers that are not finite.

    Args:
        dtype: "float64" or "float32".
        threads: Number of threads that share a batch.
        layout: "rows" or "planes", as of `Cpu`.
        pack: As of `Cpu`.
        progress: Function that receives a line of text before the compiler runs.
        code: Function that returns the code of the graph; the compiler's unless passed.
    """

    checks_finite = True
    tier = "compiled"
    """Tier in use: "compiled", "interpreted" or "numpy"."""

    def __init__(
        self,
        graph: Graph,
        *,
        dtype: npt.DTypeLike = np.float64,
        threads: int = 1,
        layout: str = "rows",
        pack: bool = False,
        progress: Progress = quiet,
        code: CodeOf | None = None,
    ) -> None:
        from dynagate.native.kernel import Kernel

        graph = self._packed(graph, pack)
        self.dtype = np.dtype(dtype)
        if code is None:
            progress("C compiler: kernel")
        self.kernel = Kernel(graph, self.dtype, threads=threads, layout=layout, code=code or compiled_code)
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
        """Raise ArgumentError for the input or result that the kernel found to be wrong."""
        if status & TANGLED:
            raise ArgumentError(
                "out lies over inputs of other samples in memory; expected arrays apart, or the same ones",
                code="DG-DEVICE-009",
            )
        check_finite(arrays, self.dtype)
        check_angles(arrays, self.angles, self.dtype)
        check_results(outputs, self.dtype)
        raise ArgumentError(TOO_LARGE.format(self.dtype), code="DG-DEVICE-010")

    def close(self) -> None:
        self.kernel.close()


class CpuScan(Executor):
    """C compiled for this machine that iterates over the links of a robot, with samples in the lanes of vectors.

    Args:
        dtype: "float64" or "float32".
        threads: Number of threads that share a batch.
    """

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
        set_ports(self, loop, external_forces, pack)
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
        """Run a call. Raise ArgumentError if an input is not finite or too large an angle, or if a result overflows."""
        right = call()
        with np.errstate(all="ignore"):
            finite = all(np.isfinite(output.sum()) for output in outputs.values())
        if right and finite:
            return
        check_finite(arrays, self.dtype)
        check_angles(arrays, self.angles, self.dtype)
        check_results(outputs, self.dtype)
        if not right:
            raise ArgumentError(TOO_LARGE.format(self.dtype), code="DG-DEVICE-011")
