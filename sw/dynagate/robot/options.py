"""Options that all parsers of robot files share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from dynagate.base.arguments import FINITE
from dynagate.robot.vectors import Vector3

GRAVITY = FINITE.called("", "finite numbers in m/s²")
"""Range of each number of gravity, for errors."""


class ReadingOptions(TypedDict, total=False):
    """Options of `dynagate.robot.urdf.read_urdf`, which documents them."""

    floating_base: bool
    gravity: Vector3
    lock: Mapping[str, float] | None
    damping: bool
    ignore_friction: bool
    allow_unphysical: bool
    unlimited: bool
    lax: bool
    round_rotations: float
