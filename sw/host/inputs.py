"""What every device asks of the arrays that it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from dynagate.graph.evaluate import check_unit_vectors

Arrays = dict[str, npt.NDArray[Any]]


class Port(Protocol):
    """A named array at a device's edge, one per sample. unit_vectors: as in `graph.Port`."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def unit_vectors(self) -> tuple[tuple[int, int], ...]: ...


def checked(function: str, ports: Sequence[Port], inputs: Mapping[str, Any]) -> tuple[Arrays, int]:
    """The inputs as arrays (batch, *shape) of real numbers, and the batch.

    Raises ValueError or TypeError that names the input: missing, unknown, of the wrong shape or dtype, or a quaternion
    whose length is not 1.
    """
    check_names(function, ports, inputs)
    batch: int | None = None
    arrays: Arrays = {}
    for port in ports:
        array = np.asarray(inputs[port.name])
        if array.dtype.kind not in "fiu":
            raise TypeError(f"input '{port.name}' has dtype {array.dtype}; expected real numbers such as float64")
        if array.ndim != len(port.shape) + 1 or array.shape[1:] != port.shape:
            raise ValueError(f"input '{port.name}' has shape {array.shape}; expected (batch, {text(port.shape)})")
        if batch is not None and len(array) != batch:
            raise ValueError(f"input '{port.name}' holds {len(array)} states; the inputs before it hold {batch}")
        if port.unit_vectors:
            check_unit_vectors(port.name, port.unit_vectors, array.reshape(len(array), -1))
        batch = len(array)
        arrays[port.name] = array
    return arrays, batch or 0


def check_names(function: str, ports: Sequence[Port], inputs: Mapping[str, Any]) -> None:
    """Raises ValueError: an input is unknown or missing."""
    names = [port.name for port in ports]
    for name in inputs:
        if name not in names:
            raise ValueError(f"{function} has no input '{name}'; expected {', '.join(names)}")
    for port in ports:
        if port.name not in inputs:
            raise ValueError(f"input '{port.name}' is missing; expected shape (batch, {text(port.shape)})")


def check_finite(arrays: Arrays, dtype: np.dtype[Any] | None = None) -> None:
    """Raises ValueError naming an entry that is infinite or not a number, or becomes so in a dtype."""
    for name, given in arrays.items():
        with np.errstate(over="ignore"):
            array = given if dtype is None else given.astype(dtype)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            where = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
            expected = f"numbers that {dtype} holds" if np.isfinite(given[where]) else "finite numbers"
            raise ValueError(f"input '{name}' is {given[where]} at {where}; expected {expected}")


def text(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
