"""Arrays in host memory that a GPU reads and writes directly (pinned memory)."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

KEPT_BYTES = 2**29
"""Largest memory in bytes that is kept for reuse, since a new allocation takes longer than a batch."""


class Pinned:
    """A pool of pinned memory.

    Args:
        new_memory: Allocates a number of bytes and returns the address, or raises.
        free: Frees memory at an address.
    """

    def __init__(self, new_memory: Callable[[int], int], free: Callable[[int], Any]) -> None:
        self._new_memory, self._free = new_memory, free
        self._unused: dict[int, list[int]] = defaultdict(list)
        self._kept, self._most = 0, KEPT_BYTES
        self._used: set[int] = set()

    def new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return an array that is not cleared. Its memory returns to the pool when nothing refers to it any more."""
        size = max(1, math.prod(shape)) * dtype.itemsize
        if self._unused[size]:
            address = self._unused[size].pop()
            self._kept -= size
        else:
            address = self._new_memory(size)
        self._used.add(address)
        memory: Any = (ctypes.c_char * size).from_address(address)
        weakref.finalize(memory, self._back, address, size).atexit = False  # the process frees it anyway
        return np.frombuffer(memory, dtype, math.prod(shape)).reshape(shape)

    def holds(self, address: int) -> bool:
        """Return whether one of the pool's arrays begins at an address."""
        return address in self._used

    def close(self) -> None:
        """Free unused memory now, and the rest when its arrays are gone."""
        for addresses in self._unused.values():
            for address in addresses:
                self._free(address)
        self._unused.clear()
        self._kept = self._most = 0

    def _back(self, address: int, size: int) -> None:
        self._used.discard(address)
        if self._kept + size > self._most:
            self._free(address)
        else:
            self._unused[size].append(address)
            self._kept += size
