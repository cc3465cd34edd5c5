"""Forces on robots, one file a force: functions of a state over any scalar, which every method that steps a robot
through time takes."""

from __future__ import annotations

from dynagate.forces.checks import ForceError
from dynagate.forces.compliant_contact import CompliantContact
from dynagate.forces.contact import Contact, ContactError, Plane, Point, along, contact_points, corners
from dynagate.forces.damping import Damping
from dynagate.forces.drag import Drag, DragError
from dynagate.forces.force import Force, Forces, Now, Wrench
from dynagate.forces.friction import Friction
from dynagate.forces.limits import Limits
from dynagate.forces.servo import Servo, ServoError
from dynagate.forces.text import force_of, text_of

FORCES: dict[str, type[Force]] = {
    force.__name__: force for force in (CompliantContact, Contact, Damping, Drag, Friction, Limits, Servo)
}
"""Forces by name."""

PARTS: dict[str, type[object]] = {"Point": Point, "Plane": Plane}
"""What forces are made of."""


def of_text(force: Force | str) -> Force:
    """A force of its text, `Limits(stiffness=100.0)`, or itself. Raises ForceError: the text is no force."""
    return force_of(force, {**FORCES, **PARTS}) if isinstance(force, str) else force


def as_text(force: Force) -> str:
    """What `of_text` takes. Raises ForceError: the force is not one of FORCES."""
    return text_of(force, {**FORCES, **PARTS})


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
    "as_text",
    "contact_points",
    "corners",
    "of_text",
]


def __dir__() -> list[str]:
    return sorted(__all__)
