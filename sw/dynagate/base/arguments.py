"""Check numbers, arrays, names and flags that users pass, before any of them reaches compiled code.

`number` and `numbers` check the arguments of all public functions: the kind (not a truth value, text or complex
number), the shape, the mask, finiteness and the range. The caller passes the range and its own class of error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError, ArgumentTypeError, EntryError, Error
from dynagate.base.nearest import nearest
from dynagate.base.upper_limits import MAX_EXPONENT

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # in `typing` from Python 3.13 on

LARGEST = 1e12
"""Largest accepted magnitude of an option, in its unit. Larger values are mistakes whose products overflow
float64.
"""

FINITE_MOST = 1e100
"""Largest magnitude that counts as finite, since the square of a larger number may overflow float64."""

REAL = "fiu"
"""Kinds of numpy's real dtypes: floating point, signed and unsigned integers."""

SMALL = 1 << 14
"""Largest size of an array for which the sum of squares is the fastest test for finite numbers."""


class Shaped(Protocol):
    """An input: its name, and its shape for one sample."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


class Typed(Protocol):
    """An array, wherever it lies."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...


NO_NUMBERS = (bool, np.timedelta64)
"""Types that Python counts as whole numbers but that options do not accept as numbers."""


def is_whole(value: object) -> TypeIs[int]:
    """Return whether a value is a whole number of Python or numpy. Truth values and durations are no numbers."""
    return isinstance(value, Integral) and not isinstance(value, NO_NUMBERS)


def is_number(value: object) -> TypeIs[float]:
    """Return whether a value is a real number of Python or numpy. Truth values and durations are no numbers."""
    return isinstance(value, Real) and not isinstance(value, NO_NUMBERS)


def is_collection(value: object) -> TypeIs[Collection[Any]]:
    """Return whether a value has entries to iterate over. A numpy array of shape () has none."""
    return isinstance(value, Collection) and getattr(value, "shape", None) != ()


def store_plain_numbers(options: object) -> None:
    """Replace numpy's numbers and truth values in the fields of a frozen dataclass by the equal ones of Python.

    Arithmetic with a number of numpy rounds to its type, or overflows it. JSON has no such numbers. An array of shape
    () counts as the number that it holds.
    """
    for field in fields(options):  # type: ignore[arg-type]
        value = getattr(options, field.name)
        if type(value) is np.ndarray and value.shape == ():
            value = value[()]
        if isinstance(value, np.bool_) or (isinstance(value, np.generic) and (is_whole(value) or is_number(value))):
            object.__setattr__(options, field.name, float(value) if isinstance(value, np.floating) else value.item())


def is_finite(value: object) -> TypeIs[float]:
    """Return whether a value is a real number that is finite in float64. True and False are not numbers here."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:  # an int beyond float64
        return False


def check_count(
    name: str, value: object, largest: float, smallest: int = 1, failure: type[Error] = ArgumentError
) -> None:
    """Raise `failure` if a value is not a whole number from `smallest` to `largest`.

    Args:
        name: Name of the option, for the error.
        value: The value.
        largest: Largest accepted number.
        smallest: Smallest accepted number.
        failure: Class of the error.
    """
    if not (is_whole(value) and value >= smallest):
        raise failure(f"{name}={shown(value)}; expected a whole number of {smallest} or more", code="DG-ARG-001")
    if value > largest:
        raise failure(f"{name}={shown(value)}; expected a whole number, at most {largest:g}", code="DG-ARG-002")


def equal(value: object, default: object) -> bool:
    """Return whether an option has its default value. An array, which compares entry by entry, does not."""
    try:
        same = value == default
    except (TypeError, ValueError):  # some of numpy's values cannot be compared
        return False
    return isinstance(same, bool | np.bool_) and bool(same)


def exact_text(value: float) -> str:
    """Return the shortest text of a number that reads back as the same number, such as 9 or 3.1400001."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def shown(value: object) -> str:
    """Return a value for the text of an error: a number with all its digits, another value cut at 40 characters."""
    text = " ".join(repr(float(value) if isinstance(value, np.floating) else value).split())
    return text if len(text) <= 40 else f"{text[:37]}..."


