"""Parser selection by the ending and content of a robot's file."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from dynagate.base.arguments import check_flags
from dynagate.base.errors import ArgumentTypeError
from dynagate.robot.errors import RobotError
from dynagate.robot.macros import read_xacro
from dynagate.robot.mjcf import read_mjcf
from dynagate.robot.options import ReadingOptions
from dynagate.robot.robot_xml import is_mjcf
from dynagate.robot.tree import RobotTree
from dynagate.robot.urdf import read_urdf


def read_file(
    path: str | PathLike[str], trust: bool, arguments: Mapping[str, str] | None, options: ReadingOptions
) -> RobotTree:
    """Return the robot of a file, with the arguments and errors of `Robot.from_file`. `options` holds the options that
    are set.
    """
    check_flags(trust=trust)
    if not isinstance(path, str | PathLike):
        raise ArgumentTypeError(f"path={path!r:.60}; expected the path of a robot's file", code="DG-ROBOT-041")
    file = Path(path)
    is_xacro = file.suffix == ".xacro"
    if arguments is not None and not is_xacro:
        raise RobotError(
            f"arguments= for {file.name}; expected a .xacro file, whose macros take arguments", code="DG-ROBOT-042"
        )
    if not (is_xacro or is_mjcf(file)):
        return read_urdf(file, **options)
    if not trust:
        risk = "can run any program" if is_xacro else "names files that MuJoCo opens"
        kind = "xacro" if is_xacro else "MJCF"
        raise RobotError(
            f"{file.name} is {kind}, which {risk}; expected trust=True for a file that you trust, or URDF",
            code="DG-ROBOT-043",
        )
    return read_xacro(file, arguments, **options) if is_xacro else read_mjcf(file, **options)
