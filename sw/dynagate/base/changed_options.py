"""Find which options of a call differ from their defaults, whether passed as keywords or in one object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from inspect import signature
from typing import Any, TypeVar

from dynagate.base.arguments import equal

T = TypeVar("T")


def changed_options(options: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Return the options that are set and differ from their defaults.

    Args:
        options: (value, default) of each option by its name. A value of None means that the option is not set.
    """
    return {
        name: value
        for name, (value, default) in options.items()
        if value is not None and not (equal(value, default) and type(value) is type(default))
    }


def changed_in_call(call: Callable[..., Any], arguments: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the options of a call that differ from the defaults in its signature.

    Args:
        call: The function that was called.
        arguments: All arguments of the call by name: `locals()` in the first line of the function.
        names: Names of the options.
    """
    parameters = signature(call).parameters
    return changed_options({name: (arguments[name], parameters[name].default) for name in names})


def of_call(kind: type[T], arguments: Mapping[str, Any], **others: Any) -> T:
    """Return the options of a call in one object.

    Args:
        kind: Dataclass of the options.
        arguments: All arguments of the call by name: `locals()` in the first line of the function. Those that have the
            names of fields are the options.
        others: Options that replace those among the arguments.
    """
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{**{name: value for name, value in arguments.items() if name in names}, **others})
