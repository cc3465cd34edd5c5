"""Actuators that respond late: a delay of whole steps, a first-order lag, and torques that are commanded by rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dynagate.base.arguments import ABOVE_ZERO, Accepted, number
from dynagate.base.explained import explained
from dynagate.dynamics.spatial import Array, Scalar, array, exp
from dynagate.forces.actuator import Actuator, ActuatorState, Drive, Numbers
from dynagate.forces.checks import ForceError
from dynagate.forces.force import ForceContext
from dynagate.robot import Robot

MOST_STEPS = 64
"""Largest delay in steps: each of them is a state of every joint."""
STEPS = Accepted(f"a whole number from 1 to {MOST_STEPS}", "", 1.0, MOST_STEPS, whole=True)


@explained
@dataclass(frozen=True)
class Delay(Actuator):
    """Deliver each commanded torque after a number of steps.

    The state `delayed` has the commands of the last steps, (steps × joints), the oldest first.

    Args:
        steps: Number of steps, 1 to 64.
        joints: Names of the joints; all joints of one degree of freedom unless given.

    Raises:
        ForceError: The number is out of range.
    """

    steps: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "steps", int(number("Delay has steps ", self.steps, STEPS, ForceError)))

    def states(self, robot: Robot) -> dict[str, ActuatorState]:
        """Return the commands of the last steps."""
        return {"delayed": ActuatorState(self.steps * len(self.places(robot)))}

    def drive(self, now: ForceContext, command: list[Scalar], states: Mapping[str, Array]) -> Drive:
        """Return the oldest command, and the others with the new one."""
        queue = list(states["delayed"])
        count = len(command)
        return Drive(array(queue[:count]), {"delayed": array([*queue[count:], *command])})


@explained
@dataclass(frozen=True)
class Lag(Actuator):
    """Follow the commanded torque u as a first-order lag, T dy/dt = u - y, exactly for a constant u in each step.

    The torque of a step is y before the step, as of MuJoCo's `dyntype="filterexact"`. The state `lag` is y (joints,).
    No time step is too long.

    Args:
        time: Time constant T in s, above 0, one or one for each joint.
        joints: Names of the joints; all joints of one degree of freedom unless given.

    Raises:
        ForceError: A number is out of range.
    """

    time: Numbers

    of_joints: ClassVar[Mapping[str, Accepted]] = {"time": ABOVE_ZERO}

    def states(self, robot: Robot) -> dict[str, ActuatorState]:
        """Return the delivered torque."""
        return {"lag": ActuatorState(len(self.places(robot)))}

    def drive(self, now: ForceContext, command: list[Scalar], states: Mapping[str, Array]) -> Drive:
        """Return the torques before the step, and those after it."""
        lag, after = states["lag"], []
        for y, u, (time,) in zip(lag, command, self.each_joint(now.robot), strict=True):
            after.append(y + (u - y) * approach(now.dt, time))
        return Drive(lag, {"lag": array(after)})


@explained
@dataclass(frozen=True)
class Ramp(Actuator):
    """Deliver the integral of the command, which is the rate of the torque in N m/s or N/s.

    A solver's bounds of commands are then bounds of rates, so a plan keeps them exactly. The state `ramp` is the torque
    (joints,) of the last step.

    Args:
        joints: Names of the joints; all joints of one degree of freedom unless given.
    """

    def states(self, robot: Robot) -> dict[str, ActuatorState]:
        """Return the delivered torque."""
        return {"ramp": ActuatorState(len(self.places(robot)))}

    def drive(self, now: ForceContext, command: list[Scalar], states: Mapping[str, Array]) -> Drive:
        """Return the torques at the end of the step, which act during it."""
        torque = array([y + u * now.dt for y, u in zip(states["ramp"], command, strict=True)])
        return Drive(torque, {"ramp": torque})


def approach(dt: Scalar, time: float) -> Scalar:
    """Return 1 - exp(-dt / time), the part of a distance that a first-order lag covers in a step."""
    return -math.expm1(-dt / time) if isinstance(dt, float) else 1.0 - exp(dt * (-1.0 / time))
