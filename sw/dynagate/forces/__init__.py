"""Forces on robots: functions of a state over any scalar, which every integrator accepts. Each file has
one force.
"""

from __future__ import annotations

from dynagate.forces.actuator import Actuator, ActuatorState, Drive
from dynagate.forces.checks import ForceError
from dynagate.forces.compliant_contact import CompliantContact
from dynagate.forces.contact import Capsule, Contact, ContactError, Plane, Point, along, contact_points, corners
from dynagate.forces.damping import Damping
from dynagate.forces.delay import Delay, Lag, Ramp
from dynagate.forces.drag import Drag, DragError
from dynagate.forces.force import Force, ForceContext, Forces, Wrench
from dynagate.forces.friction import Friction
from dynagate.forces.ground import GroundBox, GroundSphere, HeightField
from dynagate.forces.learned_actuator import LearnedActuator
from dynagate.forces.limits import Limits
from dynagate.forces.listed import FORCES, as_text, of_text
from dynagate.forces.motor import DCMotor, MotorCurve
from dynagate.forces.position_servo import PositionServo
from dynagate.forces.series_elastic import SeriesElastic
from dynagate.forces.servo import Servo, ServoError
from dynagate.forces.stops import Stops
from dynagate.robot import Shape, collision_shapes

__all__ = [
    "FORCES",
    "Actuator",
    "ActuatorState",
    "Capsule",
    "CompliantContact",
    "Contact",
    "ContactError",
    "DCMotor",
    "Damping",
    "Delay",
    "Drag",
    "DragError",
    "Drive",
    "Force",
    "ForceContext",
    "ForceError",
    "Forces",
    "Friction",
    "GroundBox",
    "GroundSphere",
    "HeightField",
    "Lag",
    "LearnedActuator",
    "Limits",
    "MotorCurve",
    "Plane",
    "Point",
    "PositionServo",
    "Ramp",
    "SeriesElastic",
    "Servo",
    "ServoError",
    "Shape",
    "Stops",
    "Wrench",
    "along",
    "as_text",
    "collision_shapes",
    "contact_points",
    "corners",
    "of_text",
]


def __dir__() -> list[str]:
    return sorted(__all__)
