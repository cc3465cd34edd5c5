"""How loops over links are compiled: by Numba, once a machine, free of the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """The function in machine code, kept on disk. It holds no lock, so threads run it side by side."""
    return numba.njit(cache=True, nogil=True, error_model="numpy")(function)  # type: ignore[no-any-return]
