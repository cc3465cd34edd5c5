"""Coulomb friction of joints as a force, by the law of `dynamics.friction`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.dynamics.friction import SPEED, check_friction, friction_in, friction_of
from dynagate.dynamics.spatial import Array, zeros
from dynagate.forces.force import Force, ForceContext
from dynagate.robot import Robot


@explained
@dataclass(frozen=True)
class Friction(Force):
    """Coulomb friction of joints, smoothed at rest: the torque -F q̇ / √(q̇² + s²).

    The torque has a derivative everywhere, so every method and device accepts this force. `integrators.RigidContact`
    has friction that sticks.

    Args:
        force: F in N m or N, 0 or more. True, the default, reads F from the robot's file. One number acts on every
            joint but floating ones, so that it does not brake a free base. A sequence of nv numbers sets every degree
            of freedom.
        speed: s in rad/s or m/s, above 0. At this speed 0.7 of the friction acts.

    Raises:
        ValueError: A number is out of range or not finite.
    """

    force: bool | float | Sequence[float] = True
    speed: float = SPEED

    once: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "force", check_friction(self.force, self.speed))
        object.__setattr__(self, "speed", float(self.speed))

    def check(self, robot: Robot) -> None:
        """Check that the friction fits the robot.

        Raises:
            ArgumentError: There are neither one nor nv numbers, or the robot already has friction by
                `Robot.with_friction`.
        """
        friction_of(robot, self.force, self.speed)
        if friction_in(robot):
            raise ArgumentError(
                f"robot '{robot.name}' has friction by with_friction(), and forces has {self!r:.60}; "
                "expected one of them",
                code="DG-FORCE-008",
            )

    def torque(self, now: ForceContext) -> Array:
        """Return the generalized force (nv,) of the friction."""
        friction = friction_of(now.robot, self.force, self.speed)
        if friction is None:
            return zeros(now.robot.nv)
        rates = now.joint_rates
        return now.of_joints([-friction.torque(d, rates[d]) for d in range(len(rates))])