@dataclass(frozen=True)
class Accepted:
    """The numbers that an argument accepts.

    Attributes:
        one: The range in words, for one number: "a finite number, 0 or more".
        several: The range in words after a count, for several numbers: "finite numbers, 0 or more"; "" for `one`.
        least: The smallest number of the range.
        most: The largest number of the range.
        open: Whether `least` itself is outside the range.
        whole: Whether only whole numbers are accepted.
    """

    one: str = "a finite number"
    several: str = "finite numbers"
    least: float = -FINITE_MOST
    most: float = FINITE_MOST
    open: bool = False
    whole: bool = False

    def holds(self, values: Any) -> bool:
        """Return whether a real number, or every entry of an array of them, is in the range."""
        if isinstance(values, np.ndarray | np.generic):
            values = np.asarray(values, dtype=np.float64)
        low = values > self.least if self.open else values >= self.least
        return bool(np.all(low & (values <= self.most)) and (not self.whole or np.all(values % 1 == 0)))

    def called(self, one: str, several: str = "") -> Accepted:
        """Return the same range in other words, such as "a time step of more than 0 s"."""
        return replace(self, one=one, several=several or self.several)

    def expected(self, largest: float, count: str = "") -> str:
        """Return what an error says is expected.

        Args:
            largest: The largest number of the value. The text names `most` if this number exceeds it.
            count: How many numbers are expected, in words; "" for one.
        """
        text = f"{count} {self.several}" if count and self.several else self.one
        most = f"{self.most:g}"
        return f"{text}, at most {most}" if math.inf > largest > self.most and most not in text.split() else text


FINITE = Accepted()
AT_LEAST_ZERO = Accepted("a finite number, 0 or more", "finite numbers, 0 or more", 0.0)
ABOVE_ZERO = Accepted("a finite number above 0", "finite numbers above 0", 0.0, open=True)
SHARE = Accepted("a number from 0 to 1", "numbers from 0 to 1", 0.0, 1.0)
EXPONENT = Accepted("a whole number, 1 or more", "whole numbers, 1 or more", 1.0, MAX_EXPONENT, whole=True)


def number(label: str, value: object, accepted: Accepted = FINITE, error: type[Error] = ArgumentError) -> float:
    """Return an argument as a float.

    Args:
        label: The beginning of the error's text, up to the value: "limits has stiffness ", or "dt=".
        value: A real number of Python or numpy, or a numpy array of shape ().
        accepted: The range.
        error: The class of the error.

    Raises:
        Error: The value is a truth value, a text, a complex number, an array or another object, it is masked, not
            finite, or out of range. The class is `error`.
    """
    is_scalar = isinstance(value, np.floating | np.integer) or (type(value) is np.ndarray and value.shape == ())
    own = value.item() if is_scalar and value.dtype.kind in REAL else value  # type: ignore[attr-defined]
    if not (is_number(own) and accepted.holds(own) and (abs(own) <= FINITE_MOST or abs(own) == math.inf)):
        raise error(
            f"{label}{shown(value)}; expected {accepted.expected(own if is_number(own) else 0.0)}", code="DG-ARG-003"
        )
    return float(own)


def numbers(
    label: str,
    value: Any,
    shape: tuple[int | None, ...] = (None,),
    accepted: Accepted = FINITE,
    error: type[Error] = ArgumentError,
) -> Array:
    """Return an argument as an array of float64.

    Args:
        label: The beginning of the error's text, up to the value, as for `number`.
        value: A sequence of real numbers, nested as the shape says, or a numpy array.
        shape: The shape of the array. An axis of None has any size but 0.
        accepted: The range of each entry.
        error: The class of the error.

    Raises:
        Error: The shape differs, or an entry is not as `number` takes one. The class is `error`.
    """
    try:
        array = real(label.rstrip(" ="), value)
    except Error:
        array = None
    if array is None or len(array.shape) != len(shape) or not all(map(_fits, array.shape, shape)):
        raise error(f"{label}{shown(value)}; expected {accepted.expected(0.0, _count(shape))}", code="DG-ARG-004")
    if not accepted.holds(array):
        expected = accepted.expected(float(np.max(array)), _count(shape))
        raise error(f"{label}{shown(value)}; expected {expected}", code="DG-ARG-005")
    return array.astype(np.float64)


