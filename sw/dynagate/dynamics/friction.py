"""Smoothed friction in joints, differentiable at rest: τ = F c(q̇) q̇ / √(q̇² + s²).

Coulomb friction has c = 1. Static friction b F that falls with the speed has c = 1 + (b - 1) / (1 + (q̇ / v)²), where v
is the Stribeck speed. Functions, rollouts and sampled states all compute joint friction with this module.

Reference:
    Hess & Soom, "Friction at a lubricated line contact operating at oscillating sliding velocities", 1990.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dynagate.base.arguments import ABOVE_ZERO, LARGEST, Accepted, number, one_or_each
from dynagate.base.errors import ArgumentError
from dynagate.base.warned import warn
from dynagate.dynamics.mimic import MimicMap
from dynagate.dynamics.spatial import Scalar, sqrt
from dynagate.robot import Robot, RobotWarning

SPEED = 0.01
"""Default smoothing speed s, in rad/s or m/s. At this velocity friction reaches 71 % of its full value."""
STRIBECK = 0.1
"""Default Stribeck speed v, in rad/s or m/s."""


@dataclass(frozen=True)
class FrictionModel:
    """Coulomb friction of a robot's joints."""

    forces: tuple[Scalar, ...]
    """F of each degree of freedom, N m or N, with mimicking joints counted as free ones. A traced scalar if it is an
    input.
    """
    speed: float = SPEED
    """Smoothing speed s, rad/s or m/s."""
    breakaway: float = 1.0
    """Static friction b as a part of Coulomb friction, 1 or more."""
    stribeck: float = STRIBECK
    """Stribeck speed v, rad/s or m/s, at which half of the difference to Coulomb friction is left."""

    def torque(self, d: int, rate: Scalar) -> Scalar:
        """Return the friction torque of degree of freedom d at the velocity `rate`."""
        force = self.forces[d]
        return (rate * force) * self._inverse(rate) * self._share(rate) if force else 0.0

    def slope(self, d: int, rate: Scalar) -> Scalar:
        """Return the derivative of `torque` with respect to the velocity, which is b F/s at rest. Coulomb friction has
        (F - τ²/F) / √(q̇² + s²).
        """
        force = self.forces[d]
        if not force:
            return 0.0
        if self.breakaway > 1.0:
            part, share, squared = rate * self._inverse(rate), self._share(rate), self.stribeck * self.stribeck
            fall = (share - 1.0) * (share - 1.0) * part * rate * (-2.0 / ((self.breakaway - 1.0) * squared))
            return ((1.0 - part * part) * self._inverse(rate) * share + fall) * force
        if not isinstance(force, float):  # an input, which may be 0
            part = rate * self._inverse(rate)
            return ((1.0 - part * part) * force) * self._inverse(rate)
        torque = self.torque(d, rate)
        return (force - (torque * torque) * (1.0 / force)) * self._inverse(rate)

    def _share(self, rate: Scalar) -> Scalar:
        """Return c, the friction at a speed as a part of Coulomb friction without smoothing."""
        if self.breakaway == 1.0:
            return 1.0
        relative = rate * (1.0 / self.stribeck)
        return (self.breakaway - 1.0) * (1.0 / (relative * relative + 1.0)) + 1.0

    def _inverse(self, rate: Scalar) -> Scalar:
        return 1.0 / sqrt(rate * rate + self.speed * self.speed)


def friction_in(robot: Robot) -> FrictionModel | None:
    """Return the friction that a robot's functions include (`Robot.with_friction`), or None. Joints must not mimic
    others.
    """
    forces = tuple(link.joint.friction for link in robot.links for _ in range(link.joint.nv))
    return FrictionModel(forces, robot.friction_speed) if robot.friction_speed and any(forces) else None


FrictionOption = bool | float | Sequence[float] | FrictionModel | None
"""Option that selects joint friction. True uses the values of the robot's file; None, False and 0 disable friction.

One number (N m or N) applies to every joint except floating ones. A sequence sets every degree of freedom.
"""

COULOMB = "True, or numbers of 0 or more (N m or N)"
"""Accepted values of the option, for error texts."""
FORCES = Accepted(COULOMB, "", 0.0, LARGEST)
"""Limits of a friction force or torque."""
SPEEDS = replace(ABOVE_ZERO, one="a speed of more than 0", most=LARGEST)
"""Limits of a smoothing speed."""
BREAKAWAY = Accepted("a part of Coulomb friction, 1 or more", "", 1.0, LARGEST)
"""Limits of static friction, as a part of Coulomb friction."""


def check_friction(friction: FrictionOption, speed: float) -> FrictionOption:
    """Return the option with its numbers as floats.

    Raises:
        ArgumentError: A number is negative, not finite or above `LARGEST`, or the speed is not positive.
    """
    number("friction has speed ", speed, SPEEDS)
    if isinstance(friction, FrictionModel | bool | None):
        return friction
    return one_or_each("friction has force ", friction, FORCES)


def per_dof(what: str, robot: Robot, value: float | Sequence[float]) -> list[float]:
    """Return a joint coefficient for each degree of freedom (nv,).

    Args:
        what: Name of the coefficient, for the error.
        robot: The robot. One number gives its floating joints 0, because nothing rubs against a body in the air.
        value: One number, or nv of them.

    Raises:
        ArgumentError: There are neither one nor nv numbers, or one number that acts on no joint.
    """
    if isinstance(value, Sequence):
        if len(value) != robot.nv:
            raise ArgumentError(f"{what} has {len(value)} numbers; expected one, or {robot.nv}", code="DG-FUNCTION-006")
        return [float(x) for x in value]
    if value and all(joint.kind.free for joint, _, _ in robot.moving()):
        raise ArgumentError(
            f"{what}={value:g} acts on no joint of robot '{robot.name}', whose joints are all floating; "
            f"expected {robot.nv} numbers, one for each velocity",
            code="DG-FUNCTION-007",
        )
    return [0.0 if joint.kind.free else float(value) for joint, _, _ in robot.moving() for _ in range(joint.nv)]


def friction_of(robot: Robot, friction: FrictionOption, speed: float = SPEED) -> FrictionModel | None:
    """Return the friction that an option selects for a robot, or None if no joint has friction.

    Raises:
        ArgumentError: A number is negative, not finite or too large, or there are neither one nor nv numbers.
    """
    friction = check_friction(friction, speed)
    if friction is None or isinstance(friction, FrictionModel):
        return friction
    free = robot.uncoupled()
    if friction is True:
        forces = [link.joint.friction for link in free.links for _ in range(link.joint.nv)]
    else:
        own = per_dof("friction", robot, friction)
        forces = [0.0] * free.nv
        for d, force in zip(MimicMap(robot).leaders, own, strict=True):
            forces[d] = force
    if max(forces, default=0.0) > LARGEST:
        raise ArgumentError(
            f"friction of {max(forces):g}; expected at most {LARGEST:g} N m or N", code="DG-FUNCTION-008"
        )
    return FrictionModel(tuple(forces), speed) if any(forces) else None


def warn_of_no_friction(robot: Robot, friction: FrictionOption) -> None:
    """Issue a RobotWarning if the option requests the friction of the robot's file and the file has none."""
    if friction is True and not any(link.joint.friction for link in robot.links):
        warn(
            f"no joint of robot '{robot.name}' has friction, so the force Friction() changes nothing; expected "
            "a number in N m or N, such as Friction(0.3), for all joints",
            RobotWarning,
            code="DG-FUNCTION-009",
        )
