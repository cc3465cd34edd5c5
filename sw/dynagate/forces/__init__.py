"""Forces on robots: functions of a state over any scalar, which every integrator accepts. Each file has
one force.
"""

from __future__ import annotations

from dynagate.forces.checks import ForceError
from dynagate.forces.compliant_contact import CompliantContact
from dynagate.forces.contact import Capsule, Contact, ContactError, Plane, Point, along, contact_points, corners
from dynagate.forces.damping import Damping
from dynagate.forces.drag import Drag, DragError
from dynagate.forces.force import Force, ForceContext, Forces, Wrench
from dynagate.forces.friction import Friction
from dynagate.forces.ground import GroundBox, GroundSphere, HeightField
from dynagate.forces.limits import Limits
from dynagate.forces.listed import FORCES, as_text, of_text
from dynagate.forces.servo import Servo, ServoError
from dynagate.forces.stops import Stops
from dynagate.robot import Shape, collision_shapes

__all__ = [
    "FORCES",
    "Capsule",
    "CompliantContact",
    "Contact",
    "ContactError",
    "Damping",
    "Drag",
    "DragError",
    "Force",
    "ForceContext",
    "ForceError",
    "Forces",
    "Friction",
    "GroundBox",
    "GroundSphere",
    "HeightField",
    "Limits",
    "Plane",
    "Point",
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
