"""Files of robots by their names in the package `robot_descriptions`.

That package has a module for each robot. Importing the module clones the robot's repository with git and provides the
path of the file. A module is imported only if a user asks for its robot.
"""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from dynagate.base.errors import MissingExtraError
from dynagate.base.nearest import nearest
from dynagate.robot.errors import RobotError

PACKAGE = "robot_descriptions"
"""Name of the package."""
FILES = ("URDF_PATH", "MJCF_PATH", "XACRO_PATH")
"""Names of module attributes that hold the path of a robot's file, in order of preference."""


def is_description(name: str) -> bool:
    """Return whether a name has the form of the package's names, such as "panda_description"."""
    return re.fullmatch(r"[a-z0-9_]+_description", name) is not None


def described(name: str) -> Path:
    """Return the path of a robot's file. `name` is a name in the package, such as "panda_description".

    Raises:
        MissingExtraError: The package is not installed.
        RobotError: The package does not have the robot, cannot clone its files, or has no file that can be read.
    """
    if find_spec(PACKAGE) is None:
        raise MissingExtraError(
            f"'{name}' is a name of the package '{PACKAGE}'; pip install {PACKAGE}", code="DG-URDF-001"
        )
    known = [each.name for each in pkgutil.iter_modules(import_module(PACKAGE).__path__) if is_description(each.name)]
    if name not in known:
        raise RobotError(
            f"the package '{PACKAGE}' has no robot '{name}'{nearest(name, known)}; expected one of its {len(known)}",
            code="DG-URDF-002",
        )
    try:
        module = import_module(f"{PACKAGE}.{name}")
    except Exception as error:  # git, the network or the module may fail
        text = " ".join(str(error).split())
        raise RobotError(
            f"the package '{PACKAGE}' cannot fetch '{name}': {text or type(error).__name__}", code="DG-URDF-003"
        ) from None
    for key in FILES:
        if hasattr(module, key):
            return Path(getattr(module, key))
    raise RobotError(
        f"'{name}' of the package '{PACKAGE}' has no file of URDF or MJCF; expected another robot", code="DG-URDF-004"
    )
