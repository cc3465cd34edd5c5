"""URDF written with macros -> Robot, through the `xacro` package.

Macros may read other files and environment variables and evaluate expressions: expand none that you do not trust.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING
from xml.parsers.expat import ExpatError

from dynagate.base.errors import MissingExtraError
from dynagate.robot.markup import check_file
from dynagate.robot.model import ReadingOptions, Robot, RobotError

if TYPE_CHECKING:
    from typing_extensions import Unpack


def read_xacro(
    path: str | PathLike[str], arguments: Mapping[str, str] | None = None, **options: Unpack[ReadingOptions]
) -> Robot:
    """Read a robot whose URDF xacro makes. arguments: of the file's <xacro:arg>, by name. options: of `read_urdf`.

    Raises RobotError: the file is missing or too large, xacro cannot expand it, or what it makes is refused as a URDF;
    MissingExtraError without the `xacro` package.
    """
    from dynagate.robot.urdf import read_urdf

    path = Path(path)
    return read_urdf(path, expanded=_expanded(path, arguments or {}), **options)


def _expanded(path: Path, arguments: Mapping[str, str]) -> bytes:
    """The URDF that a file's macros make."""
    try:
        import xacro
    except ImportError:
        raise MissingExtraError("macros are expanded by the module 'xacro'; pip install 'dynagate[xacro]'") from None
    check_file(path, "a xacro", f"{path.name}: ")
    mappings = {str(name): str(value) for name, value in arguments.items()}
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # warnings of files for ROS, coloured
            text: str = xacro.process_file(str(path), mappings=mappings).toxml()
    except OSError as error:
        raise RobotError(f"{path.name}: xacro cannot expand it: {error.filename}: {error.strerror}") from None
    except (xacro.XacroException, ExpatError, RecursionError, ValueError, ImportError) as error:
        why = "macros that call themselves" if "recursion" in str(error) else " ".join(str(error).split())
        raise RobotError(f"{path.name}: xacro cannot expand it: {why}") from None
    return text.encode()
