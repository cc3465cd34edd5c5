"""What readers of robot files are told, checked before any file is opened."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dynagate.base.errors import ArgumentTypeError
from dynagate.robot.model import RobotError
from dynagate.robot.rotations import NEAR


def path_of(path: str | PathLike[str], reader: str) -> Path:
    """The path of a file. reader: the function that gets it. Raises TypeError: it is neither a text nor a path."""
    if not isinstance(path, str | PathLike) or not isinstance(os.fspath(path), str):
        raise ArgumentTypeError(f"{reader}({path!r}); expected the path of a robot's file, a str or Path")
    return Path(path)


def check_reading(gravity: Any, lock: Any, round_rotations: Any) -> None:
    """Checks the options of readers. gravity: three finite numbers, m/s². lock: positions by joint, rad or m, or None.
    round_rotations: rad. Raises RobotError or TypeError that names the option."""
    is_row = isinstance(gravity, Sequence) or (isinstance(gravity, np.ndarray) and gravity.ndim == 1)
    if not (is_row and len(gravity) == 3 and all(finite(g) for g in gravity)):
        raise RobotError(f"gravity={gravity}; expected three finite numbers in m/s²")
    if not isinstance(lock, Mapping | None):
        raise ArgumentTypeError(f"lock={lock!r}; expected positions in rad or m by joint, such as {{'joint': 0.0}}")
    for joint, position in (lock or {}).items():
        if not finite(position):
            raise RobotError(f"lock={{'{joint}': {position}}}; expected a finite position in rad or m")
    if not finite(round_rotations) or not 0.0 <= round_rotations <= NEAR:
        raise RobotError(f"round_rotations={round_rotations}; expected 0 to {NEAR:g} rad")


def finite(value: Any) -> bool:
    """Whether an option's value is a finite number."""
    return isinstance(value, int | float | np.floating | np.integer) and math.isfinite(value)
