"""Whether an argument is a robot or a design."""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

from dynagate.design.files import FILE
from dynagate.robot import Robot, robots


def names_robot(what: Any) -> bool:
    """Return whether a text or path is for a robot: a robot's file, or a name that no folder has.

    A name that ships is the robot, also if a folder has the same name. For the folder write "./iiwa14".

    Args:
        what: Argument of a call.

    Returns:
        True if it is for a robot.
    """
    if not isinstance(what, str | PathLike):
        return False
    text = os.fspath(what)
    if text.endswith(robots.SUFFIXES):
        return not os.path.isdir(text)
    is_name = isinstance(what, str) and not robots.is_path(text)
    return is_name and (text in robots.names() or not os.path.exists(text))


def names_design(what: Any) -> bool:
    """Return whether an argument is a design: what `dynagate.build` returned, its folder or the record in it.

    Args:
        what: Argument of a call.

    Returns:
        True if it is a design.
    """
    if isinstance(what, str | PathLike):
        text = os.fspath(what)
        is_record = os.path.basename(text) == FILE
        return is_record or (not names_robot(what) and os.path.isdir(text))
    return hasattr(what, "design") and hasattr(what, "folder")


def is_robot(what: Any) -> bool:
    """Return whether an argument is surely a robot: an object, a name that ships or the path of a robot's file.

    Args:
        what: Argument of a call.

    Returns:
        True if it is a robot.
    """
    if isinstance(what, str | PathLike):
        text = os.fspath(what)
        return names_robot(what) and (text.endswith(robots.SUFFIXES) or text in robots.names())
    return isinstance(what, Robot)
