"""Forces on robots, one file a force: functions of a state over any scalar, which every method that steps a robot
through time takes."""

from __future__ import annotations

from dynagate.forces.checks import ForceError
from dynagate.forces.compliant_contact import CompliantContact
from dynagate.forces.contact import Contact, ContactError, Plane, Point, along, corners
from dynagate.forces.damping import Damping
from dynagate.forces.drag import Drag, DragError
from dynagate.forces.force import Force, Forces, Now, Wrench
from dynagate.forces.friction import Friction
from dynagate.forces.limits import Limits
from dynagate.forces.servo import Servo, ServoError

FORCES: dict[str, type[Force]] = {
    force.__name__: force for force in (CompliantContact, Contact, Damping, Drag, Friction, Limits, Servo)
}
"""Forces by name."""

__all__ = [
    "FORCES",
    "CompliantContact",
    "Contact",
    "ContactError",
    "Damping",
    "Drag",
    "DragError",
    "Force",
    "ForceError",
    "Forces",
    "Friction",
    "Limits",
    "Now",
    "Plane",
    "Point",
    "Servo",
    "ServoError",
    "Wrench",
    "along",
    "corners",
]
