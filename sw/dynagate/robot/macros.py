"""Robots written with xacro macros, expanded by the `xacro` package.

Macros read other files and environment variables, and their expressions can run any program. Expand only files
that you trust.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING

from dynagate.base.errors import ArgumentTypeError, MissingExtraError
from dynagate.robot.arguments import path_of
from dynagate.robot.errors import RobotError
from dynagate.robot.options import ReadingOptions
from dynagate.robot.robot_xml import check_file
from dynagate.robot.sandbox import read_apart
from dynagate.robot.tree import RobotTree
from dynagate.robot.urdf import read_urdf

if TYPE_CHECKING:
    from typing_extensions import Unpack


def read_xacro(
    path: str | PathLike[str], arguments: Mapping[str, str] | None = None, **options: Unpack[ReadingOptions]
) -> RobotTree:
    """Read a robot from a xacro file.

    Args:
        path: The file.
        arguments: Values of the file's <xacro:arg> elements, by name.
        options: Options of `read_urdf`.

    Raises:
        RobotError: The file is missing or too large, xacro cannot expand it or exceeds the limits of
            `dynagate.robot.sandbox`, or the resulting URDF cannot be read.
        MissingExtraError: The `xacro` package is not installed.
        ArgumentTypeError: An argument has another type.
    """
    path = path_of(path, "from_xacro")
    if not isinstance(arguments, Mapping | None):
        raise ArgumentTypeError(
            f"arguments={arguments!r}; expected a mapping, such as {{'name': 'value'}}", code="DG-URDF-005"
        )
    if importlib.util.find_spec("xacro") is None:
        raise MissingExtraError(
            "macros are expanded by the module 'xacro'; pip install 'dynagate[xacro]'", code="DG-URDF-006"
        )
    check_file(path, "a xacro", f"{path.name}: ")
    mappings = {str(name): str(value) for name, value in (arguments or {}).items()}
    try:
        expanded = read_apart("xacro", expand, str(path.absolute()), mappings)
    except RobotError as error:
        raise RobotError(f"{path.name}: xacro cannot expand it: {error}", code="DG-URDF-007") from None
    return read_urdf(path, expanded=expanded, **options)


def expand(path: str, arguments: dict[str, str]) -> bytes:
    """Return the URDF that a file's macros produce. Raise RobotError with xacro's reason if they cannot be expanded."""
    import xacro

    try:
        text: str = xacro.process_file(path, mappings=arguments).toxml()
    except OSError as error:
        raise RobotError(f"{error.filename}: {error.strerror}", code="DG-URDF-008") from None
    except MemoryError:
        raise
    except Exception as error:  # any type: expressions in the file are code
        why = "macros that call themselves" if "recursion" in str(error) else " ".join(str(error).split())
        raise RobotError(why or type(error).__name__, code="DG-URDF-009") from None
    return text.encode()