def one_or_each(
    label: str, value: object, accepted: Accepted = FINITE, error: type[Error] = ArgumentError
) -> float | tuple[float, ...]:
    """Return one number as a float, or a sequence of numbers as a tuple, after the checks of `number` and `numbers`.

    Args:
        label: The argument, for the error.
        value: The value.
        accepted: Accepted numbers.
        error: Class of the error.
    """
    is_array = hasattr(value, "__array__") and getattr(value, "ndim", 0) > 0
    if is_array or (isinstance(value, Sequence) and not isinstance(value, str)):
        return tuple(numbers(label, value, (None,), accepted, error).tolist())
    return number(label, value, accepted, error)


def one_or_several(
    label: str, value: object, counts: Collection[int], accepted: Accepted = FINITE, error: type[Error] = ArgumentError
) -> Array:
    """Return one number, with shape (), or several numbers as an array of float64.

    Args:
        label: The argument, for the error.
        value: The value.
        counts: Accepted lengths of a sequence.
        accepted: Accepted numbers.
        error: Class of the error.

    Raises:
        Error: A number is not accepted, or the length is not in `counts`. The class is `error`.
    """
    array = np.array(one_or_each(label, value, accepted, error))
    if array.shape and len(array) not in counts:
        expected = " or ".join(map(str, counts))
        raise error(f"{label}{shown(value)} has {len(array)} numbers; expected one, or {expected}", code="DG-ARG-006")
    return array


def _fits(size: int, expected: int | None) -> bool:
    return size > 0 if expected is None else size == expected


def _count(shape: tuple[int | None, ...]) -> str:
    """Return a shape in words, to stand before "finite numbers"."""
    if len(shape) == 1:
        return "a sequence of" if shape[0] is None else COUNTS.get(shape[0], str(shape[0]))
    return f"{' × '.join('any' if size is None else str(size) for size in shape)}"


COUNTS = {1: "one", 2: "two", 3: "three"}
"""Counts that errors write as words."""


def check_kind(name: str, value: object, kind: type, *, optional: bool = True) -> None:
    """Raise ArgumentTypeError if an option is not an object of this class. None is accepted if it is optional."""
    if not (isinstance(value, kind) or (optional and value is None)):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ArgumentTypeError(f"{name}={shown(value)}; expected {article} {kind.__name__}", code="DG-ARG-007")


def names_of(label: str, value: object) -> tuple[str, ...]:
    """Return one name or several as a tuple. Raise ArgumentTypeError if the value is neither."""
    names = (value,) if isinstance(value, str) else value
    if not (is_collection(names) and all(isinstance(name, str) for name in names)):
        raise ArgumentTypeError(f"{label}={shown(value)}; expected a name, or a sequence of names", code="DG-ARG-008")
    return tuple(names)


def check_texts(error: type[Error] = ArgumentError, **texts: object) -> None:
    """Raise an error that names an argument which is not a text, or an empty one."""
    for name, value in texts.items():
        if not (isinstance(value, str) and value):
            raise error(f"{name}={shown(value)}; expected a name", code="DG-ARG-009")


