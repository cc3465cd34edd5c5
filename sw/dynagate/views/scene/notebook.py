"""Pictures of robots and motions that a notebook shows next to their tables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dynagate.dynamics.configuration import neutral
from dynagate.robot import Robot
from dynagate.views.scene.scene import scene_of
from dynagate.views.scene.vector import svg

WIDTH, HEIGHT = 480, 360
FRAMES = 32
"""Largest number of frames of a motion in a notebook's table."""


def robot_svg(robot: Robot) -> str:
    """Return a picture of a robot in the middle of its joints' ranges, as SVG."""
    q = neutral(robot)
    low, high = robot.lower, robot.upper
    bounded = np.isfinite(low) & np.isfinite(high)
    for part in robot.quaternions():
        bounded[part] = False
    q[bounded] = 0.5 * (low + high)[bounded]
    return svg(scene_of(robot, q, dt=1.0, most=1), WIDTH, HEIGHT)


def motion_svg(robot: Robot, q: npt.ArrayLike, dt: float) -> str:
    """Return an SVG that moves, of motions (steps, nq) or (batch, steps, nq), rad and m. dt: time between steps, s."""
    return svg(scene_of(robot, q, dt=dt, most=FRAMES), WIDTH, HEIGHT)
