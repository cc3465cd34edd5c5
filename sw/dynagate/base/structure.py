"""Convert content of JSON or TOML to dataclasses, with every field present and of its declared type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from dynagate.base.errors import ArgumentError

T = TypeVar("T")

LARGEST = 2**63
"""Bound of the numbers that a file may hold: they are finite, and whole numbers fit 64 bits."""


def structured(content: Mapping[str, Any], kind: type[T], name: str) -> T:
    """Convert the content of a file to a dataclass.

    Args:
        content: The content.
        kind: The dataclass.
        name: Kind of the content in a word, for the error.

    Raises:
        ArgumentError: Fields are missing, unknown or of another type. 1.0 and true are not whole numbers.
    """
    from cattrs import transform_error

    try:
        return _converter().structure(content, kind)
    except Exception as error:  # cattrs' are of several kinds
        raise ArgumentError("; ".join(transform_error(error, path=name)), code="DG-ARG-045") from None


@cache
def _converter() -> Any:
    from cattrs.preconf.json import make_converter

    converter = make_converter(forbid_extra_keys=True)
    for kind in (str, bool, int, float):
        converter.register_structure_hook(kind, _exactly(kind))
    return converter


def _exactly(kind: type) -> Callable[[Any, Any], Any]:
    """Return a hook that accepts only values of this type: cattrs would make the number 5 of the text "5".

    An integer is also accepted as a float. Numbers outside ±2⁶³ are rejected.
    """

    def structure(value: Any, _: Any) -> Any:
        if type(value) not in ((int, float) if kind is float else (kind,)):
            raise ArgumentError(f"{value!r:.40}; expected {kind.__name__}", code="DG-ARG-046")
        if kind in (int, float) and not -LARGEST <= value < LARGEST:
            raise ArgumentError(f"{value}; expected a number below 2⁶³", code="DG-ARG-047")
        return kind(value)

    return structure