def check_flags(**flags: object) -> None:
    """Raise ArgumentError for the first option that is neither True nor False."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise ArgumentError(f"{name}={value!r}; expected True or False", code="DG-ARG-010")


def check_positive(name: str, value: object, expected: str) -> None:
    """Raise ArgumentError if an option is not above 0 and at most `LARGEST`. `expected` describes the option in the
    error.
    """
    number(f"{name}=", value, replace(ABOVE_ZERO, one=expected, most=LARGEST))


def check_time_step(dt: object) -> None:
    """Raise ArgumentError if dt is not a time in seconds."""
    check_positive("dt", dt, "a time step of more than 0 s")


def check_number_type(dtype: object) -> None:
    """Check that a dtype is float32 or float64.

    Raises:
        ArgumentTypeError: It is not a dtype.
        ArgumentError: It is another dtype.
    """
    try:
        number = np.dtype(dtype)  # type: ignore[call-overload]
    except (TypeError, ValueError, SyntaxError, OverflowError):  # numpy reads texts as lists of fields
        raise ArgumentTypeError(f"dtype {shown(dtype)}; expected float32 or float64", code="DG-ARG-011") from None
    if number not in (np.float32, np.float64):
        raise ArgumentError(f"dtype {number}; expected float32 or float64", code="DG-ARG-012")


def real(label: str, value: Any) -> Array:
    """Return an argument as an array of real numbers, without a copy if it already is one.

    Raises:
        ArgumentTypeError: It is masked, or holds complex numbers, truth values, texts or other objects.
        ArgumentError: Its rows differ in length.
    """
    if type(value) is np.ndarray and value.dtype.kind in REAL:
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"{label} is a masked array; expected one without a mask, such as .filled()", code="DG-ARG-013"
        )
    if isinstance(value, bytes | bytearray):
        raise ArgumentTypeError(f"{label}={shown(value)}; expected real numbers such as 1.0", code="DG-ARG-014")
    if isinstance(value, list | tuple) and (foreign := _foreign(value)) is not None:
        raise ArgumentTypeError(
            f"{label} has the entry {shown(foreign)}; expected real numbers such as 1.0", code="DG-ARG-015"
        )
    array = as_array(label, value)
    if array.dtype.kind not in REAL:
        raise ArgumentTypeError(
            f"{label} has dtype {array.dtype}; expected real numbers such as float64", code="DG-ARG-016"
        )
    return array


def as_array(label: str, value: Any) -> Array:
    """Return an argument as numpy reads it, of any dtype.

    Raise ArgumentError for rows of different lengths. Raise ArgumentTypeError for an array of another framework that
    numpy cannot read.
    """
    try:
        return np.asarray(value) if hasattr(value, "__array__") else np.asarray(_by_dlpack(value))
    except ValueError as error:
        raise ArgumentError(f"{label} is no array: {error}", code="DG-ARG-017") from None
    except (TypeError, RuntimeError):  # what arrays of other frameworks raise that have no numbers, or none for numpy
        raise ArgumentTypeError(f"{label} {_unreadable(value)}", code="DG-ARG-018") from None


def _by_dlpack(value: Any) -> Any:
    """Return an array on the CPU that offers its memory by DLPack as one of numpy; any other value as it is."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        return value
    try:
        return np.from_dlpack(value)
    except (BufferError, TypeError, RuntimeError):  # another device, dtypes that numpy does not have, no memory
        return value


def as_memory(value: Any) -> Any:
    """Return an array that numpy can write to in place: `value`, or its memory if it is an array of another framework.

    A value without such memory is returned as it is.
    """
    shared = _by_dlpack(value)
    if shared is value or shared.flags.writeable:
        return shared
    array = np.asarray(value) if hasattr(value, "__array__") else shared  # older exports are read-only
    return array if array.flags.writeable and np.shares_memory(array, shared) else shared


def _unreadable(value: Any) -> str:
    """Return why numpy cannot read an argument, and what is accepted."""
    while isinstance(value, list | tuple) and value:
        value = next((each for each in value if isinstance(each, list | tuple) or _framework(each)), value[0])
    framework, kind = _framework(value), type(value).__name__
    if framework == "jax":
        return (
            f"is traced by JAX ({kind}) and has no numbers yet; expected an array outside jit, grad and vmap, or in "
            "them dynagate.jax.function(robot, function) or dynagate.jax.rollout(robot, steps, dt)"
        )
    if framework == "torch" and getattr(value, "requires_grad", False):
        return (
            "is a tensor that requires a gradient, which numpy cannot keep; expected a tensor without one, such as "
            ".detach(), or for gradients dynagate.torch.function(robot, function) or dynagate.torch.rollout(robot, "
            "steps, dt)"
        )
    if framework == "torch":
        return (
            f"is a tensor of {getattr(value, 'dtype', kind)} on {getattr(value, 'device', 'no device')} that numpy "
            "cannot read; expected float32 or float64 on the CPU, such as .double().cpu(), or "
            "dynagate.torch.function(robot, function)"
        )
    return f"is a {kind}; expected real numbers such as 1.0"


def _framework(value: object) -> str:
    """Return "torch" or "jax" for an array of one of them, else ""."""
    package = type(value).__module__.partition(".")[0]
    return {"torch": "torch", "jax": "jax", "jaxlib": "jax"}.get(package, "")


