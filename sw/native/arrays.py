"""How kernels want arrays to lie in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

CACHE_LINE = 64
LAYOUTS = ("rows", "planes")
TYPES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


class Named(Protocol):
    """A port, as far as its array goes."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


def check(dtype: np.dtype[Any], layout: str) -> None:
    """Raises ValueError: a dtype but float32 and float64, or no layout."""
    if dtype not in TYPES:
        raise ValueError(f"dtype {dtype}; expected float32 or float64")
    if layout not in LAYOUTS:
        raise ValueError(f"layout '{layout}'; expected {' or '.join(LAYOUTS)}")


def new_outputs(ports: Sequence[Named], dtype: np.dtype[Any], layout: str, batch: int) -> dict[str, npt.NDArray[Any]]:
    """Zeros (batch, *shape) by name, in a layout, each beginning on a cache line."""
    found = {}
    for port in ports:
        shape = (*port.shape, batch) if layout == "planes" else (batch, *port.shape)
        count = math.prod(shape)
        store = np.zeros(count * dtype.itemsize + CACHE_LINE, dtype=np.uint8)
        start = -store.ctypes.data % CACHE_LINE
        array = store[start : start + count * dtype.itemsize].view(dtype).reshape(shape)
        found[port.name] = np.moveaxis(array, -1, 0) if layout == "planes" else array
    return found


def lies(array: npt.NDArray[Any], layout: str) -> bool:
    """Whether an array (batch, ...) lies in memory as a layout says, without gaps."""
    whole = array.transpose(*range(1, array.ndim), 0) if layout == "planes" else array
    return whole.flags.c_contiguous


def laid_out(array: npt.NDArray[Any], dtype: np.dtype[Any], layout: str) -> npt.NDArray[Any]:
    """An array (batch, ...) in a dtype and layout, itself if it is so; what the dtype cannot hold becomes infinite."""
    if array.dtype != dtype:
        with np.errstate(over="ignore"):
            array = array.astype(dtype)
    if lies(array, layout):
        return array
    if layout == "rows":
        return np.ascontiguousarray(array)
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 0, -1)), -1, 0)
