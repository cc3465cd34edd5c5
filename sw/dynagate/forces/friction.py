"""Coulomb friction of joints as a force, by the law of `dynamics.friction`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from dynagate.base.arguments import number
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.dynamics.friction import (
    BREAKAWAY,
    SPEED,
    SPEEDS,
    STRIBECK,
    FrictionModel,
    check_friction,
    friction_in,
    friction_of,
)
from dynagate.dynamics.spatial import Array, zeros
from dynagate.forces.force import Force, ForceContext
from dynagate.robot import Robot


@explained
@dataclass(frozen=True, repr=False)
class Friction(Force):
    """Friction of joints, smoothed at rest: the torque -F q̇ / √(q̇² + s²), more below the Stribeck speed.

    With `breakaway`, the torque is multiplied by 1 + (b - 1) / (1 + (q̇ / v)²). The torque has a derivative everywhere,
    so every method and device accepts this force. `integrators.RigidContact` has friction that sticks.

    Args:
        force: F in N m or N, 0 or more. True, the default, reads F from the robot's file. One number acts on every
            joint but floating ones, so that it does not brake a free base. A sequence of nv numbers sets every degree
            of freedom.
        speed: s in rad/s or m/s, above 0. At this speed 0.7 of the friction acts.
        breakaway: b, static friction as a part of F, 1 or more.
        stribeck: v in rad/s or m/s, above 0. At this speed half of the difference between b F and F acts.

    Reference:
        Hess & Soom, "Friction at a lubricated line contact operating at oscillating sliding velocities", 1990.

    Raises:
        ValueError: A number is out of range or not finite.
    """

    force: bool | float | Sequence[float] = True
    speed: float = SPEED
    breakaway: float = 1.0
    stribeck: float = STRIBECK

    once: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "force", check_friction(self.force, self.speed))
        object.__setattr__(self, "speed", float(self.speed))
        for name, accepted in (("breakaway", BREAKAWAY), ("stribeck", SPEEDS)):
            value = number(f"friction has {name} ", getattr(self, name), accepted)
            object.__setattr__(self, name, float(value))

        if self.breakaway == 1.0:  # Coulomb friction has no Stribeck speed
            object.__setattr__(self, "stribeck", STRIBECK)

    def __repr__(self) -> str:
        text = f"Friction(force={self.force!r}, speed={self.speed!r}"
        stuck = f", breakaway={self.breakaway!r}, stribeck={self.stribeck!r}" if self.breakaway > 1.0 else ""
        return f"{text}{stuck})"

    def model(self, robot: Robot) -> FrictionModel | None:
        """Return the friction of a robot's joints, None if no joint has friction. Raise ArgumentError as `check` does
        if there are neither one nor nv numbers.
        """
        model = friction_of(robot, self.force, self.speed)
        return model and replace(model, breakaway=self.breakaway, stribeck=self.stribeck)

    def check(self, robot: Robot) -> None:
        """Check that the friction fits the robot.

        Raises:
            ArgumentError: There are neither one nor nv numbers, or the robot already has friction by
                `Robot.with_friction`.
        """
        self.model(robot)
        if friction_in(robot):
            raise ArgumentError(
                f"robot '{robot.name}' has friction by with_friction(), and forces has {self!r:.60}; "
                "expected one of them",
                code="DG-FORCE-008",
            )

    def torque(self, now: ForceContext) -> Array:
        """Return the generalized force (nv,) of the friction."""
        friction = self.model(now.robot)
        if friction is None:
            return zeros(now.robot.nv)
        rates = now.joint_rates
        return now.of_joints([-friction.torque(d, rates[d]) for d in range(len(rates))])
