"""A box and a ball on flat and sloping ground."""

from __future__ import annotations

import numpy as np
from dynagate import Robot
from dynagate.forces.contact import corners
from dynagate.integrators import Point
from dynagate.robot import Joint, Link

SIZE = (0.3, 0.2, 0.1)
INERTIA = ((0.02, 0.0, 0.0), (0.0, 0.03, 0.0), (0.0, 0.0, 0.04))
BOX = Robot("box", (Link("box", -1, Joint("free", "floating"), 2.0, (0.0, 0.0, 0.0), INERTIA),))
CORNERS = corners("box", SIZE)


def on_slope(degrees: float, height: float = 0.05) -> np.ndarray:
    """A box that lies on a plane through the origin, or above it."""
    angle = np.radians(degrees)
    q = np.zeros(7)
    q[:3] = height * np.array([np.sin(angle), 0.0, np.cos(angle)])
    q[4], q[6] = np.sin(angle / 2), np.cos(angle / 2)
    return q


BALL = Robot("ball", (Link("box", -1, Joint("free", "floating"), 1.0, (0.0, 0.0, 0.0), np.diag([0.004] * 3).tolist()),))
CENTER = (Point("box", (0.0, 0.0, 0.0), 0.1),)
