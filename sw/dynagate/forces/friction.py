"""Coulomb friction of joints as a force: the law of `dynamics.friction`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynagate.base.explained import explained
from dynagate.dynamics.friction import SPEED, check_friction, friction_of
from dynagate.dynamics.spatial import Array, zeros
from dynagate.forces.force import Force, Now
from dynagate.robot import Robot


@explained
@dataclass(frozen=True)
class Friction(Force):
    """-F q̇ / √(q̇² + s²). force: F in N m or N, one for all degrees of freedom or one for each; True for that of the
    robot's file. speed: s, rad/s or m/s, at which 0.7 of it acts. It has a derivative everywhere, so every method and
    device takes it; friction that sticks is that of `integrators.RigidContact`.

    Raises ValueError: F is below 0, not finite or too large, or s not above 0."""

    force: bool | float | Sequence[float]
    speed: float = SPEED

    def __post_init__(self) -> None:
        if isinstance(self.force, Sequence):
            object.__setattr__(self, "force", tuple(self.force))
        check_friction(self.force, self.speed)

    def check(self, robot: Robot) -> None:
        """Raises ValueError: there are other numbers than one or nv."""
        friction_of(robot, self.force, self.speed)

    def torque(self, now: Now) -> Array:
        friction = friction_of(now.robot, self.force, self.speed)
        if friction is None:
            return zeros(now.robot.nv)
        rates = now.joint_rates
        return now.of_joints([-friction.torque(d, rates[d]) for d in range(len(rates))])
