"""A compiled graph behind numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_fits, check_written, is_whole, real, shown
from dynagate.base.errors import ArgumentError
from dynagate.base.largest import MAX_THREADS
from dynagate.graph import Graph
from dynagate.native.arrays import (
    TYPES,
    address,
    check,
    good_stride,
    in_planes,
    laid_out,
    lies,
    new_arrays,
    of_type,
    stride_of,
)
from dynagate.native.compile import STRAIGHT, CompileError, library
from dynagate.native.emit import emit
from dynagate.native.pool import Pool
from dynagate.native.source import CSource

SHARED_ROWS = 512
"""Batches of fewer rows are left to one thread."""

TANGLED = 2
"""Status of a kernel that would write results over inputs of other samples."""

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class BoundArrays:
    """Arrays that a kernel reads or writes, to keep while it does, and their addresses. stride: from one plane to the
    next; 0 for rows."""

    arrays: list[npt.NDArray[Any]]
    pointers: Any
    stride: int


@lru_cache
def _long(number: int) -> ctypes.c_long:
    """A number as C takes it: that, and no declared arguments, spares half a microsecond a call."""
    return ctypes.c_long(number)


def check_threads(threads: int) -> None:
    """Raises ArgumentError: less than one thread."""
    if not (is_whole(threads) and 1 <= threads <= MAX_THREADS):
        raise ArgumentError(f"{shown(threads)} threads; expected 1 or more, at most {MAX_THREADS}")


class Kernel:
    """The C of a graph, compiled for this machine. Use it from one thread at a time; it has `threads` of its own.

    layout: "rows", arrays (batch, ...) one sample after another; or "planes", the same arrays with the batch innermost
    in memory, which needs no transposition and touches no entry that is always zero. Planes may be further apart than
    the batch is long.
    Raises ValueError: a dtype but float32 and float64, less than one thread, another layout; CompileError.
    """

    def __init__(
        self,
        graph: Graph,
        dtype: npt.DTypeLike,
        *,
        threads: int = 1,
        layout: str = "rows",
        folder: Path | None = None,
    ) -> None:
        self.dtype = np.dtype(dtype)
        check(self.dtype, layout)
        check_threads(threads)
        self.graph, self.layout = graph, layout
        self.source: CSource = emit(graph)
        path = library(self.source, double=self.dtype == np.float64, folder=folder, toolchain=STRAIGHT)
        try:
            loaded = ctypes.CDLL(str(path))
            suffix = TYPES[self.dtype]
            self._rows = getattr(loaded, f"{self.source.name}_{suffix}")
            self._planes = getattr(loaded, f"{self.source.name}_planes_{suffix}")
            self.one = getattr(loaded, f"{self.source.name}_one_{suffix}")
        except (OSError, AttributeError) as error:
            raise CompileError(f"{path} is not the library of {self.source.name}: {error}") from None
        self._inputs = ctypes.c_void_p * len(graph.inputs)
        self._outputs = ctypes.c_void_p * len(graph.outputs)
        whole_batch = self._planes if layout == "planes" else self._rows
        self._whole_batch = ctypes.cast(whole_batch, ctypes.c_void_p).value or 0
        self._pool = Pool(threads, folder) if threads > 1 else None
        zeros = {p.name: np.reshape([graph.nodes[i].is_zero for i in p.nodes], p.shape) for p in graph.outputs}
        self._zeros = {name: np.argwhere(where) for name, where in zeros.items() if where.any()}

    @property
    def addresses(self) -> tuple[int, int]:
        """Return the addresses of the C functions for a batch in the kernel's layout and for a single sample, for
        callers in C. They are valid as long as the process lives; several threads may call them concurrently.
        """
        return self._whole_batch, ctypes.cast(self.one, ctypes.c_void_p).value or 0

    def new_inputs(self, batch: int) -> dict[str, npt.NDArray[Any]]:
        """Zeros (batch, *shape) by name, in the kernel's layout, each beginning on a cache line."""
        return new_arrays(self.graph.inputs, self.dtype, self.layout, batch, good_stride(batch, self.dtype))

    def new_outputs(self, batch: int) -> dict[str, npt.NDArray[Any]]:
        """The same for outputs."""
        return new_arrays(self.graph.outputs, self.dtype, self.layout, batch, good_stride(batch, self.dtype))

    def fits(self, array: npt.NDArray[Any]) -> bool:
        """Whether an array (batch, ...) lies in memory as the layout says."""
        if self.layout == "rows" or len(array) == 1:
            return lies(array, "rows")
        return stride_of(array) is not None

    def __call__(self, inputs: Arrays, written: BoundArrays, batch: int) -> bool:
        """inputs: (batch, *shape) by name, any strides and real dtype. written: where results go; entries that the
        graph has as always zero are not written. Returns whether results are right: see `status`."""
        return self.status(inputs, written, batch) == 0

    def status(self, inputs: Arrays, written: BoundArrays, batch: int) -> int:
        """The same call; returns 0, or `TANGLED`, or 1 if an input is not finite, an angle too large, or values
        overflow."""
        read = self.read(inputs)  # kept until the call is done
        return int(self._checked_call(read, written, batch)())

    def bound(self, inputs: Arrays, written: BoundArrays, batch: int) -> Callable[[], int] | None:
        """Binds arrays for repeated calls: a function that reads and writes them where they are and returns their
        `status`. None if inputs must be converted each time. The caller keeps the arrays. Several threads may call it
        at a time."""
        read = self.read(inputs)
        in_place = all(own is inputs[port.name] for own, port in zip(read.arrays, self.graph.inputs, strict=True))
        return self._checked_call(read, written, batch) if in_place else None

    def _checked_call(self, read: BoundArrays, written: BoundArrays, batch: int) -> Callable[[], int]:
        for placed, what in ((read, "inputs"), (written, "outputs")):
            if placed.arrays and len(placed.arrays[0]) != batch:
                raise ArgumentError(f"{what} of {len(placed.arrays[0])} samples for a batch of {batch}")
        return self._call(read, written, batch)

    def _call(self, read: BoundArrays, written: BoundArrays, batch: int) -> Callable[[], int]:
        pointers = read.pointers, written.pointers
        if batch == 1:
            return partial(self.one, *pointers)
        strides = read.stride, written.stride
        if self._pool is not None and batch >= SHARED_ROWS:
            return partial(self._pool.run, self._whole_batch, *pointers, strides, batch)
        if self.layout == "rows":
            return partial(self._rows, *pointers, _long(0), _long(batch))
        return partial(self._planes, *pointers, *map(_long, (*strides, 0, batch)))

    def at(self, read: list[int], written: list[int], batch: int) -> int:
        """`status` on memory by its addresses: rows without gaps, of the kernel's dtype, one per input and output."""
        return int(
            self._call(BoundArrays([], self._inputs(*read), 0), BoundArrays([], self._outputs(*written), 0), batch)()
        )

    def clear(self, outputs: Arrays) -> None:
        """Zeros in the entries of outputs that the graph has as always zero."""
        for name, entries in self._zeros.items():
            for entry in entries:
                place = (slice(None), *entry)
                outputs[name][place] = 0

    def read(self, inputs: Arrays) -> BoundArrays:
        """The inputs in the kernel's dtype and layout, themselves where they are so. Raises ValueError or TypeError
        naming one that does not fit."""
        asked = [real(f"input '{port.name}'", inputs[port.name]) for port in self.graph.inputs]
        batch = len(asked[0]) if asked[0].ndim else 0
        for port, array in zip(self.graph.inputs, asked, strict=True):
            if array.shape != (batch, *port.shape):
                check_fits(f"input '{port.name}'", array, (batch, *port.shape), array.dtype)
        if self.layout == "rows" or len(asked[0]) == 1:
            arrays, stride = [laid_out(array, self.dtype, "rows") for array in asked], 0
        else:
            arrays, stride = in_planes(self.graph.inputs, [of_type(array, self.dtype) for array in asked])
        return BoundArrays(arrays, self._inputs(*map(address, arrays)), stride)

    def written(self, outputs: Arrays) -> BoundArrays:
        """Arrays as `new_outputs` makes them, to be written again and again. Raises ValueError or TypeError naming one
        that does not fit, and where planes of some are further apart than those of others."""
        arrays = [outputs[port.name] for port in self.graph.outputs]
        for port, array in zip(self.graph.outputs, arrays, strict=True):
            check_written(f"out.{port.name}", array, (len(arrays[0]), *port.shape), self.dtype)
            if not self.fits(array):
                raise ArgumentError(
                    f"out.{port.name} does not lie in {self.layout} without gaps, as this kernel takes it"
                )
        stride = 0
        if self.layout == "planes":
            strides = {port.name: stride_of(outputs[port.name]) for port in self.graph.outputs}
            differing = sorted({step for step in strides.values() if step})
            if len(differing) > 1:
                raise ArgumentError(f"planes of results are {strides} numbers apart; expected results of one call")
            stride = differing[0] if differing else len(arrays[0])
        return BoundArrays(arrays, self._outputs(*map(address, arrays)), stride)

    def close(self) -> None:
        """Ends the kernel's threads; it goes on with the calling one."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
