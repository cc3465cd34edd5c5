"""Checks of the parsers' options, before any file is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from dynagate.base.arguments import FINITE, Accepted, number, numbers, shown
from dynagate.base.errors import ArgumentTypeError
from dynagate.robot.errors import RobotError
from dynagate.robot.options import GRAVITY
from dynagate.robot.rotations import NEAR


def path_of(path: str | PathLike[str], reader: str) -> Path:
    """Return the path of a file. Raise ArgumentTypeError if it is neither a text nor a path.

    Args:
        path: The argument of a call.
        reader: Name of the function that was called, for the error.
    """
    if not isinstance(path, str | PathLike) or not isinstance(os.fspath(path), str):
        raise ArgumentTypeError(
            f"{reader}({path!r}); expected the path of a robot's file, a str or Path", code="DG-ROBOT-005"
        )
    return Path(path)


def check_reading(gravity: Any, lock: Any, round_rotations: Any) -> None:
    """Check the options that all parsers share.

    Args:
        gravity: Three finite numbers, m/s².
        lock: Positions by joint, rad or m, or None.
        round_rotations: An angle, rad.

    Raises:
        RobotError: A number is missing or not finite.
        ArgumentTypeError: An option has another type.
    """
    numbers("gravity=", gravity, (3,), GRAVITY, RobotError)
    if not isinstance(lock, Mapping | None):
        raise ArgumentTypeError(
            f"lock={lock!r}; expected positions in rad or m by joint, such as {{'joint': 0.0}}", code="DG-ROBOT-006"
        )
    for joint, position in (lock or {}).items():
        number(
            f"lock of joint {shown(joint)} is ", position, FINITE.called("a finite position in rad or m"), RobotError
        )
    number("round_rotations=", round_rotations, Accepted(f"0 to {NEAR:g} rad", "", 0.0, NEAR), RobotError)
