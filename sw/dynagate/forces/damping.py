"""Damping of joints: what a robot's file does not say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynagate.base.explained import explained
from dynagate.dynamics.spatial import Array, array
from dynagate.forces.checks import check_at_least_zero, per_dof
from dynagate.forces.force import Force, Now
from dynagate.robot import Robot


@explained
@dataclass(frozen=True)
class Damping(Force):
    """-c q̇, besides the damping in the robot's file. coefficient: N m s/rad or N s/m, one for all degrees of freedom or
    one for each. Raises ForceError: below 0 or not finite."""

    coefficient: float | Sequence[float]

    def __post_init__(self) -> None:
        if isinstance(self.coefficient, Sequence):
            object.__setattr__(self, "coefficient", tuple(self.coefficient))
        for c in self.coefficient if isinstance(self.coefficient, Sequence) else (self.coefficient,):
            check_at_least_zero("damping", coefficient=c)

    def check(self, robot: Robot) -> None:
        """Raises ValueError: there are other numbers than one or nv."""
        per_dof("damping", "coefficient", self.coefficient, robot.nv)

    def torque(self, now: Now) -> Array:
        coefficients = per_dof("damping", "coefficient", self.coefficient, now.robot.nv)
        return array([-(rate * c) if c else 0.0 for rate, c in zip(now.qd, coefficients, strict=True)])
