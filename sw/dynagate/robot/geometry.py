"""Shapes and poses in URDF files."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dynagate.base.arrays import Floats
from dynagate.robot.errors import RobotError
from dynagate.robot.robot_xml import numbers, only
from dynagate.robot.rotations import Rounding, matrix_of

UNIT = 1e-4
"""Largest deviation from 1 of the length of a quaternion in a file."""

SIZES: dict[str, tuple[tuple[str, int], ...]] = {
    "box": (("size", 3),),
    "sphere": (("radius", 1),),
    "cylinder": (("radius", 1), ("length", 1)),
    "capsule": (("radius", 1), ("length", 1)),
}
"""Kind of a shape -> its attributes, and how many numbers each has."""


def sizes_of(element: Any, where: str) -> tuple[float, ...]:
    """Return the sizes of a <geometry> element whose tag is in `SIZES`, m. Raise RobotError if a number is missing."""
    return tuple(float(x) for key, count in SIZES[element.tag] for x in numbers(element, key, where, count))


def origin_of(element: Any, where: str, rounding: Rounding) -> tuple[Floats, Floats]:
    """Return the rotation (3, 3) and translation (3,), m, of an element's <origin>, or the identity if it has none.

    Raises:
        RobotError: There are several origins, or they are not numbers.
    """
    return pose_of(only(element, "origin", where), where, rounding)


def pose_of(origin: Any, where: str, rounding: Rounding) -> tuple[Floats, Floats]:
    """Return the rotation (3, 3) and translation (3,), m, of an <origin>, or the identity for None.

    Raises:
        RobotError: The origin does not hold numbers.
    """
    if origin is None:
        return np.eye(3), np.zeros(3)
    xyz, rpy = (
        numbers(origin, key, where, 3) if origin.get(key) is not None else np.zeros(3) for key in ("xyz", "rpy")
    )
    if origin.get("quat_xyzw") is None:
        return rounding.from_rpy(rpy.tolist(), where), xyz
    if origin.get("rpy") is not None:
        raise RobotError(
            f"{where} has an <{origin.tag}> with rpy and quat_xyzw; expected one of them", code="DG-ROBOT-044"
        )
    x, y, z, w = numbers(origin, "quat_xyzw", where, 4)
    if not abs(math.hypot(x, y, z, w) - 1.0) <= UNIT:
        raise RobotError(
            f"{where} has quat_xyzw of length {math.hypot(x, y, z, w):.9g}; expected 1", code="DG-ROBOT-045"
        )
    return rounding.rotation(matrix_of(np.array([w, x, y, z])), where), xyz
