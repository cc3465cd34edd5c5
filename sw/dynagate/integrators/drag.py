"""Drag of a fluid at rest, as a function of positions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dynagate.base.errors import Error
from dynagate.integrators.position_based_inputs import are_finite, check_positive, is_finite, shown
from dynagate.integrators.position_based_links import Floats
from dynagate.robot import Robot
from dynagate.robot.model import Vector3


class DragError(Error, ValueError):
    """A drag that has no meaning. The text names the parameter and its range."""


@dataclass(frozen=True)
class Drag:
    """A force against the velocity of every part of every link, in proportion to its volume.

    viscosity: N s/m for each m³, along and across the link's `direction` (a unit vector in its frame). density:
    kg/m³, by which a link's mass gives its volume. Equal drag along and across moves no swimmer: its impulse over
    a cycle of shapes is zero.
    """

    viscosity: tuple[float, float]
    density: float = 1000.0
    direction: Vector3 = (1.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        if not (are_finite(self.viscosity, 2) and min(self.viscosity) >= 0.0):
            raise DragError(f"drag has viscosity {self.viscosity}; expected two finite numbers, 0 or more")
        if not (is_finite(self.density) and self.density > 0.0):
            raise DragError(f"drag has density {shown(self.density)}; expected a finite number above 0")
        if not (are_finite(self.direction, 3) and abs(math.hypot(*self.direction) - 1.0) < 1e-9):
            raise DragError(f"drag has direction {self.direction}; expected a unit vector")

    @classmethod
    def printed(cls, coefficient: float, dt: float, density: float = 1000.0) -> Drag:
        """Q = D |ΔP/dt|² for each m³ as the paper of 2018 has it: the viscosity is 2 D/dt in all directions. Raises
        PositionBasedError: dt."""
        check_positive("dt", dt)
        return cls((2.0 * coefficient / dt, 2.0 * coefficient / dt), density)

    def matrix(self) -> Floats:
        """N s/m for each m³ (3, 3), in the link's frame."""
        line = np.outer(self.direction, self.direction)
        return self.viscosity[0] * line + self.viscosity[1] * (np.eye(3) - line)


def drag_points(robot: Robot, drag: Drag) -> tuple[list[int], Floats, Floats]:
    """Links (points,), positions (points, 3) and matrices (points, 3, 3) in N s/m of points whose drag is the links'.

    Each link with mass has six, on its principal axes through the centre of mass at √3 times the radius of
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
