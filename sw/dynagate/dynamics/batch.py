"""A scalar type that holds one number per sample of a batch, so that scalar algorithms evaluate many states at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynagate.base.arrays import Array
from dynagate.dynamics.operators import Operators
from dynagate.dynamics.spatial import NUMPY


class Batch(Operators):
    """One number for each sample of a batch, with the arithmetic of a scalar.

    Args:
        value: Array of shape (batch,), of floats or complex numbers.
    """

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

    def __rtruediv__(self, other: Any) -> Batch:
        return Batch(_number(other) / self.value)

    def sin(self) -> Batch:
        """Return the sine."""
        return Batch(np.sin(self.value))

    def cos(self) -> Batch:
        """Return the cosine."""
        return Batch(np.cos(self.value))

    def operation(self, name: str, *operands: Any) -> Batch:
        """Return an operation that Python has no operator for, such as `sqrt`; `spatial.NUMPY` lists the names."""
        return Batch(NUMPY[name](*map(_number, operands)))


def _number(x: Any) -> Any:
    return x.value if isinstance(x, Batch) else x


def batched(function: Callable[..., Array], *vectors: Array) -> Array:
    """Evaluate a function of scalar vectors for a batch of inputs.

    Args:
        function: A function of vectors (n,) over any scalar that returns a vector (m,).
        vectors: Its arguments as arrays (batch, n) of floats or complex numbers. Leading axes are broadcast.

    Returns:
        The results, an array (batch, m).
    """
    scalars = []
    for vector in vectors:
        own = np.empty(vector.shape[-1], dtype=object)
        own[:] = [Batch(vector[..., k]) for k in range(len(own))]
        scalars.append(own)
    return np.stack(np.broadcast_arrays(*map(_number, function(*scalars))), axis=-1)
