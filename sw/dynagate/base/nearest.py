"""The name that was meant, where another one is asked for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import ParamSpec, TypeVar

from dynagate.base.errors import ArgumentTypeError

ALIKE = 0.7
"""Of two names that may be meant for each other, the ratio of `difflib`."""

P = ParamSpec("P")
T = TypeVar("T")


def nearest(name: object, known: Iterable[str]) -> str:
    """A question to put after a name that is not known: " (did you mean 'x'?)", or "" where none is near."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(str(name).lower(), by_lower, n=1, cutoff=ALIKE)
    return f" (did you mean '{by_lower[close[0]]}'?)" if close else ""


def check_keyword(function: str, name: str, known: Iterable[str], what: str = "") -> None:
    """Raises TypeError: a function has no keyword of this name. known: those that it has. what: it has these for."""
    names = list(known)
    if name not in names:
        here = f"for {what} one of" if what else "one of"
        raise ArgumentTypeError(
            f"{function}() got an unexpected keyword argument '{name}'{nearest(name, names)}; expected {here} "
            f"{', '.join(names)}"
        )


def keywords_checked(function: Callable[P, T]) -> Callable[P, T]:
    """A function that names its keywords where it is called by another one."""
    parameters = inspect.signature(function).parameters
    named = [p.name for p in parameters.values() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    listed = [name for name in named if name not in ("self", "cls")]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            check_keyword(function.__name__, name, listed)
        return function(*args, **kwargs)

    return checked
