"""Damp joints in addition to the damping in the robot's file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynagate.base.arguments import AT_LEAST_ZERO, one_or_each
from dynagate.base.explained import explained
from dynagate.dynamics.friction import per_dof
from dynagate.dynamics.spatial import Array, array
from dynagate.forces.checks import ForceError
from dynagate.forces.force import Force, ForceContext
from dynagate.robot import Robot


@explained
@dataclass(frozen=True)
class Damping(Force):
    """Damp joints with the torque -c q̇, in addition to the damping in the robot's file.

    Args:
        coefficient: c in N m s/rad or N s/m, 0 or more. One number acts on every joint but floating ones, so that it
            does not brake a free base. A sequence of nv numbers sets every degree of freedom.

    Raises:
        ForceError: A number is negative or not finite.
    """

    coefficient: float | Sequence[float]

    def __post_init__(self) -> None:
        own = one_or_each("damping has coefficient ", self.coefficient, AT_LEAST_ZERO, ForceError)
        object.__setattr__(self, "coefficient", own)

    def check(self, robot: Robot) -> None:
        """Raise ArgumentError if there are neither one nor nv numbers."""
        per_dof("damping", robot, self.coefficient)

    def torque(self, now: ForceContext) -> Array:
        """Return the generalized force (nv,) of the damping."""
        coefficients = per_dof("damping", now.robot, self.coefficient)
        return array([-(rate * c) if c else 0.0 for rate, c in zip(now.qd, coefficients, strict=True)])
