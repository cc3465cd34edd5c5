"""Collection of all errors in a robot file, so that one exception lists them with the options that accept them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from dynagate.base.errors import with_code
from dynagate.base.warned import warn
from dynagate.robot.errors import RobotError, RobotWarning
from dynagate.robot.tree import RobotTree

MAX_LISTED = 10
"""Largest number of errors that an exception lists."""


class FileErrors:
    """Errors found in a file. Reading continues after each, so that one exception lists all of them.

    Args:
        lock: Positions of the joints that the caller already locks.
    """

    def __init__(self, lock: Mapping[str, float]) -> None:
        self._lines: list[tuple[str, str]] = []  # text and code of each error
        self._options: dict[str, Any] = {}
        self._without_option = 0
        self._given = {joint: float(position) for joint, position in lock.items()}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, text: str, *, code: str = "", lock: Mapping[str, float] | None = None, **options: bool) -> None:
        """Add an error and the options of the parser that accept it.

        Args:
            text: What is wrong. It may quote the error that is being handled, whose code it then keeps.
            code: Stable code of the error.
            lock: Joints to hold, with the position of each, in rad or m.
            **options: Other options.
        """
        error = RobotError(text, code=code)
        self._lines.append((error.text, error.code))
        if not options and lock is None:
            self._without_option += 1
        self._options |= options
        if lock is not None:
            self._options["lock"] = {**self._given, **self._options.get("lock", {}), **lock}

    def error(self) -> RobotError:
        """Return one error for all that was added. Each line of several errors ends with its own code."""
        purpose = "to accept the others" if self._without_option else "to read it"
        python = ", ".join(f"{name}={value!r}" for name, value in self._options.items())
        if len(self._lines) == 1:
            ((text, code),) = self._lines
            advice = f"; {purpose}, add {python} ({self._flags()})" if self._options else ""
            return RobotError(text + advice, code=code)
        listed = [with_code(text, code) for text, code in self._lines[:MAX_LISTED]]
        if len(self._lines) > MAX_LISTED:
            listed.append(f"and {len(self._lines) - MAX_LISTED} more")
        text = "\n  ".join([f"{len(self._lines)} errors:", *listed])
        advice = f"\n{purpose}, add {python}\non the command line {self._flags()}" if self._options else ""
        return RobotError(text + advice, code="DG-ROBOT-039")

    def _flags(self) -> str:
        """Return the collected options as they are written on the command line."""
        flags = []
        for name, value in self._options.items():
            if isinstance(value, Mapping):
                flags += [f"--{name} {shlex.quote(f'{joint}={position!r}')}" for joint, position in value.items()]
            else:
                flags.append(f"--{name.replace('_', '-')}")
        return " ".join(flags)


def warn_of_friction(file: str, robot: RobotTree) -> None:
    """Issue a RobotWarning if joints have Coulomb friction, which functions and motions include only on request."""
    joints = [link.joint.name for link in robot.links if link.joint.friction]
    if joints:
        more = f" and {len(joints) - 1} more" if joints[1:] else ""
        warn(
            f"{file}: Coulomb friction of joint '{joints[0]}'{more} acts with forces=[dynagate.forces.Friction()] "
            "(--force friction) only; ignore_friction=True (--ignore-friction) reads the robot without",
            RobotWarning,
            code="DG-ROBOT-040",
        )