def _foreign(values: Sequence[Any]) -> object:
    """Return the first truth value or masked array in nested sequences, which numpy would convert to numbers.

    Return None if there is no such entry.
    """
    for each in values:
        if isinstance(each, list | tuple):
            if (inner := _foreign(each)) is not None:
                return inner
        elif isinstance(each, bool | np.bool_ | np.ma.MaskedArray):
            return each
    return None


def of_type(array: Array, dtype: npt.DTypeLike) -> Array:
    """Return an array in a dtype, without a copy if possible. Numbers beyond the dtype's range become infinite."""
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):
        return array.astype(dtype)


def all_finite(array: Array) -> bool:
    """Return whether all numbers of a floating-point array are finite."""
    if array.size <= SMALL and math.isfinite(np.vdot(array, array)):
        return True
    return bool(np.isfinite(array).all())


def of_shape(
    label: str, value: Any, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64, *, finite: bool = True
) -> Array:
    """Return an argument as an array of a shape and dtype, without a copy if it already is one.

    Args:
        label: The argument, for the error.
        value: The value.
        shape: Expected shape.
        dtype: Number type of the result.
        finite: Whether all numbers must be finite.

    Raises:
        ArgumentTypeError: It does not hold real numbers.
        ArgumentError: It has another shape, or a number that is not finite in the dtype.
    """
    array = real(label, value)
    if array.shape != shape:
        raise ArgumentError(f"{label} has shape {array.shape}; expected {shape}", code="DG-ARG-019")
    own = of_type(array, dtype)
    if finite and not all_finite(own):
        raise ArgumentError(f"{label} is not finite", code="DG-ARG-020")
    return own


def spread(
    label: str,
    value: Any,
    leading: tuple[int, ...],
    shape: tuple[int, ...],
    dtype: npt.DTypeLike = np.float64,
    *,
    shared: bool = False,
) -> Array:
    """Return an argument, broadcast over the batch, as an array (batch, *shape).

    Args:
        label: The argument, for the error.
        value: An array (*leading, *shape), or its last axes as numpy broadcasts them.
        leading: Leading axes of the call.
        shape: Shape for one sample.
        dtype: Number type of the result.
        shared: Whether to return (1, *shape) if the value is the same for the whole batch.

    Raises:
        ArgumentTypeError: It does not hold real numbers.
        ArgumentError: It does not broadcast, or is not finite.
    """
    array = real(label, value)
    own = shape if shared and array.ndim <= len(shape) else (*leading, *shape)
    try:
        whole = array if array.shape == own else np.broadcast_to(array, own)
    except ValueError:
        raise ArgumentError(
            f"{label} has shape {array.shape}; expected {(*leading, *shape)}, or its last axes", code="DG-ARG-021"
        ) from None
    return np.ascontiguousarray(
        of_shape(label, whole, own, dtype).reshape(math.prod(own[: len(own) - len(shape)]), *shape)
    )


UNIT = 1e-5
"""Largest deviation of a quaternion's length from 1: float32 states pass, a forgotten normalization does not."""


def switches(
    label: str, value: Any, leading: tuple[int, ...], shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64
) -> Array:
    """Return an argument of numbers 0 and 1 as `spread` does; all of them 1 if the argument is None.

    Args:
        label: The argument, for the error.
        value: An array (*leading, *shape), or its last axes as numpy broadcasts them; None for 1 everywhere.
        leading: Leading axes of the call.
        shape: Shape for one sample.
        dtype: Number type of the result.

    Raises:
        ArgumentTypeError: It does not hold real numbers.
        ArgumentError: It does not broadcast, or has another number than 0 and 1.
    """
    result = spread(label, 1.0 if value is None else value, leading, shape, dtype)
    if not ((result == 0.0) | (result == 1.0)).all():
        raise ArgumentError(
            f"{label} has numbers other than 0 and 1; expected 1 where a constraint holds, else 0", code="DG-ARG-065"
        )
    return result


