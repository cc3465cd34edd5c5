"""Reject arithmetic with a complete set of named results, with an error that lists the names to use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from dynagate.base.errors import ArgumentTypeError

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_UNARY = ("neg", "pos", "abs")


def fields_in_words(names: Iterable[str]) -> str:
    """Return the attributes that hold the arrays, for the text of an error."""
    return " or ".join(f".{name}" for name in names) or "one of them"


def without_arithmetic(kind: type, names: Callable[[Any], Iterable[str]]) -> None:
    """Make the operators of a class raise ArgumentTypeError.

    Args:
        kind: Class of named results.
        names: Function from an object of this class to the names of its arrays.
    """

    def refused(own: Any, *_: Any) -> NoReturn:
        raise ArgumentTypeError(f"results are no array; write {fields_in_words(names(own))}", code="DG-ARG-039")

    operators = [f"__{side}{name}__" for name in _BINARY for side in ("", "r")]
    for operator in (*operators, *(f"__{name}__" for name in _UNARY)):
        setattr(kind, operator, refused)
