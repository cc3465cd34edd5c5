"""Constraints of a robot: contacts, closed loops and equalities of joints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dynagate.base.arguments import AT_LEAST_ZERO, FINITE, number, numbers
from dynagate.robot.errors import RobotError
from dynagate.robot.vectors import Vector3

CONTACTS = {"point": 3, "fixed": 6, "plane": 1}
"""Kind of a contact -> number of directions that it fixes: the origin; origin and rotation; the origin along a normal.
"""

LOOPS = {"point": 3, "fixed": 6, "hinge": 5, "distance": 1}
"""Kind of a loop -> number of directions that it fixes. A hinge leaves rotation about z free; a distance fixes one
direction.
"""

JOINTS = "joints"
"""Kind of a constraint that keeps a joint at a polynomial of another joint's position. It fixes one direction."""

CONSTRAINT_ROWS = CONTACTS | LOOPS | {JOINTS: 1}
"""Kind of any constraint -> number of directions that it fixes."""


LEAST_COMPLIANCE = 1e-12
"""Smallest accepted compliance above 0. A smaller number is lost when 1 is added for an inactive constraint."""


@dataclass(frozen=True)
class Constraint:
    """A constraint on a frame: a contact with the environment, such as a foot on the ground, or a loop to another
    frame.
    """

    frame: str
    """Name of the constrained frame or link; of a joint for the kind "joints"."""
    kind: str = "point"
    """"point" fixes the frame's origin, "fixed" also its rotation, and "plane" fixes the origin along a normal.

        The "hinge" of a loop leaves rotation about the frame's z axis free. A "distance" keeps the distance between the
        two
        origins, like a rod with ball joints at its ends. "joints" is an equality of joints.
    """
    to: str = ""
    """Name of the other frame of a loop or of the other joint; empty for a contact."""
    stiffness: float = 0.0
    """Baumgarte gain k, 1/s². The frame's acceleration is -k times the opening of the loop."""
    damping: float = 0.0
    """Baumgarte gain d, 1/s. The frame's acceleration is -d times its velocity."""
    compliance: float = 0.0
    """c in 1/kg, and 1/(kg m²) for moments: the frame yields with an acceleration of -c times the force.

        It is added to the diagonal of J M⁻¹ Jᵀ. A positive value keeps the matrix invertible if constraints are
        redundant.
    """
    moment_compliance: float | None = None
    """Compliance for moments, 1/(kg m²), if it differs."""
    normal: Vector3 = (0.0, 0.0, 1.0)
    """Normal of a plane in base axes, pointing away from the environment; scaled to length 1."""
    length: float = 0.0
    """Length of a distance constraint, m."""
    polynomial: tuple[float, ...] = ()
    """Coefficients for the kind "joints": q_frame = Σ polynomial[n] q_to ** n, rad or m.

        Without `to`, only the constant counts.
    """

    @property
    def of_joints(self) -> bool:
        """Whether it constrains joints instead of frames."""
        return self.kind == JOINTS

    @property
    def is_contact(self) -> bool:
        """Whether the environment holds the frame, and not the robot itself."""
        return not (self.to or self.of_joints)

    @property
    def rows(self) -> int:
        """Number of directions that it fixes: rotations first, then translations."""
        return CONSTRAINT_ROWS[self.kind]

    @property
    def turning_rows(self) -> int:
        """Number of rows that fix rotation; they come first."""
        return {"fixed": 3, "hinge": 2, JOINTS: 1}.get(self.kind, 0)

    @property
    def compliances(self) -> list[float]:
        """The compliance of each row."""
        moment_compliance = self.compliance if self.moment_compliance is None else self.moment_compliance
        return [moment_compliance] * self.turning_rows + [self.compliance] * (self.rows - self.turning_rows)

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
