"""Drag of a fluid at rest on every part of every link."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import ABOVE_ZERO, AT_LEAST_ZERO, FINITE, numbers, shown
from dynagate.base.errors import Error
from dynagate.base.explained import explained
from dynagate.base.naming import scope
from dynagate.dynamics.spatial import Array, array, cross, skew, symmetric
from dynagate.forces.checks import check_numbers
from dynagate.forces.force import Force, ForceContext, Wrench
from dynagate.robot import Robot
from dynagate.robot.variable import COM, INERTIA, INERTIAL, MASS, check_constant
from dynagate.robot.vectors import Vector3

Floats = npt.NDArray[np.float64]


class DragError(Error, ValueError):
    """A drag that has no meaning. The text names the parameter and its range."""


@explained
@dataclass(frozen=True)
class Drag(Force):
    """Brake every part of every link against its velocity, in proportion to its volume.

    Equal drag along and across a link moves no swimmer: its impulse over a cycle of shapes is zero.

    Args:
        viscosity: N s/m for each m³ of volume, along and across `direction`.
        density: kg/m³, from which a link's mass gives its volume.
        direction: Unit vector (3,) in the frame of each link.

    Raises:
        DragError: A number is out of range.
    """

    viscosity: tuple[float, float]
    density: float = 1000.0
    direction: Vector3 = (1.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        for name, count, accepted in (("viscosity", 2, AT_LEAST_ZERO), ("direction", 3, FINITE)):
            own = numbers(f"drag has {name} ", getattr(self, name), (count,), accepted, DragError)
            object.__setattr__(self, name, tuple(own.tolist()))
        check_numbers(self, "drag", DragError, density=ABOVE_ZERO)
        if not abs(math.hypot(*self.direction) - 1.0) < 1e-9:
            raise DragError(f"drag has direction {shown(self.direction)}; expected a unit vector", code="DG-FORCE-002")

    def check(self, robot: Robot) -> None:
        """Raise RobotError if the mass distribution of a link is an input, since the drag has its numbers as
        constants.
        """
        check_constant(robot, "Drag", (INERTIAL, MASS, COM, INERTIA))

    def matrix(self) -> Floats:
        """Return the drag (3, 3) in N s/m for each m³, in the link's frame."""
        line = np.outer(self.direction, self.direction)
        return self.viscosity[0] * line + self.viscosity[1] * (np.eye(3) - line)

    def torque(self, now: ForceContext) -> Array:
        """Return the generalized force (nv,) of the drag."""
        wrenches = []
        for i, link in enumerate(now.tree.source.links):
            if link.mass == 0.0:
                continue
            with scope(f"link{i}"):
                turn = now.tree.to_file_axes[i].T  # from the axes of the robot's file to the tree's
                rotation, position = now.poses[i]
                to_base = rotation @ turn
                center = position + rotation @ now.tree.point(i, link.com)
                slowed = array(self.matrix() * (link.mass / self.density))
                force = -(to_base @ (slowed @ (to_base.T @ now.velocity(i, center))))
                spun = array(self._turning(np.array(link.second_moment()), link.mass, np.array(link.com)))
                moment = -(to_base @ (spun @ (to_base.T @ now.motions[i].angular)))
                wrenches.append((i, Wrench(moment + cross(center, force), force)))
        return now.pushed(wrenches)

    def _turning(self, second: Floats, mass: float, com: Floats) -> Floats:
        """Return K (3, 3), N m s, in the link's frame: the moment about the center of mass is -K ω, K = ∫ [r]×ᵀ D [r]×
        dV.
        """
        moments, axes = np.linalg.eigh((second - mass * np.outer(com, com)) / self.density)
        crosses = (skew(axis).astype(np.float64) for axis in axes.T)
        total: Floats = sum(max(m, 0.0) * x.T @ self.matrix() @ x for m, x in zip(moments, crosses, strict=True))
        return symmetric(lambda a, b: total[a, b]).astype(np.float64)
