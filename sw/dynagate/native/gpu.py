"""Run graphs and loops on a GPU, with numpy arrays or with arrays that are already on the GPU."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from ctypes.util import find_library
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_fits, check_written, real
from dynagate.base.errors import ArgumentError, ArgumentTypeError, Error
from dynagate.graph import Graph
from dynagate.graph.packing import ZERO
from dynagate.native.arrays import NamedArray, check, laid_out, lies, new_arrays
from dynagate.native.compile import CUDA, CompileError, Compiler, library
from dynagate.native.cuda import cuda_source, staging
from dynagate.native.pinned import Pinned
from dynagate.native.source import CSource

DLPACK_CUDA = 2  # kDLCUDA

TORCH = "torch"
CUPY = "cupy"
"""Module whose arrays are recognized by type, since their attributes take ten times as long to read."""

LEAST_PINNED = 2**18
"""Size of a batch's results in bytes above which the GPU writes them directly to their place, with one copy per
output.
"""


class GpuError(Error, RuntimeError):
    """The GPU or its driver is missing or failed; the text says at which call."""


def on_gpu(value: Any) -> bool:
    """Return whether an array is in GPU memory, by the CUDA array interface or DLPack."""
    if isinstance(value, np.ndarray):
        return False
    if _has_interface(value):
        return True
    if not hasattr(value, "__dlpack_device__"):
        return False
    try:
        return bool(value.__dlpack_device__()[0] == DLPACK_CUDA)
    except RuntimeError:  # a tensor inside torch.func.vmap, which has no memory
        return False


def _has_interface(value: Any) -> bool:
    return type(value).__module__ == CUPY or hasattr(value, "__cuda_array_interface__")


def has_driver() -> bool:
    """Return whether CUDA's driver is installed."""
    return find_library("cuda") is not None


@dataclass(frozen=True)
class GpuText:
    """Source for a GPU."""

    name: str
    source: CSource
    inputs: Sequence[NamedArray]
    """Inputs in the shapes of one sample."""
    outputs: Sequence[NamedArray]
    """Outputs in the shapes of one sample."""
    iterations: int
    """Number of iterations of a loop; 1 for a graph."""
    writes_all: bool
    """Whether it writes every entry of the outputs, or only those that may be nonzero."""


