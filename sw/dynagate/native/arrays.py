"""Layouts of arrays in memory: checks, new arrays and conversions.

"rows" is an array of structures, with the batch as the first axis. "planes" is a structure of arrays, with the batch
innermost in memory.
"""

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
    try:  # three times faster than the code below
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):  # read-only, empty or not in rows
        return array.ctypes.data


def check(dtype: np.dtype[Any], layout: str) -> None:
    """Raise ArgumentError unless the dtype is float32 or float64 and the layout is known."""
    check_number_type(dtype)
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ArgumentError(f"layout '{layout}'; expected {' or '.join(LAYOUTS)}", code="DG-COMPILE-001")


def new_arrays(
    ports: Sequence[NamedArray], dtype: np.dtype[Any], layout: str, batch: int, stride: int = 0
) -> dict[str, npt.NDArray[Any]]:
    """Return zeros (batch, *shape) by name in a layout, each array aligned to a cache line.

    Args:
        ports: Names and shapes.
        dtype: Number type.
        layout: "rows" or "planes".
        batch: Number of samples.
        stride: Numbers from one plane to the next; 0 for the batch.
    """
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
    """Return the number of elements from one plane to the next: an odd number of cache lines, or 1 for a single sample.

    An odd number spreads planes over the whole cache. Planes of 1024 samples would compete for a few cache sets.
    """
    lines = -(-batch * dtype.itemsize // CACHE_LINE) | 1
    return 1 if batch == 1 else lines * CACHE_LINE // dtype.itemsize


def stride_of(array: npt.NDArray[Any]) -> int | None:
    """Return the number of elements between planes of an array (batch, ...); 0 for a single plane, None for another
    layout.
    """
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
    """Return whether an array (batch, ...) has a layout in memory without gaps."""
    whole = array.transpose(*range(1, array.ndim), 0) if layout == "planes" else array
    return whole.flags.c_contiguous


def laid_out(array: npt.NDArray[Any], dtype: np.dtype[Any], layout: str) -> npt.NDArray[Any]:
    """Return an array (batch, ...) in a dtype and a layout without gaps, without a copy if it already is."""
    array = of_type(array, dtype)
    if lies(array, layout):
        return array
    if layout == "rows":
        return np.ascontiguousarray(array)
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 0, -1)), -1, 0)


def in_planes(ports: Sequence[NamedArray], arrays: Sequence[npt.NDArray[Any]]) -> tuple[list[npt.NDArray[Any]], int]:
    """Return arrays (batch, ...) of one dtype as planes and their common stride, without copies if they
    already are.
    """
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
