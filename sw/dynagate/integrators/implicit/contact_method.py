"""Rigid contact with dry friction as an integrator of rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dynagate.base.arguments import shown
from dynagate.base.errors import ArgumentError
from dynagate.forces.checks import MAKING
from dynagate.forces.options import StepOptions
from dynagate.integrators.adjoint import StepEquations
from dynagate.integrators.implicit.contact import IMPULSE, LIFT, contact_equations, contact_loop
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.integrators.linearized import linearized
from dynagate.integrators.motion import Integrator, Motion
from dynagate.robot import Robot


@dataclass(frozen=True)
class ContactIntegrator(Integrator):
    """Semi-implicit steps of impulses (`contact_step`). contact: the points and planes, and their law."""

    contact: RigidContact

    name: ClassVar[str] = "contact"
    keeps_stops: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.contact, RigidContact):
            raise ArgumentError(
                f"contacts={shown(self.contact)}; expected RigidContact(points), with points such as {MAKING['Point']}",
                code="DG-CONTACT-011",
            )

    @property
    def in_errors(self) -> str:
        return "contacts="

    def refused(self, options: StepOptions, *, linearize: bool) -> dict[str, tuple[bool, str]]:
        """Return the options that the integrator does not accept."""
        others = super().refused(options, linearize=linearize)
        return {"form": others["form"]}

    def motion(self, robot: Robot, options: StepOptions, *, linearize: bool = False, every: int = 1) -> Motion:
        """Return the loop over steps."""
        self.check(options, linearize=linearize)
        motion = Motion(
            contact_loop(robot, self.contact, options, every=every),
            constants={"failed": 0.0},
            zeros={"r": 3 * self.contact.pairs},
            failed="failed_next",
            extras={
                IMPULSE: ("swept", (self.contact.pairs, 3)),
                LIFT: ("lifted", (self.contact.pairs,)),
                "iterations": ("counted", ()),
            },
            solved=(IMPULSE, LIFT),
            in_float32=True,
        )
        return linearized(motion, robot, options, self.equations(robot, options)) if linearize else motion

    def equations(self, robot: Robot, options: StepOptions) -> StepEquations:
        """Return the equations that a step solves."""
        return contact_equations(robot, self.contact, options)
