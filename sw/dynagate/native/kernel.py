"""Call a compiled graph with numpy arrays."""

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
from dynagate.base.upper_limits import MAX_THREADS
from dynagate.graph import Graph
from dynagate.native.arrays import (
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
from dynagate.native.kernel_code import CodeOf, compiled_code
from dynagate.native.pool import Pool

SHARED_ROWS = 512
"""Batches with fewer rows run on one thread."""

TANGLED = 2
"""Status of a kernel that would write results over inputs of other samples."""

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class BoundArrays:
    """Arrays that a kernel reads or writes, which must be kept alive, and their addresses."""

    arrays: list[npt.NDArray[Any]]
    pointers: Any
    stride: int
    """Elements from one plane to the next; 0 for rows."""


@lru_cache
def _long(number: int) -> ctypes.c_long:
    """Return a number as a ctypes long, which saves half a microsecond a call compared with declared arguments."""
    return ctypes.c_long(number)


def check_threads(threads: int) -> None:
    """Raise ArgumentError if the number of threads is less than one or too large."""
    if not (is_whole(threads) and 1 <= threads <= MAX_THREADS):
        raise ArgumentError(
            f"{shown(threads)} threads; expected 1 or more, at most {MAX_THREADS}", code="DG-COMPILE-010"
        )


class Kernel:
    """The code of a graph on this machine. Use an instance from one thread at a time; it has its own threads.

    Args:
        graph: The graph.
        dtype: float32 or float64.
        layout: "rows": arrays (batch, ...), one sample after another. "planes": the same arrays with the batch
            innermost in memory, which needs no transposition and touches no entry that is always zero. Planes may be
            further apart than the batch.
        threads: Number of threads that share a batch.
        folder: Folder of the cache; None for the user's.
        code: Function that returns the code: `compiled_code`, or `interpreted.interpreted_code`.

    Raises:
        ArgumentError: The dtype, the layout or the number of threads is not accepted.
        CompileError: The source cannot be compiled.
    """

    def __init__(
        self,
        graph: Graph,
        dtype: npt.DTypeLike,
        *,
        threads: int = 1,
        layout: str = "rows",
        folder: Path | None = None,
        code: CodeOf = compiled_code,
    ) -> None:
        self.dtype = np.dtype(dtype)
        check(self.dtype, layout)
        check_threads(threads)
        self.graph, self.layout = graph, layout
        self._code = code(graph, self.dtype, folder)
        self._rows, self._planes, self.one = self._code.rows, self._code.planes, self._code.one
        self._inputs = ctypes.c_void_p * (len(self._code.leading) + len(graph.inputs))
        self._outputs = ctypes.c_void_p * len(graph.outputs)
        whole_batch = self._planes if layout == "planes" else self._rows
        self._whole_batch = ctypes.cast(whole_batch, ctypes.c_void_p).value or 0
        self._pool = Pool(threads, folder) if threads > 1 else None
        zeros = {p.name: np.reshape([i in graph.zeros for i in p.nodes], p.shape) for p in graph.outputs}
        self._zeros = {name: np.argwhere(where) for name, where in zeros.items() if where.any()}

    @property
    def addresses(self) -> tuple[int, int]:
        """Return the addresses of the C functions for a batch in the kernel's layout and for a single sample, for
        callers in C. They are valid as long as the process lives; several threads may call them concurrently.
        """
        return self._whole_batch, ctypes.cast(self.one, ctypes.c_void_p).value or 0

    @property
    def stamp(self) -> str:
        """Hash of the generated source; "" if the code is the interpreter's."""
        return self._code.stamp

    def new_inputs(self, batch: int) -> dict[str, npt.NDArray[Any]]:
        """Return zeros (batch, *shape) by name for the inputs, in the kernel's layout, aligned to cache lines."""
        return new_arrays(self.graph.inputs, self.dtype, self.layout, batch, good_stride(batch, self.dtype))

    def new_outputs(self, batch: int) -> dict[str, npt.NDArray[Any]]:
        """Return zeros (batch, *shape) by name for the outputs, in the kernel's layout, aligned to cache lines."""
        return new_arrays(self.graph.outputs, self.dtype, self.layout, batch, good_stride(batch, self.dtype))

    def fits(self, array: npt.NDArray[Any]) -> bool:
        """Return whether an array (batch, ...) has the kernel's layout in memory."""
        if self.layout == "rows" or len(array) == 1:
            return lies(array, "rows")
        return stride_of(array) is not None

    def __call__(self, inputs: Arrays, written: BoundArrays, batch: int) -> bool:
        """Compute a batch.

        Args:
            inputs: Name -> array (batch, *shape) of any strides and real dtype.
            written: The outputs. Entries that are always zero are not written.
            batch: Number of samples.

        Returns:
            Whether the results are valid, see `status`.
        """
        return self.status(inputs, written, batch) == 0

    def status(self, inputs: Arrays, written: BoundArrays, batch: int) -> int:
        """Compute a batch, as a call does, and return a status.

        Returns:
            0 on success, `TANGLED`, or 1 if an input is not finite, an angle is too large or a value overflows.
        """
        read = self.read(inputs)  # keep the arrays alive during the call
        return int(self._checked_call(read, written, batch)())

    def bound(self, inputs: Arrays, written: BoundArrays, batch: int) -> Callable[[], int] | None:
        """Bind arrays for repeated calls.

        The caller keeps the arrays alive. Several threads may call the function at the same time.

        Returns:
            A function that computes the batch in place and returns the `status`; None if inputs need a conversion.
        """
        read = self.read(inputs)
        in_place = all(own is inputs[port.name] for own, port in zip(read.arrays, self.graph.inputs, strict=True))
        return self._checked_call(read, written, batch) if in_place else None

    def _checked_call(self, read: BoundArrays, written: BoundArrays, batch: int) -> Callable[[], int]:
        for placed, what in ((read, "inputs"), (written, "outputs")):
            if placed.arrays and len(placed.arrays[0]) != batch:
                raise ArgumentError(
                    f"{what} of {len(placed.arrays[0])} samples for a batch of {batch}", code="DG-COMPILE-012"
                )
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
        """Compute arrays at addresses, one for each input and output, in rows without gaps in the kernel's dtype.

        Returns:
            The `status`.
        """
        return int(
            self._call(
                BoundArrays([], self._inputs(*self._code.leading, *read), 0),
                BoundArrays([], self._outputs(*written), 0),
                batch,
            )()
        )

    def clear(self, outputs: Arrays) -> None:
        """Set the entries of outputs that are always zero to zero."""
        for name, entries in self._zeros.items():
            for entry in entries:
                place = (slice(None), *entry)
                outputs[name][place] = 0

    def read(self, inputs: Arrays) -> BoundArrays:
        """Return the inputs in the kernel's dtype and layout, without copies where possible.

        Raises:
            ArgumentError: An array does not fit.
        """
        asked = [real(f"input '{port.name}'", inputs[port.name]) for port in self.graph.inputs]
        batch = len(asked[0]) if asked[0].ndim else 0
        for port, array in zip(self.graph.inputs, asked, strict=True):
            if array.shape != (batch, *port.shape):
                check_fits(f"input '{port.name}'", array, (batch, *port.shape), array.dtype)
        if self.layout == "rows" or len(asked[0]) == 1:
            arrays, stride = [laid_out(array, self.dtype, "rows") for array in asked], 0
        else:
            arrays, stride = in_planes(self.graph.inputs, [of_type(array, self.dtype) for array in asked])
        return BoundArrays(arrays, self._inputs(*self._code.leading, *map(address, arrays)), stride)

    def written(self, outputs: Arrays) -> BoundArrays:
        """Return output arrays in the form that calls take, for repeated use.

        Raises:
            ArgumentError: An array does not fit, or planes of arrays have different distances.
        """
        arrays = [outputs[port.name] for port in self.graph.outputs]
        for port, array in zip(self.graph.outputs, arrays, strict=True):
            check_written(f"out.{port.name}", array, (len(arrays[0]), *port.shape), self.dtype)
            if not self.fits(array):
                raise ArgumentError(
                    f"out.{port.name} does not lie in {self.layout} without gaps, as this kernel takes it",
                    code="DG-COMPILE-013",
                )
        stride = 0
        if self.layout == "planes":
            strides = {port.name: stride_of(outputs[port.name]) for port in self.graph.outputs}
            differing = sorted({step for step in strides.values() if step})
            if len(differing) > 1:
                raise ArgumentError(
                    f"planes of results are {strides} numbers apart; expected results of one call",
                    code="DG-COMPILE-014",
                )
            stride = differing[0] if differing else len(arrays[0])
        return BoundArrays(arrays, self._outputs(*map(address, arrays)), stride)

    def close(self) -> None:
        """Stop the kernel's threads. Later calls run on the calling thread."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
