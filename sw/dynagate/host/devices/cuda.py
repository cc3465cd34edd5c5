"""Executor "cuda": a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_count
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.progress import Progress, quiet
from dynagate.graph import Graph
from dynagate.graph.loop import Loop
from dynagate.graph.scan_trace import trace_scan
from dynagate.graph.single_precision import check_accelerations
from dynagate.host.devices.face import Executor, Overflow
from dynagate.host.devices.functions import opening_graphs
from dynagate.host.devices.loops import LoopExecutor
from dynagate.host.devices.options import DeviceOptions
from dynagate.host.devices.scan import set_ports
from dynagate.host.devices.sources import FunctionSource, LoopSource
from dynagate.host.inputs import Arrays, all_moderate, check_angles, check_finite, check_results
from dynagate.host.links import DeviceError
from dynagate.native.arrays import lies
from dynagate.native.chains.warp import WarpChain
from dynagate.native.gpu import GpuError, GpuKernel
from dynagate.native.gpu_loop import GpuLoop
from dynagate.robot import Robot

FORWARD_DYNAMICS = "forward_dynamics"
OF_WARPS = ("warp", "dtype", "number", "stream")
"""Options of a GPU that a warp per chain accepts."""


@dataclass(frozen=True)
class LoopOnCuda(DeviceOptions):
    """Options of a GPU for a rollout or a solver. One launch computes all steps."""

    name: ClassVar[str] = "cuda"

    dtype: npt.DTypeLike | None = None
    """"float64" or "float32"; None is float64."""


@explained
@dataclass(frozen=True)
class Cuda(LoopOnCuda):
    """Options of a GPU. The default `dtype` is float32 for functions and float64 for rollouts."""

    layout: str = "rows"
    """Memory layout of arrays, as of `Cpu`."""
    pack: bool = False
    """Return each result as a vector of its distinct entries, as of `Cpu`."""
    number: int = 0
    """Number of the card."""
    stream: int = 0
    """A cudaStream_t as a number, in which arrays on the GPU are ready and results will be; 0 is the default stream."""
    warp: bool = False
    """Compute forward dynamics of a serial chain with a warp for each sample, by form "jsiia", "cfa" or "cfa_refined".
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("number", self.number, 2**31 - 1, 0)
        check_count("stream", self.stream, 2**64 - 1, 0)


def _open_graph(graph: Graph, options: Cuda, progress: Progress) -> Executor:
    return CudaDevice(
        graph,
        dtype=options.dtype or "float32",
        layout=options.layout,
        pack=options.pack,
        number=options.number,
        stream=options.stream,
        progress=progress,
    )


def _open_scan(loop: Loop, external_forces: bool, options: Cuda, progress: Progress) -> Executor:
    return CudaScan(
        loop,
        external_forces,
        dtype=options.dtype or "float32",
        number=options.number,
        stream=options.stream,
        pack=options.pack,
        progress=progress,
    )


_open_graphs = opening_graphs(_open_graph, _open_scan)


def open_function(source: FunctionSource, options: Cuda, progress: Progress = quiet) -> Executor:
    """Compile functions for a GPU.

    Args:
        source: The functions.
        options: Options of the GPU.
        progress: Function that receives a line of text before each slow stage.

    Returns:
        The compiled functions.
    """
    return _open_warp(source, options, progress) if options.warp else _open_graphs(source, options, progress)


def _open_warp(source: FunctionSource, options: Cuda, progress: Progress) -> Executor:
    """Compile forward dynamics of a chain. Raise ArgumentError for another function or an option that has no place."""
    robot, name, algorithm = source
    if name != FORWARD_DYNAMICS:
        raise ArgumentError(f"warp=True of {name}; expected {FORWARD_DYNAMICS}, or no warp=True", code="DG-GPU-015")
    others = [option for option in options.changed() if option not in OF_WARPS]
    others += [option for option in algorithm.changed() if option != "form"]
    if others:
        raise ArgumentError(
            f"warp=True with {others[0]}=; expected no {others[0]}=, or no warp=True", code="DG-GPU-016"
        )
    if robot.variables:
        raise ArgumentError(
            f"warp=True of robot '{robot.name}' with variable parameters; expected constant ones", code="DG-GPU-017"
        )
    return CudaWarp(
        robot,
        algorithm.form or "",
        dtype=options.dtype or "float32",
        number=options.number,
        stream=options.stream,
        progress=progress,
    )


def open_loop(source: LoopSource, options: LoopOnCuda, progress: Progress = quiet) -> LoopExecutor:
    """Compile a loop for a GPU.

    Args:
        source: The loop.
        options: Type of the numbers.
        progress: Function that receives a line of text before the compiler runs.

    Returns:
        The compiled loop.
    """
    return CardLoop(source.loop, np.dtype(options.dtype or "float64"), source.iterations)


class CardLoop(LoopExecutor):
    """A loop on a GPU."""

    def __init__(self, loop: Loop, dtype: np.dtype[Any], iterations: int | None) -> None:
        self.loop, self.dtype = loop, dtype
        with on_card("GPU 0"):
            self._program = GpuLoop(loop, dtype, iterations)

    def __call__(self, inputs: Mapping[str, npt.NDArray[Any]], outputs: Mapping[str, npt.NDArray[Any]]) -> bool:
        with on_card("GPU 0"):
            self._program(inputs, outputs)
        return False

    def close(self) -> None:
        self._program.close()


