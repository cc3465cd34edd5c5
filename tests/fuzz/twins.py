"""Options that equal others without being the same objects, and what an empty batch must return."""

from __future__ import annotations

from typing import Any

import numpy as np


def twin(value: Any) -> Any:
    """Return an equal value of other objects: texts built at run time, numbers of numpy, lists for tuples."""
    if isinstance(value, dict):
        return {name: twin(x) for name, x in value.items()}
    if isinstance(value, str):
        return "".join(list(value))
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return np.int64(value) if isinstance(value, int) else np.float64(value)
    return [twin(x) for x in value] if isinstance(value, list | tuple) else value


def emptied(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a batch without samples."""
    return (0, *shape[1:])
