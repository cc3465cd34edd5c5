"""Checks of input arrays that all devices share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import check_names, common_axes, exact_text, leading_axes, real
from dynagate.base.errors import ArgumentError, EntryError
from dynagate.fixedpoint.format import Format, carried, quantize
from dynagate.fixedpoint.models.model import Ranges
from dynagate.graph import Port
from dynagate.graph.evaluate import SHARES, InputRange, check_entries
from dynagate.robot import Robot

Arrays = dict[str, npt.NDArray[Any]]

LARGEST_ANGLE = {np.dtype(np.float32): 2.0**18, np.dtype(np.float64): 2.0**47}
"""Rad, from which on the sines of `native` are no numbers. The last place of such an angle is 0.016 rad."""

TOO_LARGE = "values became too large for {}; expected smaller inputs"


def checked(
    function: str, ports: Sequence[InputRange], inputs: Mapping[str, Any], *, in_place: bool = False
) -> tuple[Arrays, tuple[int, ...]]:
    """Return the inputs of a call as arrays (batch, *shape), and their leading axes.

    Args:
        function: Name of the function, for errors.
        ports: Inputs of the function, in order.
        inputs: Array of each input, (*leading, *shape). The leading axes broadcast.
        in_place: The arrays are read where they are, in later calls too, so their leading axes must be the same.

    Returns:
        Real numbers, views where that is possible, and the leading axes: () for a single state, (batch,), or more.

    Raises:
        ArgumentError: An input is missing, unknown, of the wrong shape, or has leading axes that do not fit the others;
            a quaternion has not length 1, or a switch is neither 0 nor 1.
        ArgumentTypeError: An input is no array of real numbers.
    """
    check_names(function, ports, inputs)
    own: Mapping[str, Any] = {port.name: real(f"input '{port.name}'", inputs[port.name]) for port in ports}
    if in_place:
        leading = leading_axes(ports, own)
    else:
        own, leading = common_axes(ports, own, _spread)
    arrays = {name: merged_axes(array, len(leading)) for name, array in own.items()}
    for port in ports:
        check_values(port, arrays[port.name], leading)
    return arrays, leading


def _spread(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return an array in a larger shape, with memory of its own."""
    return np.ascontiguousarray(np.broadcast_to(array, shape))


def merged_axes(array: npt.NDArray[Any], axes: int) -> npt.NDArray[Any]:
    """Merge the leading axes of an array.

    Args:
        array: Array (*leading, *shape).
        axes: Number of leading axes.

    Returns:
        The array (batch, *shape), a view if that is possible.
    """
    return array if axes == 1 else array.reshape(math.prod(array.shape[:axes]), *array.shape[axes:])


def check_values(port: InputRange, array: npt.NDArray[Any], leading: tuple[int, ...]) -> None:
    """Check the entries of an input against the values that its port allows.

    Args:
        port: The input.
        array: Its values (batch, *shape).
        leading: Leading axes of the batch, for the error.

    Raises:
        EntryError: An entry is not allowed, such as a quaternion whose length is not 1.
    """
    if restricted(port):
        try:
            check_entries(port, array.reshape(len(array), math.prod(port.shape)))
        except EntryError as error:
            raise error.within(leading) from None


def restricted(port: InputRange) -> bool:
    """Return whether an input does not allow all finite numbers.

    Args:
        port: The input.

    Returns:
        True if it does not.
    """
    return bool(port.unit_vectors) or port.switches or bool(port.parameter) or port.name in SHARES


def parameter_ports(robot: Robot) -> dict[str, Port]:
    """Return a robot's variable parameters as inputs of calls.

    Args:
        robot: The robot.

    Returns:
        The inputs by name.
    """
    return {
        each.input: Port(each.input, each.shape, (), each.unit_vectors, each.checked_kind(robot))
        for each in robot.variables
    }


def own_parameters(ports: Mapping[str, Port], inputs: Mapping[str, npt.ArrayLike]) -> dict[str, npt.ArrayLike]:
    """Return the inputs of a call that are the robot's variable parameters.

    Args:
        ports: The parameters by name.
        inputs: Inputs of the call by name.

    Returns:
        The parameters by name.

    Raises:
        ArgumentError: One is missing.
    """
    for name, port in ports.items():
        if name not in inputs:
            raise ArgumentError(
                f"a call without the variable parameter '{name}'; expected shape {port.shape} or (..., *shape)",
                code="DG-ROLLOUT-020",
            )
    return {name: inputs[name] for name in ports}


OVERFLOW = "; results of samples that overflow are NaN, flagged in `overflow` or `diverged` of the call that gave them"


def origin(value: object) -> str:
    """Return where an input that is not a number probably comes from.

    Args:
        value: The input.

    Returns:
        Text for the end of an error; empty if unknown.
    """
    return OVERFLOW if value != value else ""


def check_finite(arrays: Arrays, dtype: np.dtype[Any]) -> None:
    """Check that all entries of arrays are finite, also after conversion to a dtype.

    Args:
        arrays: Arrays by name.
        dtype: The dtype.

    Raises:
        EntryError: An entry is infinite or NaN, or becomes so.
    """
    for name, array in arrays.items():
        with np.errstate(over="ignore"):
            finite = np.isfinite(array if array.dtype == dtype else array.astype(dtype))
        if not finite.all():
            at = first_index(~finite)
            expected = f"numbers that {dtype} holds" if np.isfinite(array[at]) else "finite numbers"
            raise EntryError(
                f"input '{name}' is {array[at]} at {{at}}; expected {expected}{origin(array[at])}",
                at,
                code="DG-DEVICE-052",
            )


