"""Series elasticity: a motor with inertia that moves a joint through a spring, with or without backlash."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dynagate.base.arguments import ABOVE_ZERO, AT_LEAST_ZERO, Accepted
from dynagate.base.explained import explained
from dynagate.dynamics.spatial import Array, Scalar, array, sqrt
from dynagate.forces.actuator import Actuator, ActuatorState, Drive, Numbers
from dynagate.forces.force import ForceContext
from dynagate.robot import Robot


@explained
@dataclass(frozen=True)
class SeriesElastic(Actuator):
    """Move joints by motors with their own inertia, through springs and dampers.

    The commanded torque u accelerates the motor, J θ̈ = u - τ - b θ̇. The joint receives τ = k s(δ) + d (θ̇ - q̇) for the
    deflection δ = θ - q. Without backlash s(δ) = δ. With backlash the spring is slack for |δ| below g, half the play:

    s(δ) = δ + ½ √((δ - g)² + ε²) - ½ √((δ + g)² + ε²)

    All quantities are those at the joint, behind the gear. The states are `deflection` δ and `motor_speed` θ̇, (joints,)
    each, in rad, m, rad/s and m/s. They follow by semi-implicit Euler, the deflection first.

    Args:
        stiffness: k, N m/rad or N/m, above 0, one or one for each joint.
        inertia: J, kg m² or kg, above 0, one or one for each joint.
        damping: d, N m s/rad or N s/m, 0 or more, one or one for each joint.
        friction: b, the damping of the motor, N m s/rad or N s/m, 0 or more, one or one for each joint.
        play: Width 2 g of the backlash, rad or m, 0 or more, one or one for each joint.
        rounding: ε, the width over which the edges of the play are round, rad or m, above 0.
        joints: Names of the joints; all joints of one degree of freedom unless given.

    Raises:
        ForceError: A number is out of range.
    """

    stiffness: Numbers
    inertia: Numbers
    damping: Numbers = 0.0
    friction: Numbers = 0.0
    play: Numbers = 0.0
    rounding: Numbers = 1e-3

    of_joints: ClassVar[Mapping[str, Accepted]] = {
        **dict.fromkeys(("stiffness", "inertia"), ABOVE_ZERO),
        **dict.fromkeys(("damping", "friction", "play"), AT_LEAST_ZERO),
        "rounding": ABOVE_ZERO,
    }

    def states(self, robot: Robot) -> dict[str, ActuatorState]:
        """Return the deflection of the springs and the speed of the motors."""
        count = len(self.places(robot))
        return {"deflection": ActuatorState(count, "delta_q"), "motor_speed": ActuatorState(count, "qd")}

    def largest_step(self, robot: Robot) -> float:
        """Return the largest time step, s, for which a motor is stable while its joint is held."""
        return min(_largest_step(*each[:4]) for each in self.each_joint(robot))

    def drive(self, now: ForceContext, command: list[Scalar], states: Mapping[str, Array]) -> Drive:
        """Return the torques of the springs, and the states of the motors after the step."""
        numbers, before = self.each_joint(now.robot), zip(states["deflection"], states["motor_speed"], strict=True)
        torques, deflections, speeds = [], [], []
        for u, (_, v), (deflection, speed), each in zip(command, self.places(now.robot), before, numbers, strict=True):
            stiffness, inertia, damping, friction, play, rounding = each
            apart = speed - now.qd[v]
            deflection = deflection + apart * now.dt
            torque = slack(deflection, 0.5 * play, rounding) * stiffness + apart * damping
            torques.append(torque)
            deflections.append(deflection)
            speeds.append(speed + (u - torque - speed * friction) * (now.dt * (1.0 / inertia)))
        return Drive(array(torques), {"deflection": array(deflections), "motor_speed": array(speeds)})


def slack(x: Scalar, half: float, rounding: float) -> Scalar:
    """Return the deflection of a spring behind a play of ±half, with round edges."""
    if not half:
        return x
    near, far = x - half, x + half
    squared = rounding * rounding
    return x + (sqrt(near * near + squared) - sqrt(far * far + squared)) * 0.5


def _largest_step(stiffness: float, inertia: float, damping: float, friction: float) -> float:
    """Return the dt at which k dt² + 2 (d + b) dt = 4 J, where semi-implicit Euler becomes unstable."""
    slowed = damping + friction
    return (math.sqrt(slowed * slowed + 4.0 * stiffness * inertia) - slowed) / stiffness
