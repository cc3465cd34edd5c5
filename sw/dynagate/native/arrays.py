"""How kernels want arrays to lie in memory."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_number_type, of_type
from dynagate.base.errors import ArgumentError

CACHE_LINE = 64
LAYOUTS = ("rows", "planes")
TYPES: dict[np.dtype[Any], str] = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


class NamedArray(Protocol):
    """A port, as far as its array goes."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


def address(array: npt.NDArray[Any]) -> int:
    """Return the address of an array."""
    try:  # three times as fast as below
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):  # read-only, empty or not in rows
        return array.ctypes.data


def check(dtype: np.dtype[Any], layout: str) -> None:
    """Raises ValueError: a dtype but float32 and float64, or no layout."""
    check_number_type(dtype)
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ArgumentError(f"layout '{layout}'; expected {' or '.join(LAYOUTS)}")


def new_arrays(
    ports: Sequence[NamedArray], dtype: np.dtype[Any], layout: str, batch: int, stride: int = 0
) -> dict[str, npt.NDArray[Any]]:
    """Zeros (batch, *shape) by name, in a layout, each beginning on a cache line. stride: from one plane to the next;
    0 for the batch."""
    arrays = {}
    for port in ports:
        shape = (*port.shape, stride or batch) if layout == "planes" else (batch, *port.shape)
        count = math.prod(shape)
        store = np.zeros(count * dtype.itemsize + CACHE_LINE, dtype=np.uint8)
        start = -store.ctypes.data % CACHE_LINE
        array = store[start : start + count * dtype.itemsize].view(dtype).reshape(shape)
        arrays[port.name] = np.moveaxis(array[..., :batch], -1, 0) if layout == "planes" else array
    return arrays


def good_stride(batch: int, dtype: np.dtype[Any]) -> int:
    """From one plane to the next: an odd number of cache lines, which spreads planes over all of a cache, where those
    of 1024 samples would compete for a few places. The entries of a single sample are adjacent."""
    lines = -(-batch * dtype.itemsize // CACHE_LINE) | 1
    return 1 if batch == 1 else lines * CACHE_LINE // dtype.itemsize


def stride_of(array: npt.NDArray[Any]) -> int | None:
    """Numbers from one plane of an array (batch, ...) to the next; 0: there is only one plane; None: not planes."""
    batch, size = len(array), array.itemsize
    if batch > 1 and array.strides[0] != size:
        return None
    first = step = 0
    for count, stride in zip(reversed(array.shape[1:]), reversed(array.strides[1:]), strict=True):
        if count == 1:
            continue
        if not step:
            first = step = stride
        if stride != step or stride < batch * size or stride % size:
            return None
        step *= count
    return first // size


def lies(array: npt.NDArray[Any], layout: str) -> bool:
    """Whether an array (batch, ...) lies in memory as a layout says, without gaps."""
    whole = array.transpose(*range(1, array.ndim), 0) if layout == "planes" else array
    return whole.flags.c_contiguous


def laid_out(array: npt.NDArray[Any], dtype: np.dtype[Any], layout: str) -> npt.NDArray[Any]:
    """An array (batch, ...) in a dtype and layout without gaps, itself if it is so."""
    array = of_type(array, dtype)
    if lies(array, layout):
        return array
    if layout == "rows":
        return np.ascontiguousarray(array)
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 0, -1)), -1, 0)


def in_planes(ports: Sequence[NamedArray], arrays: Sequence[npt.NDArray[Any]]) -> tuple[list[npt.NDArray[Any]], int]:
    """Arrays (batch, ...) of one dtype as planes, and the stride of all of them; themselves if they lie so already."""
    batch, dtype = len(arrays[0]), arrays[0].dtype
    measured = [stride_of(array) for array in arrays]
    strides = set(measured) - {0}
    stride = strides.pop() if len(strides) == 1 else None
    if stride is None:
        stride = good_stride(batch, dtype)
    planes = list(arrays)
    for k, port in enumerate(ports):
        if measured[k] not in (0, stride):
            planes[k] = new_arrays([port], dtype, "planes", batch, stride)[port.name]
            planes[k][...] = arrays[k]
    return planes, stride