def check_angles(arrays: Arrays, angles: Mapping[str, Sequence[int]], dtype: np.dtype[Any]) -> None:
    """Check that angles are small enough for the sines of a dtype.

    Args:
        arrays: Arrays (batch, *shape) by name.
        angles: For each input the indices of the entries of a flattened sample that are angles.
        dtype: The dtype.

    Raises:
        EntryError: An angle is too large.
    """
    limit = LARGEST_ANGLE[dtype]
    for name, entries in angles.items():
        array = arrays[name]
        large = np.zeros(array.shape, bool)
        columns = array.reshape(len(array), -1)[:, entries].astype(np.float64)
        large.reshape(len(array), -1)[:, entries] = np.abs(columns) >= limit
        if large.any():
            at = first_index(large)
            raise EntryError(
                f"input '{name}' is {array[at]:g} at {{at}}; expected angles below {limit:.0f} rad for {dtype}: "
                "subtract multiples of 2π",
                at,
                code="DG-DEVICE-053",
            )


def check_range(
    port: InputRange, k: int, column: npt.NDArray[np.float64], bounds: tuple[float, float], slack: float
) -> None:
    """Check one entry of an input against the range that its format was chosen for. A limit rounded up by float32 is
    allowed.

    Args:
        port: The input.
        k: Index of the entry in a flattened sample.
        column: Values of the entry, (batch,).
        bounds: Lowest and highest value.
        slack: Largest distance outside these that is allowed.

    Raises:
        EntryError: A value is outside.
    """
    low, high = bounds
    least, most = min(low - slack, float(np.float32(low))), max(high + slack, float(np.float32(high)))
    outside = (column < least) | (column > most)
    if outside.any():
        sample = int(np.argmax(outside))
        raise EntryError(
            f"input '{port.name}' is {exact_text(column[sample])} at {{at}}; the formats were chosen for "
            f"{exact_text(low)} to {exact_text(high)}",
            (sample, *(int(index) for index in np.unravel_index(k, port.shape))),
            code="DG-DEVICE-054",
        )


def check_ranges(ports: Iterable[InputRange], ranges: Ranges, arrays: Arrays) -> None:
    """Check all entries of inputs against the ranges that their formats were chosen for.

    A value that a stream rounds must also fit its format after rounding.

    Args:
        ports: The inputs.
        ranges: Range of each entry, by input.
        arrays: Values (..., *shape) by name.

    Raises:
        EntryError: A value is outside.
    """
    for port in ports:
        entries = ranges.get(port.name, ())
        flat = arrays[port.name].reshape(-1, len(entries) or 1).astype(np.float64)
        for k, entry in enumerate(entries):
            check_range(port, k, flat[:, k], entry.bounds, entry.slack)
            if entry.format is not None and entry.number is not None:
                check_fits(port.name, carried(flat[:, k], entry.number), entry.format, np.arange(len(flat)))


def check_fits(name: str, column: npt.NDArray[np.float64], fmt: Format, samples: npt.NDArray[np.int64]) -> None:
    """Check that the values of an entry fit its format after a stream has rounded them.

    Args:
        name: Name of the input with the index of the entry.
        column: Rounded values (samples,).
        fmt: Format of the entry.
        samples: Indices of the samples in the batch.

    Raises:
        EntryError: A value does not fit.
    """
    bad = ~np.isfinite(column)
    bad[~bad] = quantize(column[~bad], fmt).overflow
    if bad.any():
        k, (low, high) = int(np.argmax(bad)), fmt.limits
        raise ArgumentError(
            f"input '{name}' is {column[k]:g} in sample {samples[k]}; its format holds {low:g} to {high:g}",
            code="DG-DEVICE-055",
        )


def as_streamed(
    port: InputRange,
    k: int,
    column: npt.NDArray[np.float64],
    bounds: tuple[float, float],
    fmt: Format,
    number: str | None,
) -> npt.NDArray[np.float64]:
    """Round one entry of an input to the type of its stream, after checking its range.

    Args:
        port: The input.
        k: Index of the entry in a flattened sample.
        column: Values of the entry, (batch,).
        bounds: Lowest and highest value.
        fmt: Format of the entry.
        number: Type of the stream; None for no rounding.

    Returns:
        The rounded values (batch,).

    Raises:
        EntryError: A value is outside its range, or does not fit its format after rounding.
    """
    check_range(port, k, column, bounds, fmt.step)
    rounded = carried(column, number)
    if number is not None:
        check_fits(port.name, rounded, fmt, np.arange(len(column)))
    return rounded


def check_results(outputs: Arrays, dtype: np.dtype[Any]) -> None:
    """Check that all results are finite.

    Args:
        outputs: Arrays by name.
        dtype: Type of the computation.

    Raises:
        EntryError: A result is infinite or NaN.
    """
    for name, array in outputs.items():
        finite = np.isfinite(array)
        if not finite.all():
            at = first_index(~finite)
            raise EntryError(
                f"output '{name}' is {array[at]} at {{at}}: {TOO_LARGE.format(dtype)}", at, code="DG-DEVICE-056"
            )


def all_moderate(arrays: Arrays, dtype: np.dtype[Any]) -> bool:
    """Return whether all numbers are finite and smaller than the largest angle, so that no check can fail.

    Args:
        arrays: Arrays by name.
        dtype: Type of the computation.

    Returns:
        True if they are.
    """
    limit = LARGEST_ANGLE[dtype]
    return all(-limit < array.min(initial=0) and array.max(initial=0) < limit for array in arrays.values())


def first_index(where: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the first index at which an array is true.

    Args:
        where: Array with at least one true entry.

    Returns:
        The index, one number for each axis.
    """
    return tuple(int(k) for k in np.unravel_index(int(np.argmax(where)), where.shape))
