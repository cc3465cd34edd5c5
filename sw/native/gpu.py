"""A graph on a GPU, behind numpy arrays or arrays that are there already."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from ctypes.util import find_library
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.graph import Graph, Port
from dynagate.native.arrays import check, laid_out
from dynagate.native.compile import CUDA, CompileError, Toolchain, library
from dynagate.native.cuda import cuda_source

DLPACK_CUDA = 2  # kDLCUDA


class GpuError(RuntimeError):
    """The GPU or its driver is missing or failed; the text says at which call."""


def on_gpu(value: Any) -> bool:
    """Whether an array lies in a GPU's memory: it has the CUDA array interface, or says so by DLPack."""
    if isinstance(value, np.ndarray):
        return False
    if hasattr(value, "__cuda_array_interface__"):
        return True
    return hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] == DLPACK_CUDA


def has_driver() -> bool:
    """Whether CUDA's driver is installed, without which nothing need be compiled."""
    return find_library("cuda") is not None


class GpuKernel:
    """The CUDA of a graph, compiled for the cards of `compile.CARDS` and newer, on one of them.

    layout: as of `kernel.Kernel`. device: the card's number. Raises ValueError: another dtype or layout; CompileError;
    GpuError.
    """

    def __init__(
        self,
        graph: Graph,
        dtype: npt.DTypeLike,
        *,
        layout: str = "rows",
        device: int = 0,
        folder: Path | None = None,
        toolchain: Toolchain = CUDA,
    ) -> None:
        self.graph, self.dtype, self.layout = graph, np.dtype(dtype), layout
        self._context: ctypes.c_void_p | None = None
        check(self.dtype, layout)
        double = self.dtype == np.float64
        path = library(cuda_source(graph, double=double), double=double, folder=folder, toolchain=toolchain)
        try:
            self._functions = ctypes.CDLL(str(path))
        except OSError as error:
            raise CompileError(f"{path} is not the library of {graph.name}: {error}") from None
        pointer, pointers = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
        arguments = [pointer, pointers, pointers, ctypes.c_long, ctypes.c_int]
        for name, types in {
            "open": [ctypes.c_int, ctypes.POINTER(pointer)],
            "run": arguments,
            "launch": [*arguments, pointer],
            "close": [pointer],
        }.items():
            function = getattr(self._functions, f"dynagate_cuda_{name}")
            function.argtypes, function.restype = types, None if name == "close" else ctypes.c_char_p
        context = pointer()
        _require(self._functions.dynagate_cuda_open(device, ctypes.byref(context)))
        self._context = context

    def __call__(self, inputs: Mapping[str, npt.NDArray[Any]], outputs: Mapping[str, npt.NDArray[Any]]) -> None:
        """Arrays in host memory, (batch, *shape) by name; outputs of the kernel's dtype, in its layout. They go through
        pinned memory in chunks, copies beside computation. Raises GpuError; outputs are undefined then."""
        given = [laid_out(inputs[port.name], self.dtype, self.layout) for port in self.graph.inputs]
        read = [array.ctypes.data for array in given]
        written = [outputs[port.name].ctypes.data for port in self.graph.outputs]
        batch = len(inputs[self.graph.inputs[0].name])
        _require(self._functions.dynagate_cuda_run(self._context, *self._pointers(read, written), batch, self._planes))

    def launch(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None, stream: int = 0) -> dict[str, Any]:
        """Arrays on the GPU, by the CUDA array interface or DLPack, in the kernel's dtype and layout: no copies.

        outputs: to be written, or None for new ones of the inputs' kind. stream: a cudaStream_t as a number, on which
        the inputs are ready; it may be capturing a graph if outputs are given. Comes back at once; entries that are
        always zero are not written. Raises ValueError or TypeError naming an array that does not fit; GpuError.
        """
        arrays = {port.name: _viewed(inputs[port.name]) for port in self.graph.inputs}
        batch = _GpuArray.of(next(iter(arrays.values()))).shape[0]
        read = [self._address(f"input '{port.name}'", port, arrays[port.name], batch) for port in self.graph.inputs]
        found = dict(outputs) if outputs is not None else self._new_outputs(next(iter(arrays.values())), batch)
        written = [self._address(f"out.{port.name}", port, found[port.name], batch) for port in self.graph.outputs]
        pointers = self._pointers(read, written)
        _require(self._functions.dynagate_cuda_launch(self._context, *pointers, batch, self._planes, stream))
        return found

    def close(self) -> None:
        """Gives back the GPU's memory."""
        if self._context is not None:
            self._functions.dynagate_cuda_close(self._context)
            self._context = None

    @property
    def _planes(self) -> int:
        return int(self.layout == "planes")

    def _pointers(self, read: list[int], written: list[int]) -> tuple[Any, Any]:
        if self._context is None:
            raise GpuError(f"the kernel of {self.graph.name} is closed")
        return (ctypes.c_void_p * len(read))(*read), (ctypes.c_void_p * len(written))(*written)

    def _new_outputs(self, like: Any, batch: int) -> dict[str, Any]:
        module = import_module(type(like).__module__.partition(".")[0])  # cupy, torch, ...
        where = {"device": like.device} if module.__name__ == "torch" else {}
        found = {}
        for port in self.graph.outputs:
            if self._planes:
                found[port.name] = module.moveaxis(module.zeros((*port.shape, batch), dtype=like.dtype, **where), -1, 0)
            else:
                found[port.name] = module.zeros((batch, *port.shape), dtype=like.dtype, **where)
        return found

    def _address(self, label: str, port: Port, value: Any, batch: int) -> int:
        array = _GpuArray.of(value)
        shape = (batch, *port.shape)
        if array.shape != shape or array.dtype != self.dtype:
            raise ValueError(f"{label} is {array.dtype} {array.shape}; expected {self.dtype} {shape}")
        if self._planes:
            *others, first = _steps((*port.shape, batch), self.dtype)
            expected = (first, *others)
        else:
            expected = _steps(shape, self.dtype)
        if batch and any(n > 1 and a != b for n, a, b in zip(shape, array.strides, expected, strict=True)):
            raise ValueError(f"{label} does not lie in {self.layout} without gaps, as this kernel takes it")
        return array.pointer


@dataclass(frozen=True)
class _GpuArray:
    """What the CUDA array interface says of an array; strides in bytes."""

    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]

    @staticmethod
    def of(value: Any) -> _GpuArray:
        if not hasattr(value, "__cuda_array_interface__"):
            raise TypeError(f"a {type(value).__name__} among arrays on a GPU; expected all of them there")
        said = value.__cuda_array_interface__
        shape, dtype = tuple(said["shape"]), np.dtype(said["typestr"])
        return _GpuArray(said["data"][0] or 0, shape, dtype, said.get("strides") or _steps(shape, dtype))


def _steps(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """The strides of rows without gaps, in bytes."""
    return tuple(dtype.itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape)))


def _viewed(value: Any) -> Any:
    """An array with the CUDA array interface: itself, or what CuPy makes of it by DLPack."""
    if hasattr(value, "__cuda_array_interface__") or not on_gpu(value):
        return value
    try:
        return import_module("cupy").from_dlpack(value)
    except ImportError:
        raise TypeError(
            f"a {type(value).__name__} has no CUDA array interface; to take it by DLPack, install CuPy"
        ) from None


def _require(fault: bytes | None) -> None:
    if fault is not None:
        raise GpuError(fault.decode())
