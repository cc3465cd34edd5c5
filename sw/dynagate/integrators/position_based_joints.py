"""Forces at joints as functions of positions: torques, servos, damping and rotors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynagate.base.errors import Error
from dynagate.integrators.compiled import compiled
from dynagate.integrators.position_based_inputs import PositionBasedError, check_kind, is_finite, shown
from dynagate.integrators.position_based_links import Floats, Integers
from dynagate.robot import Robot


class ServoError(Error, ValueError):
    """A servo that has no meaning. The text names the parameter and its range."""


@dataclass(frozen=True)
class Servo:
    """A spring and a damper at joints of one degree of freedom, which pull towards a target: stiffness in N m/rad,
    damping in N m s/rad (N/m and N s/m where a joint slides). Both act at the step's end.

    joints: names of those that have it; None for all. A base that moves on revolute and prismatic joints needs it, or
    the servo ties the robot to its place. Raises ServoError: numbers below 0 or not finite, names that are none.
    """

    stiffness: float
    damping: float = 0.0
    joints: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.joints is not None:
            if not isinstance(self.joints, tuple | list) or not all(isinstance(name, str) for name in self.joints):
                raise ServoError(f"servo has joints {shown(self.joints)}; expected a tuple of names")
            object.__setattr__(self, "joints", tuple(self.joints))
        for name in ("stiffness", "damping"):
            value = getattr(self, name)
            if not (is_finite(value) and value >= 0.0):
                raise ServoError(f"servo has {name} {shown(value)}; expected a finite number, 0 or more")


class Joints(NamedTuple):
    """place (nv,): where a dof's number is in q, or -1. stiffness, damping, armature (nv,)."""

    place: Integers
    stiffness: Floats
    damping: Floats
    armature: Floats


def joints_of(robot: Robot, servo: Servo | None) -> Joints:
    """Raises ServoError: damping or a rotor at a joint with a quaternion, where positions do not give an angle; a servo
    at a joint that is not there or has a quaternion; PositionBasedError: another thing than a servo."""
    check_kind("servo", servo, Servo)
    held = _held(robot, servo)
    place = np.full(robot.nv, -1)
    stiffness, damping, armature = np.zeros(robot.nv), np.zeros(robot.nv), np.zeros(robot.nv)
    for link, iq, iv in robot.slices():
        joint = link.joint
        if joint.has_quaternion:
            if joint.damping or joint.armature:
                raise ServoError(
                    f"joint '{joint.name}' is {joint.type} and has damping or armature, which position-based steps "
                    "have at revolute and prismatic joints only; leave them 0 there"
                )
            continue
        place[iv] = iq.start
        damping[iv], armature[iv] = joint.damping, joint.armature
        if servo and joint.name in held:
            stiffness[iv] = servo.stiffness
            damping[iv] += servo.damping
    return Joints(place.astype(np.int64), stiffness, damping, armature)


def _held(robot: Robot, servo: Servo | None) -> set[str]:
    """Names of the joints that a servo holds. Raises ServoError."""
    able = {link.joint.name for link in robot.links if link.joint.nv == 1}
    if servo is None or servo.joints is None:
        return able
    for name in servo.joints:
        if name not in able:
            raise ServoError(
                f"servo has joint '{name}', which is no revolute or prismatic joint of robot '{robot.name}'; "
                f"expected some of {', '.join(sorted(able)) or 'none'}"
            )
    return set(servo.joints)


def check_servo(joints: Joints, target: Floats) -> None:
    """Raises PositionBasedError: targets that nothing pulls to."""
    if not np.any(target):
        return
    if not np.any(joints.stiffness):
        raise PositionBasedError("target is not 0 and there is no servo; expected servo=Servo(stiffness, damping)")
    loose = np.any(target, axis=tuple(range(np.ndim(target) - 1))) & (joints.stiffness == 0.0)
    if loose.any():
        raise PositionBasedError(
            f"target is not 0 at degree of freedom {np.argmax(loose)}, which no servo holds; expected 0 there, or the "
            "joint's name among the servo's joints"
        )


@compiled
def joint_terms(
    joints: Joints, dt: float, q: Floats, before: Floats, tau: Floats, target: Floats, square: Floats, linear: Floats
) -> None:
    """Fills in what the forces at joints add to an energy, ½ square q² + linear q of each dof's number in q.
    tau, target: (nv,); q, before: configurations of this step's begin and of the last step's."""
    for d in range(len(joints.place)):
        k = joints.place[d]
        square[d] = linear[d] = 0.0
        if k >= 0:
            rotor, damper = joints.armature[d] / dt**2, joints.damping[d] / dt
            square[d] = joints.stiffness[d] + damper + rotor
            linear[d] = -joints.stiffness[d] * target[d] - damper * q[k] - rotor * (2.0 * q[k] - before[k]) - tau[d]