def check_unit_vectors(name: str, places: Iterable[tuple[int, int]], flat: npt.NDArray[Any]) -> None:
    """Raise ArgumentError if entries of an input (batch, entries) that must form a unit vector do not have
    length 1.
    """
    for start, stop in places:
        part = flat[:, start:stop]
        squared = np.sum(part * part, axis=1).real
        wrong = np.flatnonzero(np.abs(squared - 1.0) > 2.0 * UNIT)
        if len(wrong):
            k = int(wrong[0])
            raise EntryError(
                f"input '{name}' of sample {{sample}} has at [{start}:{stop}] a quaternion of length "
                f"{np.sqrt(squared[k]):g}; expected 1",
                (k,),
                code="DG-ARG-022",
            )


def check_names(what: str, ports: Sequence[Shaped], inputs: Collection[str], iterations: Collection[str] = ()) -> None:
    """Check the names of a call's inputs.

    Args:
        what: The called function, for the error.
        ports: Expected inputs.
        inputs: Names of the passed inputs.
        iterations: Names of per-iteration inputs.

    Raises:
        ArgumentError: An input is unknown or missing.
        ArgumentTypeError: The inputs do not have names.
    """
    names = [port.name for port in ports]
    for name in inputs:
        if not isinstance(name, str):
            raise ArgumentTypeError(
                f"inputs of {what} are without names; expected arrays by {', '.join(names)}", code="DG-ARG-023"
            )
        if name not in names:
            raise ArgumentError(
                f"{what} has no input '{name}'{nearest(name, names)}; expected {', '.join(names)}", code="DG-ARG-024"
            )
    missing = [port for port in ports if port.name not in inputs]
    if missing:
        raise ArgumentError(
            missing_inputs({port.name: _expected(port, iterations, None) for port in missing}), code="DG-ARG-025"
        )


def missing_inputs(expected: Mapping[str, object]) -> str:
    """Return the text of an error for missing inputs, given the shape of each in words."""
    names, verb = " and ".join(f"'{name}'" for name in expected), "are" if len(expected) > 1 else "is"
    shapes = dict.fromkeys(map(str, expected.values()))
    each = [f"{name} {shape}" for name, shape in expected.items()] if len(shapes) > 1 else list(shapes)
    noun = "shapes" if len(shapes) > 1 else "shape"
    return f"input{'s' if len(expected) > 1 else ''} {names} {verb} missing; expected {noun} {', '.join(each)}"


def leading_axes(
    ports: Sequence[Shaped], arrays: Mapping[str, Any], *, iterations: Collection[str] = (), axes: int | None = None
) -> tuple[int, ...]:
    """Return the leading axes that all arrays share: () for a single sample, (batch,), or more.

    Args:
        ports: The inputs.
        arrays: Array of each input by name.
        iterations: Names of per-iteration inputs, which have an axis of iterations after the leading axes.
        axes: Required number of leading axes; None for any number.

    Raises:
        ArgumentError: An input has another shape, or other leading axes than the inputs before it.
    """
    leading: tuple[int, ...] | None = None
    first, count = "", None
    for port in ports:
        shape = tuple(arrays[port.name].shape)
        before = len(shape) - len(port.shape)
        own = before - (port.name in iterations)
        if own < 0 or shape[before:] != port.shape or axes not in (None, own):
            raise ArgumentError(
                f"input '{port.name}' has shape {shape}; expected {_expected(port, iterations, axes)}",
                code="DG-ARG-026",
            )
        if leading is None:
            leading, first = shape[:own], port.name
        elif shape[:own] != leading:
            raise ArgumentError(
                f"input '{port.name}' has leading axes {shape[:own]} and input '{first}' {leading}; expected the same, "
                "because bound arrays do not broadcast; numpy.broadcast_to repeats a single sample",
                code="DG-ARG-027",
            )
        if port.name in iterations:
            if count not in (None, shape[own]):
                raise ArgumentError(
                    f"input '{port.name}' has {shape[own]} iterations; the inputs before it have {count}: "
                    "expected the same for all",
                    code="DG-ARG-028",
                )
            count = shape[own]
    return leading or ()


