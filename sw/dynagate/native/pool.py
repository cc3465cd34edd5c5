"""Threads that share a batch, in C: `dynagate_pool.c`, compiled and called."""

from __future__ import annotations

import ctypes
import threading
import weakref
from functools import cache
from pathlib import Path
from typing import Any

from dynagate.base.forks import renew_in_child
from dynagate.native.compile import library
from dynagate.native.headers import header
from dynagate.native.source import CSource

NAME = "dynagate_pool"


class Pool:
    """Persistent threads in addition to the calling one, which end when the pool is closed or nothing refers to it any
    more.

    Closed, and in a process that was forked from its own, it computes everything in the calling thread. Raises
    CompileError, and OSError where the system gives no more threads.
    """

    def __init__(self, threads: int, folder: Path | None = None) -> None:
        self._functions = _functions(folder)
        self._pool = self._functions.dynagate_pool_begin(threads - 1)
        if not self._pool:
            raise OSError(f"cannot start {threads - 1} threads; expected fewer")
        self._lock = threading.RLock()  # the threads share one batch at a time
        renew_in_child(self, "_lock")
        self._end = weakref.finalize(self, self._functions.dynagate_pool_end, self._pool)
        self._end.atexit = False  # the process ends them

    def run(self, kernel: int, inputs: Any, outputs: Any, strides: tuple[int, int], batch: int) -> int:
        """Run a kernel on all rows, divided among the threads.

        Args:
            kernel: Address of the kernel.
            inputs: Pointers to the inputs.
            outputs: Pointers to the outputs.
            strides: Strides of inputs and outputs; 0 for inputs in rows.
            batch: Number of rows.

        Returns:
            0 if the kernel returned 0 everywhere.
        """
        with self._lock:
            return int(self._functions.dynagate_pool_run(self._pool, kernel, inputs, outputs, *strides, batch))

    def close(self) -> None:
        """Stop the threads."""
        with self._lock:
            self._pool = None
            self._end()


@cache
def _functions(folder: Path | None) -> ctypes.CDLL:
    source = CSource.of(NAME, {f"{NAME}.c": header(f"{NAME}.c")})
    loaded = ctypes.CDLL(str(library(source, double=False, folder=folder)))
    pointer, pointers = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
    loaded.dynagate_pool_begin.argtypes, loaded.dynagate_pool_begin.restype = [ctypes.c_int], pointer
    loaded.dynagate_pool_end.argtypes, loaded.dynagate_pool_end.restype = [pointer], None
    loaded.dynagate_pool_run.argtypes = [pointer, pointer, pointers, pointers, *[ctypes.c_long] * 3]
    return loaded
