"""Numbers that forces are made of: checked, and shown in errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

from dynagate.base.arguments import is_number
from dynagate.base.errors import ArgumentError, Error


class ForceError(Error, ValueError):
    """A force that has no meaning, or none for this robot or method. The text names the force and its parameter."""


def is_finite(value: object) -> bool:
    """Whether a value is a number, and finite. True and False are none."""
    return is_number(value) and math.isfinite(value)


def are_finite(values: Any, count: int) -> bool:
    """Whether values are so many finite numbers."""
    try:
        return len(values) == count and all(is_finite(value) for value in values)
    except TypeError:
        return False


def shown(value: object) -> str:
    """A value in an error's text."""
    return f"{value:g}" if isinstance(value, Real) else f"{value!r:.60}"


def check_at_least_zero(force: str, **numbers: object) -> None:
    """Raises ForceError naming a parameter that is no finite number of 0 or more."""
    for name, value in numbers.items():
        if not (is_finite(value) and value >= 0.0):  # type: ignore[operator]
            raise ForceError(f"{force} has {name} {shown(value)}; expected a finite number, 0 or more")


def check_above_zero(force: str, **numbers: object) -> None:
    """Raises ForceError naming a parameter that is no finite number above 0."""
    for name, value in numbers.items():
        if not (is_finite(value) and value > 0.0):  # type: ignore[operator]
            raise ForceError(f"{force} has {name} {shown(value)}; expected a finite number above 0")


def check_power(force: str, name: str, value: float) -> None:
    """Raises ForceError: an exponent that is no whole number of 1 or more, which a graph has no operation for."""
    if not (is_finite(value) and value >= 1.0 and value % 1.0 == 0.0):
        raise ForceError(f"{force} has {name} {shown(value)}; expected a whole number, 1 or more")


def per_dof(force: str, name: str, value: float | Sequence[float], nv: int) -> list[float]:
    """A number of each degree of freedom. Raises ValueError: there are others than one or nv."""
    if not isinstance(value, Sequence):
        return [float(value)] * nv
    if len(value) != nv:
        raise ArgumentError(f"{force} has {len(value)} numbers as {name}; expected one, or {nv}")
    return [float(x) for x in value]
