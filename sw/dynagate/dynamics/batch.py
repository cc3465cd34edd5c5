"""Numbers of a batch as one scalar, with which an algorithm over any scalar computes many states at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.dynamics.spatial import NUMPY


class Batch:
    """A number in each sample of a batch. value: array (batch), of floats or complex numbers."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __neg__(self) -> Batch:
        return Batch(-self.value)

    def __add__(self, other: Any) -> Batch:
        return Batch(self.value + _number(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Batch:
        return Batch(self.value - _number(other))

    def __rsub__(self, other: Any) -> Batch:
        return Batch(_number(other) - self.value)

    def __mul__(self, other: Any) -> Batch:
        return Batch(self.value * _number(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Batch:
        return Batch(self.value / _number(other))

    def __rtruediv__(self, other: Any) -> Batch:
        return Batch(_number(other) / self.value)

    def sin(self) -> Batch:
        """Return the sine."""
        return Batch(np.sin(self.value))

    def cos(self) -> Batch:
        """Return the cosine."""
        return Batch(np.cos(self.value))

    def operation(self, name: str, *operands: Any) -> Batch:
        """Return an operation without a sign in Python, by its name in `spatial`."""
        return Batch(NUMPY[name](*map(_number, operands)))


def _number(x: Any) -> Any:
    return x.value if isinstance(x, Batch) else x


def batched(function: Callable[..., Array], *vectors: Array) -> Array:
    """Return a function of vectors of scalars, for arrays (batch, n) of floats or complex numbers."""
    scalars = []
    for vector in vectors:
        own = np.empty(vector.shape[-1], dtype=object)
        own[:] = [Batch(vector[..., k]) for k in range(len(own))]
        scalars.append(own)
    return np.stack(np.broadcast_arrays(*map(_number, function(*scalars))), axis=-1)
