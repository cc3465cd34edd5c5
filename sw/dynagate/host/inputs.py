"""What every device asks of the arrays that it is given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.graph.evaluate import check_unit_vectors

Arrays = dict[str, npt.NDArray[Any]]

LARGEST_ANGLE = {np.dtype(np.float32): 2.0**18, np.dtype(np.float64): 2.0**47}
"""Rad, from which on the sines of `native` are no numbers. The last place of such an angle is 0.016 rad."""

TOO_LARGE = "values became too large for {}; expected smaller inputs"


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
        value = inputs[port.name]
        array = np.asarray(value)
        if array is not value and isinstance(value, np.ma.MaskedArray):
            raise ArgumentTypeError(
                f"input '{port.name}' is a masked array; expected one without a mask, such as .filled()"
            )
        if array.dtype.kind not in "fiu":
            raise ArgumentTypeError(
                f"input '{port.name}' has dtype {array.dtype}; expected real numbers such as float64"
            )
        if array.ndim != len(port.shape) + 1 or array.shape[1:] != port.shape:
            raise ArgumentError(f"input '{port.name}' has shape {array.shape}; expected (batch, {text(port.shape)})")
        if batch is not None and len(array) != batch:
            raise ArgumentError(f"input '{port.name}' holds {len(array)} states; the inputs before it hold {batch}")
        if port.unit_vectors:
            check_unit_vectors(port.name, port.unit_vectors, array.reshape(len(array), math.prod(port.shape)))
        batch = len(array)
        arrays[port.name] = array
    return arrays, batch or 0


def check_names(function: str, ports: Sequence[Port], inputs: Mapping[str, Any]) -> None:
    """Raises ValueError: an input is unknown or missing."""
    names = [port.name for port in ports]
    for name in inputs:
        if name not in names:
            raise ArgumentError(f"{function} has no input '{name}'; expected {', '.join(names)}")
    for port in ports:
        if port.name not in inputs:
            raise ArgumentError(f"input '{port.name}' is missing; expected shape (batch, {text(port.shape)})")


def check_finite(arrays: Arrays, dtype: np.dtype[Any]) -> None:
    """Raises ValueError naming an entry that is infinite or not a number, or becomes so in a dtype."""
    for name, array in arrays.items():
        with np.errstate(over="ignore"):
            finite = np.isfinite(array if array.dtype == dtype else array.astype(dtype))
        if not finite.all():
            at = first(~finite)
            expected = f"numbers that {dtype} holds" if np.isfinite(array[at]) else "finite numbers"
            raise ArgumentError(f"input '{name}' is {array[at]} at {at}; expected {expected}")


def check_angles(arrays: Arrays, angles: Mapping[str, Sequence[int]], dtype: np.dtype[Any]) -> None:
    """Raises ValueError naming an angle that is too large for the sines of a dtype. angles: by input the entries of a
    sample, counted through, that are angles."""
    limit = LARGEST_ANGLE[dtype]
    for name, entries in angles.items():
        array = arrays[name]
        large = np.zeros(array.shape, bool)
        columns = array.reshape(len(array), -1)[:, entries].astype(np.float64)
        large.reshape(len(array), -1)[:, entries] = np.abs(columns) >= limit
        if large.any():
            at = first(large)
            raise ArgumentError(
                f"input '{name}' is {array[at]:g} at {at}; expected angles below {limit:.0f} rad for {dtype}: "
                "take whole turns off"
            )


def check_range(port: Port, k: int, column: npt.NDArray[np.float64], bounds: tuple[float, float], slack: float) -> None:
    """Raises ValueError where entry k of an input, (batch,), is outside the values that its format was chosen for by
    more than slack."""
    low, high = bounds
    outside = (column < low - slack) | (column > high + slack)
    if outside.any():
        sample = int(np.argmax(outside))
        index = ", ".join(str(int(x)) for x in np.unravel_index(k, port.shape))
        raise ArgumentError(
            f"input '{port.name}' is {column[sample]:g} at ({sample}, {index}); "
            f"the formats were chosen for {low:g} to {high:g}"
        )


def check_results(outputs: Arrays, dtype: np.dtype[Any]) -> None:
    """Raises ValueError naming a result that is infinite or not a number."""
    for name, array in outputs.items():
        finite = np.isfinite(array)
        if not finite.all():
            at = first(~finite)
            raise ArgumentError(f"output '{name}' is {array[at]} at {at}: {TOO_LARGE.format(dtype)}")


def moderate(arrays: Arrays, dtype: np.dtype[Any]) -> bool:
    """Whether all numbers are finite, and below the largest angle."""
    limit = LARGEST_ANGLE[dtype]
    return all(-limit < array.min(initial=0) and array.max(initial=0) < limit for array in arrays.values())


def first(where: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """The first index at which an array is true."""
    return tuple(int(k) for k in np.unravel_index(int(np.argmax(where)), where.shape))


def text(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
