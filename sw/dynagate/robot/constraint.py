"""Constraints of a robot: contacts, loops and equalities of joints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dynagate.base.arguments import AT_LEAST_ZERO, FINITE, number, numbers
from dynagate.robot.errors import RobotError
from dynagate.robot.vectors import Vector3

CONTACTS = {"point": 3, "fixed": 6, "plane": 1}
"""Kind of a contact -> how many directions of its frame it holds: those of the origin, or of rotation too, or of
the origin along a normal."""

LOOPS = {"point": 3, "fixed": 6, "hinge": 5, "distance": 1}
"""Kind of a loop -> how many directions of its frames it holds: a hinge leaves turning about z, a distance all but one
direction of the origins."""

JOINTS = "joints"
"""Kind of a constraint that holds a joint where a polynomial of another one's position says: one direction."""

CONSTRAINT_ROWS = CONTACTS | LOOPS | {JOINTS: 1}


LEAST_COMPLIANCE = 1e-12
"""A smaller number is lost in a sum with the 1 of an inactive constraint."""


@dataclass(frozen=True)
class Constraint:
    """A frame of a robot that is held: a contact by something outside, as a foot by the ground, a loop by another frame
    of the robot.

    frame: name of a frame or link. kind: "point" holds the frame's origin and lets it turn, "fixed" holds both, the
    "plane" of a contact holds the origin along a normal and lets it slide. The "hinge" of a loop lets the frame turn
    about its z axis, and "distance" keeps a distance of the origins, as a rod with balls at its ends.
    to: of a loop, the frame at which it is held; empty for a contact.
    stiffness, damping: k and d of Baumgarte's stabilization in 1/s² and 1/s. The frame's acceleration is -d times its
    velocity, and of a loop less k times its distance from the other frame, instead of 0.
    compliance: c in 1/kg, and 1/(kg m²) of moments: the frame gives way with an acceleration of -c times the force.
    It is added to the diagonal of J M⁻¹ Jᵀ, which more than 0 keeps invertible where constraints hold the same twice.
    moment_compliance: that of moments, if it is another number.
    normal: of a plane, in base axes, out of what holds the frame; brought to length 1. length: of a distance, m.
    polynomial: of kind "joints", where `frame` and `to` are names of joints: q_frame = Σ polynomial[n] q_to ** n, in
    rad or m; without `to` only the first number.
    """

    frame: str
    kind: str = "point"
    to: str = ""
    stiffness: float = 0.0
    damping: float = 0.0
    compliance: float = 0.0
    moment_compliance: float | None = None
    normal: Vector3 = (0.0, 0.0, 1.0)
    length: float = 0.0
    polynomial: tuple[float, ...] = ()

    @property
    def of_joints(self) -> bool:
        """Whether it holds joints and not frames."""
        return self.kind == JOINTS

    @property
    def is_contact(self) -> bool:
        """Whether something outside holds it, and not the robot itself."""
        return not (self.to or self.of_joints)

    @property
    def rows(self) -> int:
        """How many directions it holds: first those of turning, then those of moving."""
        return CONSTRAINT_ROWS[self.kind]

    @property
    def turning_rows(self) -> int:
        """How many of the rows, the first ones, hold turning."""
        return {"fixed": 3, "hinge": 2, JOINTS: 1}.get(self.kind, 0)

    @property
    def compliances(self) -> list[float]:
        """Return the compliance of each row."""
        turning = self.compliance if self.moment_compliance is None else self.moment_compliance
        return [turning] * self.turning_rows + [self.compliance] * (self.rows - self.turning_rows)

    def with_floats(self) -> Constraint:
        """Return the constraint with its numbers as floats. Raise RobotError if one is not a finite number."""
        names = ("stiffness", "damping", "compliance", "length")
        ranges = [FINITE if name == "length" else AT_LEAST_ZERO for name in names]
        own: dict[str, Any] = {
            name: number(f"{self.text} has {name} ", getattr(self, name), accepted, RobotError)
            for name, accepted in zip(names, ranges, strict=True)
        }
        if self.polynomial:
            parts = numbers(f"{self.text} has polynomial ", self.polynomial, (None,), FINITE, RobotError)
            own["polynomial"] = tuple(parts.tolist())
        return replace(self, **own)

    @property
    def text(self) -> str:
        """Describe the constraint in a few words."""
        if self.of_joints:
            return f"equality of joint '{self.frame}'" + (f" with '{self.to}'" if self.to else "")
        return f"loop from '{self.frame}' to '{self.to}'" if self.to else f"contact '{self.frame}'"
