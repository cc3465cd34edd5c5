"""Electric motors: the limits of torque over speed, and a motor with back-EMF, resistance and inductance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dynagate.base.arguments import ABOVE_ZERO, AT_LEAST_ZERO, Accepted
from dynagate.base.explained import explained
from dynagate.dynamics.spatial import Array, Scalar, array, clipped, select
from dynagate.forces.actuator import Actuator, ActuatorState, Drive, Numbers
from dynagate.forces.delay import approach
from dynagate.forces.force import ForceContext
from dynagate.robot import Robot


@explained
@dataclass(frozen=True)
class MotorCurve(Actuator):
    """Limit the commanded torque by a DC motor's line of torque over speed.

    The largest torque in the direction of motion falls from `stall` at rest to 0 at the speed `no_load`. Against the
    motion it grows by the same line. `largest` bounds both. Isaac Lab's `DCMotor` has the same law.

    Args:
        stall: Torque at rest that the line begins with, N m or N, above 0, one or one for each joint.
        no_load: Speed without load, rad/s or m/s, above 0, one or one for each joint.
        largest: Largest torque, N m or N, above 0, one or one for each joint; None for no limit.
        joints: Names of the joints; all joints of one degree of freedom unless given.

    Raises:
        ForceError: A number is out of range.
    """

    stall: Numbers
    no_load: Numbers
    largest: Numbers | None = None

    of_joints: ClassVar[Mapping[str, Accepted]] = dict.fromkeys(("stall", "no_load", "largest"), ABOVE_ZERO)

    def drive(self, now: ForceContext, command: list[Scalar], states: Mapping[str, Array]) -> Drive:
        """Return the commands within the limits at each joint's speed."""
        limits, torques = self.each_joint(now.robot), []
        for u, (_, v), (stall, speed, largest) in zip(command, self.places(now.robot), limits, strict=True):
            slowed = now.qd[v] * (stall / speed)
            u = clipped(u, -_at_least_zero(slowed + stall), _at_least_zero(stall - slowed))
            torques.append(clipped(u, -largest, largest))
        return Drive(array(torques))


@explained
@dataclass(frozen=True)
class DCMotor(Actuator):
    """Drive joints by brushed or field-oriented motors, whose command is the voltage in units of torque.

    With the motor constant K, the gear ratio n and the resistance R, the voltage is u R / (n K) for the command u, at
    most `voltage`. A joint at rest receives u; at speed q̇ the back-EMF n K q̇ takes n² K² / R q̇ from it. With an
    inductance L the current is a state, `current` (joints,) in A, that follows with the time constant L / R and is
    solved exactly in each step. Without one the current follows at once.

    Args:
        constant: K in N m/A, which is also V s/rad, above 0, one or one for each joint.
        resistance: R in Ohm, above 0, one or one for each joint.
        voltage: Largest voltage, V, above 0, one or one for each joint; None for no limit.
        current: Largest current, A, above 0, one or one for each joint; None for no limit.
        inductance: L in H, 0 or more, one or one for each joint.
        ratio: Gear ratio n, motor speed over joint speed, above 0, one or one for each joint.
        joints: Names of the joints; all joints of one degree of freedom unless given.

    Raises:
        ForceError: A number is out of range.
    """

    constant: Numbers
    resistance: Numbers
    voltage: Numbers | None = None
    current: Numbers | None = None
    inductance: Numbers = 0.0
    ratio: Numbers = 1.0

    of_joints: ClassVar[Mapping[str, Accepted]] = {
        **dict.fromkeys(("constant", "resistance", "voltage", "current"), ABOVE_ZERO),
        "inductance": AT_LEAST_ZERO,
        "ratio": ABOVE_ZERO,
    }

    def _has_state(self, robot: Robot) -> bool:
        return any(self.each(robot, "inductance"))

    def states(self, robot: Robot) -> dict[str, ActuatorState]:
        """Return the current, if there is an inductance."""
        return {"current": ActuatorState(len(self.places(robot)))} if self._has_state(robot) else {}

    def drive(self, now: ForceContext, command: list[Scalar], states: Mapping[str, Array]) -> Drive:
        """Return the torques of the currents, and the currents after the step."""
        torques, after = [], []
        before, numbers = states.get("current"), self.each_joint(now.robot)
        for k, (u, (_, v), each) in enumerate(zip(command, self.places(now.robot), numbers, strict=True)):
            constant, resistance, voltage, current, inductance, ratio = each
            at_joint = constant * ratio
            applied = clipped(u * (resistance / at_joint), -voltage, voltage)
            settled = (applied - now.qd[v] * at_joint) * (1.0 / resistance)
            if before is None:
                flowing = clipped(settled, -current, current)
            else:
                flowing = before[k]
                share = approach(now.dt, inductance / resistance) if inductance else 1.0
                after.append(clipped(flowing + (settled - flowing) * share, -current, current))
            torques.append(flowing * at_joint)
        return Drive(array(torques), {} if before is None else {"current": array(after)})


def _at_least_zero(x: Scalar) -> Scalar:
    return select(x, x, 0.0)
