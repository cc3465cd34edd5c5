"""A servo that is commanded by positions, as an actuator with a limit of torque."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dynagate.base.arguments import ABOVE_ZERO, AT_LEAST_ZERO, Accepted
from dynagate.base.explained import explained
from dynagate.dynamics.spatial import Array, Scalar, array, clipped
from dynagate.forces.actuator import Actuator, Drive, Numbers
from dynagate.forces.force import ForceContext


@explained
@dataclass(frozen=True)
class PositionServo(Actuator):
    """Pull joints to the command, a position, by k (u - q) - d q̇ within a limit of torque, as MuJoCo's `position`.

    Put other actuators behind it, such as `DCMotor`, to model the motor that the servo drives.

    Args:
        stiffness: k in N m/rad or N/m, 0 or more, one or one for each joint.
        damping: d in N m s/rad or N s/m, 0 or more.
        largest: Largest torque in N m or N, above 0; None for no limit.
        joints: Names of the joints; all joints of one degree of freedom unless given.

    Raises:
        ForceError: A number is out of range.
    """

    stiffness: Numbers
    damping: Numbers = 0.0
    largest: Numbers | None = None

    of_joints: ClassVar[Mapping[str, Accepted]] = {
        "stiffness": AT_LEAST_ZERO,
        "damping": AT_LEAST_ZERO,
        "largest": ABOVE_ZERO,
    }

    def drive(self, now: ForceContext, command: list[Scalar], states: Mapping[str, Array]) -> Drive:
        """Return the torques of the springs and dampers, within their limits."""
        torques = []
        numbers = self.each_joint(now.robot)
        for u, (iq, iv), (stiffness, damping, largest) in zip(command, self.places(now.robot), numbers, strict=True):
            torques.append(clipped((u - now.q[iq]) * stiffness - now.qd[iv] * damping, -largest, largest))
        return Drive(array(torques))
