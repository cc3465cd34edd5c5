"""Explain errors from arguments of wrong types: name the argument and the expected type instead of the
failing line.
"""

from __future__ import annotations

import builtins
import collections.abc
import dataclasses
import functools
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import NO_NUMBERS, is_collection, shown
from dynagate.base.errors import ArgumentTypeError, Error, OutOfMemoryError
from dynagate.base.former_names import CALLS
from dynagate.base.nearest import check_keyword

T = TypeVar("T", bound=Callable[..., Any])

RAW = (TypeError, AttributeError, LookupError, ValueError, ArithmeticError)
"""Errors that Python and numpy raise for arguments of a wrong type or value."""
UNIONS = (typing.Union, types.UnionType)
CALLED = ("__init__", "__call__")
PUBLIC_NAMES = {
    "Ilqr": "dynagate.ilqr",
    "InverseKinematics": "dynagate.inverse_kinematics",
    "Mppi": "dynagate.mppi",
    "PayloadEstimator": "dynagate.payload_estimator",
    "WholeBodyTorque": "dynagate.whole_body_torque",
}
"""Classes that users call by another name -> that name."""
KINDS: dict[object, tuple[Any, str]] = {
    bool: ((bool, np.bool_), "True or False"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a text"),
    None: (types.NoneType, "None"),
    types.NoneType: (types.NoneType, "None"),
    os.PathLike: (os.PathLike, "a path"),
    np.ndarray: (np.ndarray, "an array of numbers"),
    collections.abc.Callable: (collections.abc.Callable, "a function"),
    tuple: ((tuple, list, np.ndarray), "a tuple"),
}
"""Annotations with their accepted types and their description, if it differs from the type's name."""


class _UnfitError(ArgumentTypeError):
    """An argument is not of the type that a signature has."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as an ArgumentTypeError, because the module has no class of this name that pickle could find."""
        restored, (_, *rest) = super().__reduce__()
        return restored, (ArgumentTypeError, *rest)


_UnfitError.__name__ = _UnfitError.__qualname__ = "ArgumentTypeError"
_UnfitError.__module__ = ArgumentTypeError.__module__


FIRST = "_checked_first"
"""Attribute of a function with a check that runs before an unexpected keyword is reported."""


def checking_first(check: Callable[..., object]) -> Callable[[T], T]:
    """Return a decorator that has arguments of a call checked before an unexpected keyword is reported.

    Args:
        check: Function that gets the arguments, whose names are parameters of the decorated function, by name. It
            raises an `Error` if they cannot be used.
    """

    def marked(function: T) -> T:
        setattr(function, FIRST, check)
        return function

    return marked


def explained(thing: T) -> T:
    """Decorate a function, or a class with its methods, to explain arguments of wrong types.

    If a call fails with one of Python's own errors, its arguments are compared with the signature, and TypeError names
    each wrong one and the expected type. A successful call takes no extra time. An `Error` passes unchanged. So does a
    failure although all types are right: that is a bug of the program.
    """
    if not inspect.isclass(thing):
        return typing.cast(T, _explained(thing))
    for name, value in list(vars(thing).items()):
        if name in CALLED or not name.startswith("_"):
            if inspect.isfunction(value):
                setattr(thing, name, _explained(value))
            elif isinstance(value, classmethod | staticmethod):
                setattr(thing, name, type(value)(_explained(value.__func__)))
    return thing


def _explained(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except _UnfitError as error:  # of a function further in: it may have passed on what this one was given
            check_types(function, args, kwargs, error.__cause__)
            raise
        except Error:
            raise
        except MemoryError as error:
            more = f": {error}" if str(error) else ""
            raise OutOfMemoryError(
                f"{_label(function)}() needs more memory than there is{more}; expected fewer states or samples",
                code="DG-ARG-035",
            ) from None
        except RAW as error:
            check_types(function, args, kwargs, error)
            raise

    return called


def check_types(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], cause: BaseException | None = None
) -> None:
    """Raise TypeError if arguments of a call are missing, unexpected or of other types than in the signature.

    Args:
        function: The called function.
        args: Positional arguments.
        kwargs: Keyword arguments.
        cause: Error of the call, if it failed.
    """
    signature = inspect.signature(function)
    label = _label(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        _check_first(function, signature, args, kwargs)
        raise ArgumentTypeError(_unbound(label, signature, args, kwargs), code="DG-ARG-036") from None
    _check(label, _arguments(function, bound), cause)


def _check_first(
    function: Callable[..., Any], signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Raise the error of the arguments that are checked before keywords, if the function has such a check."""
    check = getattr(function, FIRST, None)
    if check is None:
        return
    names = inspect.signature(check).parameters
    try:
        bound = signature.bind_partial(*args, **{name: kwargs[name] for name in kwargs if name in signature.parameters})
    except TypeError:  # there are too many arguments, or one twice
        return
    passed = {name: bound.arguments[name] for name in names if name in bound.arguments}
    if all(name in passed or parameter.default is not parameter.empty for name, parameter in names.items()):
        check(**passed)


def check_fields(options: object) -> None:
    """Raise TypeError if fields of a dataclass of options have other types than declared.

    It is for options that are read only after work has begun.
    """
    kind = type(options)
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}  # type: ignore[arg-type]
    check_options(kind.__name__, kind, values)


def check_options(call: str, kind: type, values: Mapping[str, Any]) -> None:
    """Raise TypeError if options have other types than the fields of a dataclass.

    Args:
        call: The call that received them, for the error.
        kind: The dataclass.
        values: The options by name.
    """
    arguments = []
    for name, value in values.items():
        (owner, *_) = (each for each in kind.__mro__ if name in inspect.get_annotations(each))
        annotation = _evaluated(inspect.get_annotations(owner)[name], vars(sys.modules[owner.__module__]))
        arguments.append((name, value, annotation))
    _check(call, arguments, None)


def _check(label: str, arguments: Iterable[tuple[str, Any, Any]], cause: BaseException | None) -> None:
    """Raise an error that lists all arguments whose values do not match their annotations.

    Args:
        label: Name of the called function or class, for the error.
        arguments: Name, value and annotation of each argument.
        cause: Exception that the call raised, if any; it becomes the cause of the error.
    """
    wrong = [
        f"{name}={shown(value)}; expected {in_words(annotation)}"
        for name, value, annotation in arguments
        if not matches(value, annotation)
    ]
    if wrong:
        raise _UnfitError(f"{label}() got {'; '.join(wrong)}", code="DG-ARG-037") from cause


def _label(function: Callable[..., Any]) -> str:
    """Return the name by which a user calls a function: a method with its class, or the class for its
    constructor.
    """
    *owner, name = function.__qualname__.rpartition("<locals>.")[2].split(".")
    owner = [PUBLIC_NAMES.get(each, each) for each in owner]
    return ".".join([*owner, *([] if owner and name in CALLED else [name])])


def _unbound(label: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return why the arguments of a call do not fit the signature."""
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    count = len(args) - (len(parameters) < len(signature.parameters))
    placed = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    named = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        for name in kwargs:
            check_keyword(label if label in PUBLIC_NAMES.values() else label.rpartition(".")[2], name, named)
    takes = ", ".join(each.name for each in placed) or "none"
    if count > len(placed):
        now = f"; {CALLS[label]}" if label in CALLS else ""
        return f"{label}() got {count} arguments without names; expected at most {len(placed)}: {takes}{now}"
    twice = [each.name for each in placed[:count] if each.name in kwargs]
    if twice:
        return f"{label}() got {twice[0]} twice; expected it once"
    single = (each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL))
    needed = [each for each in single if each.default is each.empty]
    lacking = [each.name for each in needed if each not in placed[:count] and each.name not in kwargs]
    return f"{label}() without {', '.join(lacking)}; expected {', '.join(each.name for each in needed)}"


def _arguments(function: Callable[..., Any], bound: inspect.BoundArguments) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, value and declared type of each argument, without a method's own object."""
    space = inspect.unwrap(function).__globals__
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if name in ("self", "cls"):
            continue
        annotation = _evaluated(parameter.annotation, space)
        if parameter.kind is parameter.VAR_KEYWORD:
            yield from ((each, one, annotation) for each, one in value.items())
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            yield name, value, annotation


class _Later(type):
    """The class of types that a module imports only for type checkers."""

    def __getitem__(cls, item: object) -> Any:
        return Any


class _Names(dict[str, Any]):
    """Namespace to resolve annotations. A name that a module imports only for type checkers becomes a class of this
    name.
    """

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            return getattr(builtins, name)
        return _Later(name, (), {})


def _evaluated(annotation: Any, space: dict[str, Any]) -> Any:
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, {}, _Names(space))  # our own signature's text
    except (TypeError, AttributeError, SyntaxError):
        return Any


def matches(value: Any, annotation: Any) -> bool:
    """Return whether a value matches an annotation. An annotation that cannot be checked matches."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any:
        return True
    if annotation is npt.ArrayLike:
        return _is_array(value)
    if origin in UNIONS:
        return any(matches(value, each) for each in inner)
    if origin is typing.Literal:
        return any(type(each) is type(value) and each == value for each in inner)
    if isinstance(annotation, _Later):
        return any(each.__name__ == annotation.__name__ for each in type(value).__mro__)
    kind = origin or annotation
    if kind in KINDS:
        fits = isinstance(value, KINDS[kind][0]) and (kind not in (int, float) or not isinstance(value, NO_NUMBERS))
    elif not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    else:
        fits = isinstance(value, (kind, np.ndarray) if issubclass(kind, Sequence) and kind is not str else kind)
    return fits and _holds(value, kind, inner)


def _holds(value: Any, kind: Any, inner: tuple[Any, ...]) -> bool:
    """Return whether the entries of a container have the declared types. A text is not a container of texts."""
    if not (isinstance(kind, type) and issubclass(kind, Iterable) and kind not in (str, np.ndarray)):
        return True
    if isinstance(value, str | bytes) or not is_collection(value):
        return False
    if isinstance(value, Mapping):
        return len(inner) != 2 or all(matches(k, inner[0]) and matches(x, inner[1]) for k, x in value.items())
    if kind is tuple and inner[-1:] != (...,):
        return len(value) == len(inner) and all(map(matches, value, inner))
    return not inner or all(matches(each, inner[0]) for each in value)


def _is_array(value: Any) -> bool:
    """Return whether numpy can convert a value to an array of real numbers, or it is on a GPU."""
    if hasattr(value, "__cuda_array_interface__"):
        return True
    try:
        return np.asarray(value).dtype.kind in "fiu"
    except (ValueError, TypeError, RuntimeError):
        return False


def in_words(annotation: Any) -> str:
    """Return a type in the words of an error message."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is npt.ArrayLike:
        return "an array of numbers"
    if origin is typing.Literal:
        return " or ".join(map(repr, inner))
    if origin in UNIONS:
        each = dict.fromkeys(in_words(one) for one in sorted(inner, key=lambda one: one is types.NoneType))
        *others, last = each
        return f"{', '.join(others)} or {last}" if others else last
    kind = origin or annotation
    if kind in KINDS:
        return KINDS[kind][1]
    name = kind.__name__ if isinstance(kind, type) else str(kind)
    if origin is None or not issubclass(origin, Collection):
        return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
    return f"a {name.lower()}"
