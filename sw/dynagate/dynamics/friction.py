"""Coulomb friction of joints, smoothed so that it has a derivative everywhere: F q̇ / √(q̇² + s²).

Functions, rollouts and sampled states all have friction from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynagate.base.arguments import LARGEST, check_positive, is_number, shown
from dynagate.base.errors import ArgumentError
from dynagate.base.warned import warn
from dynagate.dynamics.coupling import Coupling
from dynagate.dynamics.spatial import Scalar, sqrt
from dynagate.robot import Robot, RobotWarning

OPTIONS = ("friction", "friction_speed")
"""Of algorithms and rollouts."""

SPEED = 0.01
"""rad/s or m/s: the default of s, at which 0.7 of the friction acts."""


@dataclass(frozen=True)
class Friction:
    """Friction of a robot. forces: F of each degree of freedom of the robot with all joints free, those that mimic
    others among them, N m or N. speed: s, rad/s or m/s."""

    forces: tuple[float, ...]
    speed: float = SPEED

    def torque(self, d: int, rate: Scalar) -> Scalar:
        """What degree of freedom d takes at the velocity `rate`."""
        force = self.forces[d]
        return (rate * force) * self._inverse(rate) if force else 0.0

    def slope(self, d: int, rate: Scalar) -> Scalar:
        """The derivative of `torque` with respect to the velocity: (F - τ²/F) / √(q̇² + s²), F/s at rest."""
        force = self.forces[d]
        if not force:
            return 0.0
        torque = self.torque(d, rate)
        return (force - (torque * torque) * (1.0 / force)) * self._inverse(rate)

    def _inverse(self, rate: Scalar) -> Scalar:
        return 1.0 / sqrt(rate * rate + self.speed * self.speed)


FrictionOption = bool | float | Sequence[float] | Friction | None
"""True: the friction in the robot's file. A number, N m or N: of each degree of freedom; or one number for each.
None, False or 0: none."""


def check_friction(friction: FrictionOption, speed: float) -> None:
    """Raises ValueError: a number is negative, not finite or too large, or the speed is not above 0."""
    if not isinstance(friction, Friction | bool | None):
        numbers = friction if isinstance(friction, Sequence) else (friction,)
        if not all(is_number(f) and f >= 0.0 for f in numbers):
            raise ArgumentError(f"friction={friction}; expected True, or numbers of 0 or more (N m or N)")
        if not all(f <= LARGEST for f in numbers):
            raise ArgumentError(f"friction={shown(friction)}; expected at most {LARGEST:g} N m or N")
    check_positive("friction_speed", speed, "a speed of more than 0")


def friction_of(robot: Robot, friction: FrictionOption, speed: float = SPEED) -> Friction | None:
    """The friction of a robot by the options `friction` and `friction_speed`; None where nothing has any.

    Raises ValueError: as `check_friction`, there is another number of numbers than of degrees of freedom, or
    a number is too large."""
    check_friction(friction, speed)
    if friction is None or isinstance(friction, Friction):
        return friction
    free = robot.uncoupled()
    if friction is True:
        forces = [link.joint.friction for link in free.links for _ in range(link.joint.nv)]
    else:
        own = [float(f) for f in friction] if isinstance(friction, Sequence) else [float(friction)] * robot.nv
        if len(own) != robot.nv:
            raise ArgumentError(f"friction has {len(own)} numbers; expected one, or {robot.nv}")
        forces = [0.0] * free.nv
        for d, force in zip(Coupling(robot).leaders if robot.followers else range(robot.nv), own, strict=True):
            forces[d] = force
    if max(forces, default=0.0) > LARGEST:
        raise ArgumentError(f"friction of {max(forces):g}; expected at most {LARGEST:g} N m or N")
    return Friction(tuple(forces), speed) if any(forces) else None


def warn_of_no_friction(robot: Robot, friction: FrictionOption) -> None:
    """Gives a RobotWarning where the friction of the robot's file is asked for and there is none."""
    if friction is True and not any(link.joint.friction for link in robot.links):
        warn(
            f"no joint of robot '{robot.name}' has friction, so friction=True (--friction file) changes nothing; "
            "expected a number, N m or N, to give all joints some",
            RobotWarning,
        )
