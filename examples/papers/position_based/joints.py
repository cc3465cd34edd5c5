"""Forces at joints as functions of positions: torques, servos, damping and rotors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from dynagate.forces.servo import Servo, ServoError
from dynagate.integrators.implicit.position_based_inputs import check_kind
from dynagate.integrators.implicit.position_based_links import Floats, Integers
from dynagate.robot import Robot


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
    held = servo.held(robot) if servo else set()
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
