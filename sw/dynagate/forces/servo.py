"""Servos: springs and dampers that pull joints towards a target."""

from __future__ import annotations

from dataclasses import dataclass

from dynagate.base.arguments import AT_LEAST_ZERO, FINITE, numbers, shown
from dynagate.base.errors import Error
from dynagate.base.explained import explained
from dynagate.dynamics.spatial import Array, zeros
from dynagate.forces.checks import check_numbers
from dynagate.forces.force import Force, ForceContext
from dynagate.robot import Robot


class ServoError(Error, ValueError):
    """A servo that has no meaning. The text names the parameter and its range."""


IGNORED = "; those of floating and ball joints are ignored"
"""End of an error about the length of a target, for a robot with joints that a servo ignores."""


def has_ignored(robot: Robot) -> bool:
    """Return whether a robot has joints that a servo ignores: those with more than one degree of freedom."""
    return any(joint.nv > 1 for joint, _, _ in robot.moving())


@explained
@dataclass(frozen=True)
class Servo(Force):
    """Pull joints of one degree of freedom towards a target by a spring and a damper.

    Position-based steps use both at the end of the step, explicit steps at its start.

    Args:
        stiffness: N m/rad, or N/m for a sliding joint, 0 or more.
        damping: N m s/rad, or N s/m for a sliding joint, 0 or more.
        joints: Names of the joints; all of them unless given. Name them if a base moves on revolute and prismatic
            joints, or the servo ties the robot to its place.
        target: Target for each velocity (nv,), rad or m; those of floating and ball joints are ignored. Unless given,
            each call has an input `target` (nv,) for each step.

    Raises:
        ServoError: A number is negative or not finite, or a name is that of no joint.
    """

    stiffness: float
    damping: float = 0.0
    joints: tuple[str, ...] | None = None
    target: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.joints is not None:
            if not isinstance(self.joints, tuple | list) or not all(isinstance(name, str) for name in self.joints):
                raise ServoError(
                    f"servo has joints {shown(self.joints)}; expected a tuple of names", code="DG-FORCE-015"
                )
            object.__setattr__(self, "joints", tuple(self.joints))
        check_numbers(self, "servo", ServoError, stiffness=AT_LEAST_ZERO, damping=AT_LEAST_ZERO)
        if self.target is not None:
            own = numbers("servo has target ", self.target, (None,), FINITE, ServoError)
            object.__setattr__(self, "target", tuple(own.tolist()))

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("target",) if self.target is None else ()

    def held(self, robot: Robot) -> set[str]:
        """Return the names of the joints that the servo holds.

        Raises:
            ServoError: The robot does not have a joint, or it does not have exactly one degree of freedom.
        """
        able = {joint.name for joint, _, _ in robot.moving() if joint.nv == 1}
        for name in self.joints or ():
            if name not in able:
                raise ServoError(
                    f"servo has joint '{name}', which is no revolute or prismatic joint of robot '{robot.name}'; "
                    f"expected some of {', '.join(sorted(able)) or 'none'}",
                    code="DG-FORCE-016",
                )
        return able if self.joints is None else set(self.joints)

    def check(self, robot: Robot) -> None:
        """Raise ServoError if the joints or the target do not fit the robot."""
        self.held(robot)
        if self.target is not None and len(self.target) != robot.nv:
            raise ServoError(
                f"servo has {len(self.target)} numbers as target; expected {robot.nv}, one for each velocity"
                f"{IGNORED if has_ignored(robot) else ''}",
                code="DG-FORCE-017",
            )

    def torque(self, now: ForceContext) -> Array:
        """Return the generalized force (nv,) of the servo."""
        held, result = self.held(now.robot), zeros(now.robot.nv)
        target = now.inputs["target"] if self.target is None else self.target
        for joint, iq, iv in now.robot.moving():
            if joint.name in held:
                away, rate = now.q[iq.start] - target[iv.start], now.qd[iv.start]
                result[iv.start] = -(away * self.stiffness) - rate * self.damping
        return result
