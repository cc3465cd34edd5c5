"""How loops over links are compiled: by Numba, once a machine, free of the interpreter's lock."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from dynagate.base.errors import Error, MissingExtraError
from dynagate.base.storage import mark
from dynagate.dynamics import series
from dynagate.integrators import vectors
from dynagate.integrators.implicit import variational_body
from dynagate.native.cache import cache_folder, check_own

try:
    import numba
    from numba.extending import register_jitable
except ImportError as error:
    raise MissingExtraError("loops over links need Numba: pip install 'dynagate[papers]'") from error

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function, *, fastmath: Collection[str] = ()) -> Function:
    """The function in machine code, kept in the user's cache. It holds no lock, so threads run it side by side.

    fastmath: LLVM's flags of what it may do to sums and products."""
    folder = _folder()
    config: Any = numba.config
    before, config.CACHE_DIR = config.CACHE_DIR, folder
    try:
        machine: Any = numba.njit(cache=bool(folder), nogil=True, error_model="numpy", fastmath=set(fastmath) or False)(
            function
        )
    finally:
        config.CACHE_DIR = before
    return machine


def fused(function: Function) -> Function:
    """`compiled`, with a product and the sum that takes it rounded once."""
    return compiled(function, fastmath={"contract"})


def callable_in_loops(*functions: Callable[..., object]) -> None:
    """Lets compiled loops call these Python functions."""
    for function in functions:
        register_jitable(function)


@functools.cache
def _folder() -> str:
    """A folder for these sources, or "" where there can be none of the user's own.

    Numba looks at the file of a function alone to see if what it kept is out of date, and not at the files of
    functions that are compiled into it.
    """
    digest = hashlib.sha256()
    own, shared = (
        sorted(Path(__file__).parent.rglob("*.py")),
        (vectors.__file__, variational_body.__file__, series.__file__),
    )
    for path in (*own, *map(Path, shared)):
        digest.update(path.read_bytes())
    folder = cache_folder() / f"loops-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_own(folder, Error)
        mark(folder)
        os.utime(folder)  # which reading does not do
    except (Error, OSError):
        return ""
    return str(folder)
