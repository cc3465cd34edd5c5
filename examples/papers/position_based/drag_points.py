"""Drag as forces on points, for loops over links, and as the paper prints it."""

from __future__ import annotations

import numpy as np
from dynagate.forces.drag import Drag
from dynagate.robot import Robot

from examples.papers.position_based.inputs import check_positive
from examples.papers.position_based.links import Floats


def printed(coefficient: float, dt: float, density: float = 1000.0) -> Drag:
    """Q = D |ΔP/dt|² for each m³ as the paper of 2018 has it: the viscosity is 2 D/dt in all directions. Raises
    PositionBasedError: dt."""
    check_positive("dt", dt)
    return Drag((2.0 * coefficient / dt, 2.0 * coefficient / dt), density)


def drag_points(robot: Robot, drag: Drag) -> tuple[list[int], Floats, Floats]:
    """Links (points,), positions (points, 3) and matrices (points, 3, 3) in N s/m of points whose drag is the links'.

    Each link with mass has six, on its principal axes through the center of mass at √3 times the radius of
    gyration: sums over them have the volume's moments up to the second, so the energy is exact.
    """
    links: list[int] = []
    positions: list[Floats] = []
    matrices: list[Floats] = []
    for i, link in enumerate(robot.links):
        if link.mass == 0.0:
            continue
        second = np.array(link.second_moment()) - link.mass * np.outer(link.com, link.com)
        moments, axes = np.linalg.eigh(second / link.mass)
        for moment, axis in zip(moments, axes.T, strict=True):
            for side in (-1.0, 1.0):
                links.append(i)
                positions.append(np.array(link.com) + side * np.sqrt(3.0 * max(moment, 0.0)) * axis)
                matrices.append(drag.matrix() * (link.mass / drag.density / 6.0))
    return links, np.array(positions).reshape(-1, 3), np.array(matrices).reshape(-1, 3, 3)
