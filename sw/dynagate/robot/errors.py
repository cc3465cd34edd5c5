"""Errors and warnings of robot descriptions."""

from __future__ import annotations

from dynagate.base.errors import Error


class RobotError(Error, ValueError):
    """A robot description is malformed or unphysical. The text names the link or joint and the error."""


class RobotWarning(UserWarning):
    """A robot description can be read but is probably wrong. The text names the option that corrects it."""