@contextmanager
def on_card(card: str) -> Iterator[None]:
    """Raise DeviceError for failures of a GPU within the block.

    Args:
        card: Name of the card, for the error.

    Yields:
        Nothing.
    """
    try:
        yield
    except GpuError as error:
        raise DeviceError(f"{card}: {error}", code="DG-GPU-001") from None


class CudaDevice(Executor):
    """A GPU. Arrays in host memory pass through pinned memory in chunks; arrays on the GPU stay there.

    Args:
        dtype: "float64" or "float32".
        layout: "rows" or "planes", as of `Cpu`.
        pack: As of `Cpu`.
        number: Number of the card.
        stream: A cudaStream_t as a number, as of `Cuda`.
    """

    checks_finite = True

    def __init__(
        self,
        graph: Graph,
        *,
        dtype: npt.DTypeLike = np.float32,
        layout: str = "rows",
        pack: bool = False,
        number: int = 0,
        stream: int = 0,
        progress: Progress = quiet,
    ) -> None:
        graph = self._packed(graph, pack)
        self.dtype, self.stream, self._layout = np.dtype(dtype), stream, layout
        progress("nvcc: kernel")
        with on_card(f"GPU {number}"):
            self.kernel = GpuKernel(graph, self.dtype, layout=layout, device=number)
        self.text = f"CUDA, {self.dtype}, card {number}"

    def new_inputs(self, batch: int) -> Arrays:
        return self.kernel.new_inputs(batch)

    def new_outputs(self, batch: int) -> Arrays:
        with on_card(self.text):
            return self.kernel.new_outputs(batch)

    def fits(self, array: npt.NDArray[Any]) -> bool:
        return lies(array, self._layout)

    def run(self, arrays: Arrays, outputs: Arrays, batch: int) -> Overflow:
        ordinary = all_moderate(arrays, self.dtype)
        if not ordinary:
            check_finite(arrays, self.dtype)
            check_angles(arrays, self.angles, self.dtype)
        if any(np.may_share_memory(a, b) for a in arrays.values() for b in outputs.values()):
            arrays = {name: array.copy() for name, array in arrays.items()}  # read when the first chunks are written
        with on_card(self.text):
            self.kernel(arrays, outputs)
        if not ordinary:
            check_results(outputs, self.dtype)
        return np.zeros(batch, dtype=bool)

    def launch(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any], Callable[[], None]]:
        with on_card(self.text):
            results, call = self.kernel.bound(inputs, outputs, self.stream)

        def launched() -> None:
            try:  # `on_card` would take a microsecond more
                call()
            except GpuError as error:
                raise DeviceError(f"{self.text}: {error}", code="DG-GPU-002") from None

        return results, launched

    def close(self) -> None:
        self.kernel.close()


class CudaScan(CudaDevice):
    """A GPU that iterates over the links of a robot, one thread for each sample.

    Args:
        dtype: As of `CudaDevice`.
        number: As of `CudaDevice`.
        stream: As of `CudaDevice`.
    """

    kernel: GpuLoop  # type: ignore[assignment]

    def __init__(
        self,
        loop: Loop,
        external_forces: bool,
        *,
        dtype: npt.DTypeLike,
        number: int = 0,
        stream: int = 0,
        pack: bool = False,
        progress: Progress = quiet,
    ) -> None:
        set_ports(self, loop, external_forces, pack)
        self.dtype, self.stream, self._layout = np.dtype(dtype), stream, "rows"
        progress("nvcc: loop over links")
        with on_card(f"GPU {number}"):
            self.kernel = GpuLoop(loop, self.dtype, device=number)
        self.text = f"CUDA, {self.dtype}, card {number}, a loop over links"


class CudaWarp(CudaDevice):
    """A GPU that computes forward dynamics of a serial chain, one warp for each sample and one lane for each link.

    Args:
        robot: The chain.
        form: One of `native.chains.warp.FORMS`.
        dtype: As of `CudaDevice`. Results in float32 are compared with articulated bodies at drawn states.
        number: As of `CudaDevice`.
        stream: As of `CudaDevice`.

    Raises:
        ArgumentError: The form has no warp, the chain is too long, or float32 is wrong for it.
        RobotError: The robot is no serial chain.
    """

    kernel: WarpChain  # type: ignore[assignment]

    def __init__(
        self,
        robot: Robot,
        form: str,
        *,
        dtype: npt.DTypeLike,
        number: int = 0,
        stream: int = 0,
        progress: Progress = quiet,
    ) -> None:
        self.dtype, self.stream, self._layout = np.dtype(dtype), stream, "rows"
        progress("nvcc: a warp per chain")
        with on_card(f"GPU {number}"):
            self.kernel = WarpChain(robot, form, self.dtype, device=number)
        set_ports(self, trace_scan(robot, FORWARD_DYNAMICS), external_forces=False)
        self.text = f"CUDA, {self.dtype}, card {number}, a warp per chain"
        if self.dtype == np.float32:
            try:
                check_accelerations(robot, form, self._accelerations)
            except ArgumentError:
                self.close()
                raise

    def _accelerations(self, q: Array, qd: Array, tau: Array) -> Array:
        """Return q̈ (batch, links)."""
        with on_card(self.text):
            outputs = self.kernel.new_outputs(len(q))
            self.kernel({"q": q, "qd": qd, "tau": tau}, outputs)
        return outputs["qdd"]
