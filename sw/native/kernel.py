"""A compiled graph behind numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dynagate.graph import Graph
from dynagate.native.compile import CompileError, library
from dynagate.native.emit import Source, emit

CHUNK_ROWS = 512
"""Threads get whole multiples of so many rows: of every kernel's block, so that one thread alone has a tail."""

TYPES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
Arrays = Mapping[str, npt.NDArray[Any]]


class Kernel:
    """The C of a graph, compiled for this machine. Use it from one thread at a time; it has `threads` of its own.

    Raises ValueError: a dtype but float32 and float64, or less than one thread; CompileError.
    """

    def __init__(self, graph: Graph, dtype: npt.DTypeLike, *, threads: int = 1, folder: Path | None = None) -> None:
        self.dtype = np.dtype(dtype)
        if self.dtype not in TYPES:
            raise ValueError(f"dtype {self.dtype}; expected float32 or float64")
        if threads < 1:
            raise ValueError(f"{threads} threads; expected 1 or more")
        self.graph = graph
        self.source: Source = emit(graph)
        path = library(self.source, double=self.dtype == np.float64, folder=folder)
        try:
            loaded = ctypes.CDLL(str(path))
            suffix = TYPES[self.dtype]
            self._rows = getattr(loaded, f"{self.source.name}_{suffix}")
            self._one = getattr(loaded, f"{self.source.name}_one_{suffix}")
        except (OSError, AttributeError) as error:
            raise CompileError(f"{path} is not the library of {self.source.name}: {error}") from None
        pointers = ctypes.POINTER(ctypes.c_void_p)
        self._rows.argtypes, self._rows.restype = [pointers, pointers, ctypes.c_long, ctypes.c_long], None
        self._one.argtypes, self._one.restype = [pointers, pointers], None
        self._inputs = ctypes.c_void_p * len(graph.inputs)
        self._outputs = ctypes.c_void_p * len(graph.outputs)
        self._threads = threads
        self._workers = ThreadPoolExecutor(threads - 1, "dynagate") if threads > 1 else None

    def __call__(self, inputs: Arrays, outputs: Arrays, batch: int) -> None:
        """inputs: (batch, *shape) by name, any strides and real dtype. outputs: C-contiguous arrays of the kernel's
        dtype, zero where the graph is always zero, for that is not written."""
        given = [np.ascontiguousarray(inputs[port.name], self.dtype) for port in self.graph.inputs]
        results = [outputs[port.name] for port in self.graph.outputs]
        read = self._inputs(*(array.ctypes.data for array in given))
        written = self._outputs(*(array.ctypes.data for array in results))
        if batch == 1:
            self._one(read, written)
        elif self._workers is None or batch < 2 * CHUNK_ROWS:
            self._rows(read, written, 0, batch)
        else:
            own, *others = self._shares(batch)
            waiting = [self._workers.submit(self._rows, read, written, *share) for share in others]
            self._rows(read, written, *own)
            for done in waiting:
                done.result()

    def _shares(self, batch: int) -> Sequence[tuple[int, int]]:
        """(begin, end) per thread."""
        chunks = -(-batch // CHUNK_ROWS)
        count = min(self._threads, chunks)
        cuts = [chunks * k // count * CHUNK_ROWS for k in range(count)] + [batch]
        return list(zip(cuts, cuts[1:], strict=False))

    def close(self) -> None:
        """Ends the kernel's threads."""
        if self._workers is not None:
            self._workers.shutdown()
