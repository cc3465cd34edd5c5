"""Names for intermediate values of an algorithm: node names while tracing, no effect on numbers.

An algorithm writes `with scope("minv", i): d = label(1.0 / a, "d")`, and the traced node is called `minv.3.d`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

_path: ContextVar[str] = ContextVar("_path", default="")


@contextmanager
def scope(*parts: str) -> Iterator[None]:
    """Prefix the names of values computed in this block."""
    token = _path.set(".".join((_path.get(), *parts)) if _path.get() else ".".join(parts))
    try:
        yield
    finally:
        _path.reset(token)


def current_scope() -> str:
    return _path.get()


def label(value: T, name: str) -> T:
    """Name a scalar, or every entry of a 3-vector (name_x), 3 × 3 matrix (name_xy) or larger array (name_0_4); returns
    the value."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        spatial = value.shape in ((3,), (3, 3))
        for index in np.ndindex(value.shape):
            entry = "".join("xyz"[k] for k in index) if spatial else "_".join(map(str, index))
            _label(value[index], f"{name}_{entry}")
    else:
        _label(value, name)
    return value


def _label(value: Any, name: str) -> None:
    set_name = getattr(value, "set_name", None)
    if set_name is not None:
        scope_name = current_scope()
        set_name(f"{scope_name}.{name}" if scope_name else name)