class GpuProgram:
    """CUDA source, compiled for the cards of `compile.CARDS` and newer ones, on one card.

    Args:
        text: The source.
        dtype: float32 or float64.
        layout: "rows" or "planes", as in `kernel.Kernel`.
        device: Number of the card.

    Raises:
        ArgumentError: The dtype or the layout is unknown.
        CompileError: The source cannot be compiled.
        GpuError: The card cannot be used.
    """

    def __init__(
        self,
        text: GpuText,
        dtype: np.dtype[Any],
        layout: str,
        *,
        device: int = 0,
        folder: Path | None = None,
        toolchain: Compiler = CUDA,
    ) -> None:
        self.text, self.dtype, self.layout = text, dtype, layout
        self._context: ctypes.c_void_p | None = None
        check(self.dtype, layout)
        path = library(text.source, double=self.dtype == np.float64, folder=folder, toolchain=toolchain)
        try:
            self._functions = ctypes.CDLL(str(path))
        except OSError as error:
            raise CompileError(f"{path} is not the library of {text.name}: {error}", code="DG-GPU-003") from None
        pointer, pointers = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
        arguments = [pointer, pointers, pointers, ctypes.c_long, ctypes.c_int]
        for name, types in {
            "open": [ctypes.c_int, ctypes.c_long, ctypes.POINTER(pointer)],
            "run": [*arguments, ctypes.c_int],
            "launch": [*arguments, pointer],
            "wait": [pointer, pointer],
            "close": [pointer],
            "pinned": [ctypes.c_size_t, ctypes.POINTER(pointer)],
            "unpinned": [pointer],
        }.items():
            function = getattr(self._functions, f"dynagate_cuda_{name}")
            function.argtypes, function.restype = types, None if name in ("close", "unpinned") else ctypes.c_char_p
        context = pointer()
        require(self._functions.dynagate_cuda_open(device, text.iterations, ctypes.byref(context)))
        self._context = context
        self._pinned = Pinned(self._new_pinned, self._functions.dynagate_cuda_unpinned)
        self._row_bytes = self.dtype.itemsize * sum(math.prod(port.shape) for port in text.outputs)
        self._expected_leading: tuple[int, ...] | None = None
        self._expected: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def __call__(self, inputs: Mapping[str, npt.NDArray[Any]], outputs: Mapping[str, npt.NDArray[Any]]) -> None:
        """Compute a batch in host memory.

        The arrays go through pinned memory in chunks, so that copies and computation overlap. Outputs from
        `new_outputs` in rows are written by the GPU directly.

        Args:
            inputs: Name -> array (batch, *shape).
            outputs: Name -> array (batch, *shape) of the program's dtype and layout.

        Raises:
            ArgumentError: An array does not fit.
            GpuError: The card failed; the outputs are undefined.
        """
        batch = len(inputs[self.text.inputs[0].name])
        arrays = []
        for port in self.text.inputs:
            label = f"input '{port.name}'"
            arrays.append(laid_out(real(label, inputs[port.name]), self.dtype, self.layout))
            check_fits(label, arrays[-1], (batch, *port.shape), self.dtype)
        for port in self.text.outputs:
            label = f"out.{port.name}"
            check_written(label, outputs[port.name], (batch, *port.shape), self.dtype)
            self._check_lies(label, lies(outputs[port.name], self.layout))
        read = [array.ctypes.data for array in arrays]
        written = [outputs[port.name].ctypes.data for port in self.text.outputs]
        direct = self.layout == "rows" and all(map(self._pinned.holds, written))
        pointers = self._pointers(read, written)
        require(self._functions.dynagate_cuda_run(self._context, *pointers, batch, self._planes, direct))

    def new_inputs(self, batch: int) -> dict[str, npt.NDArray[Any]]:
        """Return zeros (batch, *shape) by name in the program's layout."""
        return new_arrays(self.text.inputs, self.dtype, self.layout, batch)

    def new_outputs(self, batch: int) -> dict[str, npt.NDArray[Any]]:
        """Return arrays (batch, *shape) by name in the program's layout.

        Large arrays are in pinned memory, which is reused when the last array in it is gone. Raise GpuError if the card
        fails.
        """
        if self.layout == "planes" or batch * self._row_bytes < LEAST_PINNED:
            return new_arrays(self.text.outputs, self.dtype, self.layout, batch)
        return {port.name: self._pinned.new((batch, *port.shape), self.dtype) for port in self.text.outputs}

    def _new_pinned(self, size: int) -> int:
        memory = ctypes.c_void_p()
        require(self._functions.dynagate_cuda_pinned(size, ctypes.byref(memory)))
        return memory.value or 0

    def launch(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None, stream: int = 0) -> dict[str, Any]:
        """Compute arrays on the GPU without copies.

        Args:
            inputs: Name -> array (*leading, *shape) with the CUDA array interface or DLPack, in the program's dtype
                and layout.
            outputs: Arrays to write; None for new ones, from PyTorch if the inputs are, else from CuPy.
            stream: A cudaStream_t as a number, on which the inputs are ready. It may be capturing a CUDA graph if
                outputs are passed. If the interface of an array names another stream, the launch waits until that
                stream is done.

        Returns:
            The outputs by name. In planes, entries that are always zero are not written.

        Raises:
            ArgumentError: An array does not fit.
            GpuError: The card failed.
        """
        results, call = self.bound(inputs, outputs, stream)
        call()
        return results

    def bound(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None, stream: int = 0
    ) -> tuple[dict[str, Any], Callable[[], None]]:
        """Bind arrays on the GPU for repeated launches.

        The arrays must stay where they are; the function keeps them alive.

        Args:
            inputs: As in `launch`.
            outputs: As in `launch`.
            stream: As in `launch`.

        Returns:
            The outputs, and a function that launches once. It raises only GpuError.

        Raises:
            ArgumentError: An array does not fit.
            GpuError: The card failed.
        """
        values = [_viewed(inputs[port.name]) for port in self.text.inputs]
        arrays = [_GpuArray.of(value) for value in values]
        leading = arrays[0].shape[: len(arrays[0].shape) - len(self.text.inputs[0].shape)]
        results = dict(outputs) if outputs is not None else self._outputs_like(values[0], leading)
        written = [results[port.name] for port in self.text.outputs]
        arrays += map(_GpuArray.of, written)
        for port, array in zip(self.text.outputs, arrays[len(values) :], strict=True):
            if array.read_only:
                raise ArgumentError(f"out.{port.name} is read-only; expected an array to write to", code="DG-GPU-004")
        if leading != self._expected_leading:
            self._expected = [self._lying(port, leading) for port in (*self.text.inputs, *self.text.outputs)]
            self._expected_leading = leading
        for k, (array, (shape, strides)) in enumerate(zip(arrays, self._expected, strict=True)):
            if array.shape != shape or array.dtype != self.dtype or array.strides != strides:
                self._check(k, array, shape, strides)
        addresses = [array.pointer for array in arrays]
        others = tuple({array.stream for array in arrays if array.stream is not None} - {stream})
        pointers = self._pointers(addresses[: len(values)], addresses[len(values) :])
        return results, _Launch(self, [*values, *written], *pointers, math.prod(leading), stream, others)

    def at(self, read: list[int], written: list[int], batch: int, stream: int = 0) -> None:
        """Launch on arrays at these addresses in the GPU's memory, in rows, inputs and outputs in order, unchecked.

        Raises:
            GpuError: The kernel is closed, or the launch fails.
        """
        pointers = self._pointers(read, written)
        require(self._functions.dynagate_cuda_launch(self._context, *pointers, batch, 0, stream))

    @property
    def addresses(self) -> tuple[int, int]:
        """Return the addresses of dynagate_cuda_launch and of its context, for callers in C; valid until the kernel
        is closed.
        """
        if self._context is None:
            raise GpuError(f"the kernel of {self.text.name} is closed", code="DG-GPU-005")
        launch = ctypes.cast(self._functions.dynagate_cuda_launch, ctypes.c_void_p)
        return launch.value or 0, self._context.value or 0

    @property
    def writes_all(self) -> bool:
        """Whether `launch` writes the entries that are always zero, too."""
        return self.text.writes_all

    def close(self) -> None:
        """Free the memory on the GPU."""
        if self._context is not None:
            self._functions.dynagate_cuda_close(self._context)
            self._context = None
            self._pinned.close()

    @property
    def _planes(self) -> int:
        return int(self.layout == "planes")

    def _pointers(self, read: list[int], written: list[int]) -> tuple[Any, Any]:
        if self._context is None:
            raise GpuError(f"the kernel of {self.text.name} is closed", code="DG-GPU-006")
        return (ctypes.c_void_p * len(read))(*read), (ctypes.c_void_p * len(written))(*written)

    def _outputs_like(self, like: Any, leading: tuple[int, ...]) -> dict[str, Any]:
        """Return new arrays of PyTorch if the inputs are PyTorch's, else of CuPy. Arrays of other libraries cannot be
        written.
        """
        options: dict[str, Any] = {"dtype": self.dtype}
        kind = CUPY
        if type(like).__module__.partition(".")[0] == TORCH:
            kind, options = TORCH, {"dtype": like.dtype, "device": like.device}
        try:
            module = import_module(kind)
        except ImportError:
            raise ArgumentTypeError(
                f"new results for a {type(like).__name__} on a GPU are CuPy's, which is not installed; "
                "install it, or give arrays to write as `out`",
                code="DG-GPU-007",
            ) from None
        new_outputs = {}
        for port in self.text.outputs:
            if self._planes:
                last, first = tuple(range(-len(leading), 0)), tuple(range(len(leading)))
                new_outputs[port.name] = module.moveaxis(module.zeros((*port.shape, *leading), **options), last, first)
            else:
                new = module.empty if self.text.writes_all else module.zeros
                new_outputs[port.name] = new((*leading, *port.shape), **options)
        return new_outputs

    def _lying(self, port: NamedArray, leading: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shape and strides of a port's array."""
        shape = (*leading, *port.shape)
        if not self._planes:
            return shape, _steps(shape, self.dtype)
        steps = _steps((*port.shape, *leading), self.dtype)
        return shape, (*steps[len(port.shape) :], *steps[: len(port.shape)])

    def _check(self, k: int, array: _GpuArray, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        """Raise ArgumentError if an array does not fit; strides of axes of length 1 do not matter."""
        ports = [f"input '{port.name}'" for port in self.text.inputs] + [f"out.{p.name}" for p in self.text.outputs]
        check_fits(ports[k], array, shape, self.dtype)
        lie = zip(shape, array.strides, strides, strict=True)
        self._check_lies(ports[k], not math.prod(shape) or all(n <= 1 or a == b for n, a, b in lie))

    def _check_lies(self, label: str, right: bool) -> None:
        if not right:
            raise ArgumentError(
                f"{label} does not lie in {self.layout} without gaps, as this kernel takes it", code="DG-GPU-008"
            )


class GpuKernel(GpuProgram):
    """The CUDA of a graph, compiled for the cards of `compile.CARDS` and newer ones, on one card.

    Args:
        graph: The graph.
        dtype: float32 or float64.
        layout: "rows" or "planes", as in `kernel.Kernel`.
        device: Number of the card.

    Raises:
        ArgumentError: The dtype or the layout is unknown.
        CompileError: The source cannot be compiled.
        GpuError: The card cannot be used.
    """

    def __init__(
        self,
        graph: Graph,
        dtype: npt.DTypeLike,
        *,
        layout: str = "rows",
        device: int = 0,
        folder: Path | None = None,
        toolchain: Compiler = CUDA,
    ) -> None:
        self.graph = graph
        double = np.dtype(dtype) == np.float64
        check(np.dtype(dtype), layout)
        writes_all = layout == "rows" and staging(graph, double=double).threads > 0
        text = GpuText(graph.name, cuda_source(graph, double=double), graph.inputs, graph.outputs, 1, writes_all)
        super().__init__(text, np.dtype(dtype), layout, device=device, folder=folder, toolchain=toolchain)


@dataclass(frozen=True, slots=True)
class _Launch:
    """A kernel with checked arrays on its GPU, in the form that the library takes."""

    kernel: GpuProgram
    arrays: list[Any]
    read: Any
    written: Any
    batch: int
    stream: int
    others: tuple[int, ...]
    """Other streams on which arrays are computed or read, for which a launch waits."""

    def __call__(self) -> None:
        kernel = self.kernel
        if kernel._context is None:
            raise GpuError(f"the kernel of {kernel.text.name} is closed", code="DG-GPU-009")
        for stream in self.others:
            require(kernel._functions.dynagate_cuda_wait(kernel._context, stream))
        require(
            kernel._functions.dynagate_cuda_launch(
                kernel._context, self.read, self.written, self.batch, kernel._planes, self.stream
            )
        )


class _GpuArray(NamedTuple):
    """An array on a GPU. CuPy's arrays have no stream here: the caller orders their streams, as in CuPy's own
    functions.
    """

    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    """Strides in bytes."""
    read_only: bool = False
    stream: int | None = None
    """Stream on which work on the array may be queued, or None."""

    @staticmethod
    def of(value: Any) -> _GpuArray:
        if type(value).__module__ == CUPY:
            return _GpuArray(value.data.ptr, value.shape, value.dtype, value.strides)
        if not hasattr(value, "__cuda_array_interface__"):
            raise ArgumentTypeError(
                f"a {type(value).__name__} among arrays on a GPU; expected all of them there", code="DG-GPU-010"
            )
        said = value.__cuda_array_interface__
        if said.get("mask") is not None:
            raise ArgumentError(
                f"a {type(value).__name__} on a GPU has a mask; expected an array without one", code="DG-GPU-011"
            )
        shape, dtype = tuple(said["shape"]), np.dtype(said["typestr"])
        pointer, read_only = said["data"]
        strides, stream = said.get("strides") or _steps(shape, dtype), said.get("stream")
        if not (stream is None or (isinstance(stream, int | np.integer) and 0 <= stream < 2**64)):
            kind = type(value).__name__
            raise ArgumentError(
                f"a {kind} on a GPU has stream {stream!r:.40}; expected None or a cudaStream_t's number",
                code="DG-GPU-012",
            )
        stream = None if stream is None else int(stream)
        return _GpuArray(pointer or 0, shape, dtype, strides, bool(read_only), stream)


def _steps(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return the strides in bytes of an array in row-major order without gaps."""
    return tuple(dtype.itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape)))


def _viewed(value: Any) -> Any:
    """Return an array with the CUDA array interface: the array itself, or CuPy's view of it by DLPack."""
    if _has_interface(value) or not on_gpu(value):
        return value
    try:
        return import_module("cupy").from_dlpack(value)
    except ImportError:
        raise ArgumentTypeError(
            f"a {type(value).__name__} has no CUDA array interface; to take it by DLPack, install CuPy",
            code="DG-GPU-013",
        ) from None


def unpacked_there(values: Any, where: npt.NDArray[np.int64]) -> Any:
    """Unpack an output as `graph.packing.unpacked` does, for an array of CuPy or a tensor of PyTorch."""
    if not values.shape[-1]:
        shape = (*values.shape[:-1], *where.shape)
        return (
            values.new_zeros(shape) if hasattr(values, "new_zeros") else _module_of(values).zeros(shape, values.dtype)
        )
    module = _module_of(values)
    on = {"device": values.device} if module.__name__ == TORCH else {}
    full = values[..., module.asarray(np.maximum(where, 0), **on)]
    return module.where(module.asarray(where == ZERO, **on), module.zeros_like(full), full)


def _module_of(values: Any) -> Any:
    """Return the package that an array's type belongs to."""
    return import_module(type(values).__module__.partition(".")[0])


def require(fault: bytes | None) -> None:
    """Raise GpuError with the message of the library, if there is one."""
    if fault is not None:
        raise GpuError(fault.decode(), code="DG-GPU-014")
