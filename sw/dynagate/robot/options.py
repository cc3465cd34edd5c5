"""Options of the readers of robot files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from dynagate.base.arguments import FINITE
from dynagate.robot.vectors import Vector3

GRAVITY = FINITE.called("", "finite numbers in m/s²")
"""Range of each number of gravity, in the words of errors."""


class ReadingOptions(TypedDict, total=False):
    """The options of `dynagate.robot.urdf.read_urdf`, which explains them."""

    floating_base: bool
    gravity: Vector3
    lock: Mapping[str, float] | None
    damping: bool
    ignore_friction: bool
    allow_unphysical: bool
    unlimited: bool
    lax: bool
    round_rotations: float
