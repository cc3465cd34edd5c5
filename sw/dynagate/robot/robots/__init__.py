"""Small robots that ship with the package: kinematics and inertia, without meshes."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from dynagate.base.explained import explained
from dynagate.base.nearest import nearest
from dynagate.robot.descriptions import described, is_description
from dynagate.robot.errors import RobotError
from dynagate.robot.model import Robot
from dynagate.robot.options import ReadingOptions
from dynagate.robot.random_chain import random_chain as random_chain
from dynagate.robot.robot_xml import is_mjcf

if TYPE_CHECKING:
    from typing_extensions import Unpack

_FOLDER = Path(__file__).parent


@explained
def names() -> list[str]:
    """Return the names of the robots that ship."""
    return sorted(path.stem for path in _FOLDER.glob("*.urdf"))


@explained
def path(name: str) -> Path:
    """Return the path of a robot's file: one that ships, or one of the package `robot_descriptions`.

    Args:
        name: A name of `names`, or one that ends in _description, such as "panda_description". The package clones the
            files of the latter with git.

    Raises:
        RobotError: There is no such robot; the text lists those that ship.
        MissingExtraError: The name ends in _description, and `robot_descriptions` is not installed.
    """
    if name not in names() and is_description(name):
        return described(name)
    if name not in names():
        raise RobotError(
            f"no shipped robot '{name}'{nearest(name, names())}; expected one of {', '.join(names())}, or a URDF "
            "file's path",
            code="DG-ROBOT-061",
        )
    return _FOLDER / f"{name}.urdf"


SUFFIXES = (".urdf", ".xml", ".mjcf", ".xacro")
"""Endings of robot files."""


@explained
def is_path(text: str) -> bool:
    """Return whether `load` treats a text as a file's path instead of a shipped robot's name."""
    return text.endswith(SUFFIXES) or "/" in text


@explained
def load(name_or_path: str | PathLike[str], **options: Unpack[ReadingOptions]) -> Robot:
    """Load a robot by the name of one that ships, or by the path of its URDF file.

    Args:
        name_or_path: A name that `path` accepts, a `Path`, or a text that ends in one of SUFFIXES or has a slash.
        options: Options of `Robot.from_urdf`.

    Raises:
        RobotError: There is no such robot, or its file cannot be read. MJCF and xacro files need `Robot.from_mjcf` or
            `Robot.from_xacro`, which are for trusted files.
        MissingExtraError: The name ends in _description, and `robot_descriptions` is not installed.
    """
    return Robot.from_urdf(file_of(name_or_path), **options)


@explained
def file_of(name_or_path: str | PathLike[str]) -> str | PathLike[str]:
    """Return the path of the file that `load` reads. Raise RobotError if no robot with this name ships."""
    return path(name_or_path) if isinstance(name_or_path, str) and not is_path(name_or_path) else name_or_path


@explained
def load_trusted(name_or_path: str, **options: Unpack[ReadingOptions]) -> Robot:
    """Load a robot from a trusted file. In addition to `load`, expand .xacro files and read MJCF.

    Such files can run programs and name other files.
    """
    file = Path(file_of(name_or_path))
    if file.suffix == ".xacro":
        return Robot.from_xacro(file, **options)
    if is_mjcf(file):
        return Robot.from_mjcf(file, **options)
    return Robot.from_urdf(file, **options)
