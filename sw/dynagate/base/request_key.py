"""Keys for results in the cache: a hash of a request, and of the source that computes the result."""

from __future__ import annotations

import hashlib
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import dynagate
from dynagate.base.errors import ArgumentTypeError

STARTED = time.time()
"""Time at which this process imported this module."""

PLAIN = (bool, int, float, str, type(None))
"""Types of values whose repr is exact."""
SOURCES = (".py", ".h", ".c", ".cuh")
"""Suffixes of the files that trace graphs, and of those that generated C includes."""


def request_key(*request: object) -> str:
    """Return a hash of a request and of everything else that determines its result.

    Args:
        request: Plain values, arrays, and dataclasses of this package that hold such values.

    Returns:
        32 hexadecimal digits; "" if the request holds other objects, or the source of the package is unknown.
    """
    source = source_key()
    if not source:
        return ""
    digest = hashlib.sha256(source.encode())
    try:
        for part in _parts(request):
            digest.update(f"{len(part)} ".encode() + part)
    except ArgumentTypeError:
        return ""
    return digest.hexdigest()[:32]


def _parts(value: Any) -> Iterator[bytes]:
    """Yield the parts of a value, each with its type.

    Raises:
        ArgumentTypeError: Two such values could have the same parts.
    """
    kind = type(value)
    yield f"{kind.__module__}.{kind.__qualname__}".encode()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        yield from (str((value.dtype.str, value.shape)).encode(), value.tobytes())
    elif kind in PLAIN:
        yield repr(value).encode()
    elif kind in (tuple, list):
        yield str(len(value)).encode()
        for each in value:
            yield from _parts(each)
    elif isinstance(value, Mapping):
        yield from _parts(list(value.items()))
    elif is_dataclass(value) and kind.__module__.startswith(f"{dynagate.__name__}."):
        for each in fields(value):
            yield each.name.encode()
            yield from _parts(getattr(value, each.name))
    else:
        raise ArgumentTypeError(
            f"{kind.__qualname__} has no key; expected plain values, arrays or classes of dynagate", code="DG-ARG-066"
        )


@cache
def source_key() -> str:
    """Return a hash of the package's Python and C files and of the versions of Python and numpy.

    Returns:
        The hash; "" if a file cannot be read, or changed after this process began: the process may run older code.
    """
    digest = hashlib.sha256(f"{sys.version} {np.__version__} {platform.machine()}".encode())
    top = Path(dynagate.__path__[0])
    try:
        for path in sorted(path for path in top.rglob("*.*") if path.suffix in SOURCES):
            if path.stat().st_mtime > STARTED:
                return ""
            content = path.read_bytes()
            digest.update(f"{path.relative_to(top).as_posix()} {len(content)}\n".encode() + content)
    except OSError:
        return ""
    return digest.hexdigest()