def common_axes(
    ports: Sequence[Shaped], arrays: Mapping[str, Any], broadcast: Callable[[Any, tuple[int, ...]], Any]
) -> tuple[Mapping[str, Any], tuple[int, ...]]:
    """Return the arrays of a call with the same leading axes, as numpy broadcasts them, and these axes.

    Args:
        ports: Inputs of the call, in order.
        arrays: Array of each input, (*leading, *shape).
        broadcast: Returns an array in a larger shape, as `numpy.broadcast_to` does.

    Raises:
        ArgumentError: An input has another shape, or the leading axes of two inputs do not broadcast, or they do so in
            two ways: (3,) against (3, 3) fits from the left and from the right.
    """
    leading: tuple[int, ...] | None = None
    is_same = True
    for port in ports:
        shape, own = arrays[port.name].shape, port.shape
        before = len(shape) - len(own)
        if before < 0 or shape[before:] != own:
            raise ArgumentError(
                f"input '{port.name}' has shape {tuple(shape)}; expected {_expected(port, (), None)}", code="DG-ARG-029"
            )
        if leading is None:
            leading = shape[:before]
        elif shape[:before] != leading:
            is_same = False
    if is_same:
        return arrays, tuple(leading or ())
    return _broadcast(ports, arrays, broadcast)


def _broadcast(
    ports: Sequence[Shaped], arrays: Mapping[str, Any], broadcast: Callable[[Any, tuple[int, ...]], Any]
) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Return the arrays of a call in their common shape, as `common_axes` does, where their leading axes differ."""
    axes = {port.name: tuple(arrays[port.name].shape)[: arrays[port.name].ndim - len(port.shape)] for port in ports}
    for (one, own), (other, others) in combinations(axes.items(), 2):
        _check_broadcast(one, own, other, others)
    common = np.broadcast_shapes(*axes.values())
    results = {}
    for port in ports:
        array = arrays[port.name]
        results[port.name] = array if axes[port.name] == common else broadcast(array, (*common, *port.shape))
    return results, common


def _check_broadcast(one: str, own: tuple[int, ...], other: str, others: tuple[int, ...]) -> None:
    """Raise ArgumentError if the leading axes of two inputs do not broadcast, or do so in two ways."""
    fits = _broadcasts(own, others)
    (few, short), (_, long) = sorted(((one, own), (other, others)), key=lambda each: len(each[1]))
    missing = len(long) - len(short)
    fits_from_left = missing > 0 and any(size != 1 for size in short) and _broadcasts((*short, *[1] * missing), long)
    if fits and not fits_from_left:
        return
    texts = f"input '{other}' has leading axes {others} and input '{one}' {own}"
    if not missing or not fits_from_left:
        raise ArgumentError(
            f"{texts}: they do not broadcast; expected the same leading axes, or 1 where they differ", code="DG-ARG-030"
        )
    left, right = ", ".join([":", *["None"] * missing]), ", ".join(["None"] * missing)
    ways = f"{few}[{left}]" if not fits else f"{few}[{left}] or {few}[{right}]"
    wrong = "they fit in two ways" if fits else "they do not broadcast, because numpy aligns the last axes"
    raise ArgumentError(f"{texts}: {wrong}; write {ways}", code="DG-ARG-031")


def _broadcasts(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether numpy broadcasts two shapes."""
    return all(a == b or 1 in (a, b) for a, b in zip(reversed(one), reversed(other), strict=False))


def _expected(port: Shaped, iterations: Collection[str], axes: int | None) -> str:
    """Return the expected shape of an input in words."""
    own = [*(["iterations"] if port.name in iterations else []), *map(str, port.shape)]
    single = "" if axes is not None or port.name in iterations else f", or {port.shape} for a single state"
    return f"({', '.join(['batch', *own])}){single}"


def check_fits(label: str, array: Typed, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise ArgumentError if an array for compiled code has another shape or dtype than expected."""
    if array.shape != shape or array.dtype != dtype:
        raise ArgumentError(f"{label} is {array.dtype} {array.shape}; expected {dtype} {shape}", code="DG-ARG-032")


def check_written(label: str, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check that compiled code can write to an array.

    Args:
        label: The array, for the error.
        array: The array.
        shape: Expected shape.
        dtype: Expected dtype.

    Raises:
        ArgumentTypeError: It is not a numpy array.
        ArgumentError: It has another shape or dtype, or is read-only.
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentTypeError(
            f"{label} is a {type(array).__name__}; expected an array to write to", code="DG-ARG-033"
        )
    check_fits(label, array, shape, dtype)
    if not array.flags.writeable:
        raise ArgumentError(f"{label} is read-only; expected an array to write to", code="DG-ARG-034")
