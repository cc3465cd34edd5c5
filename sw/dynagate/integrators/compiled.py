"""How loops over links are compiled: by Numba, once a machine, free of the interpreter's lock."""

from __future__ import annotations

import functools
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

from dynagate.native.cache import LOOPS, cache_folder

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """The function in machine code, kept in the user's cache. It holds no lock, so threads run it side by side."""
    folder = _folder()
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, folder
    try:
        machine: Any = numba.njit(cache=bool(folder), nogil=True, error_model="numpy")(function)
    finally:
        config.CACHE_DIR = before
    return machine


@functools.cache
def _folder() -> str:
    """A folder for these sources, or "" where there can be none of the user's own.

    Numba looks at the file of a function alone to see if what it kept is out of date, and not at the files of
    functions that are compiled into it.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    folder = cache_folder() / LOOPS / digest.hexdigest()[:16]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.stat()
    except OSError:
        return ""
    own = state.st_uid == os.getuid() and not stat.S_IMODE(state.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    return str(folder) if own and os.access(folder, os.W_OK) else ""
