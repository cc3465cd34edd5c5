"""Checks of the inputs of position-based steps, before any work."""

from __future__ import annotations

from dynagate.base.arguments import is_whole
from dynagate.base.errors import Error
from dynagate.base.upper_limits import MAX_ITERATIONS


class PositionBasedError(Error, ValueError):
    """An error for options or a start that the position-based integrator does not accept."""


def check_whole(name: str, value: object, least: int = 1) -> None:
    """Raise PositionBasedError if a value is not a whole number of at least `least`."""
    if not (is_whole(value) and value >= least):
        raise PositionBasedError(
            f"{name} is {value!r:.60}; expected a whole number, {least} or more", code="DG-ROLLOUT-049"
        )
    if value > MAX_ITERATIONS:
        raise PositionBasedError(f"{name} is {value!r:.60}; expected at most {MAX_ITERATIONS}", code="DG-ROLLOUT-050")


def check_kind(name: str, value: object, kind: type) -> None:
    """Raise PositionBasedError if a value is neither None nor an object of this class."""
    if value is not None and not isinstance(value, kind):
        raise PositionBasedError(f"{name} is {value!r:.60}; expected a {kind.__name__} or None", code="DG-ROLLOUT-051")
