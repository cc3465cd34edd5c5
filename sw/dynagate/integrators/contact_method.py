"""Rigid contact with dry friction as a method of rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dynagate.base.errors import ArgumentError
from dynagate.integrators.contact_step import IMPULSE, LIFT, RigidContact, contact_equations, contact_loop
from dynagate.integrators.equations_vjp import Equations
from dynagate.integrators.motion import Integrator, Motion
from dynagate.integrators.step import StepOptions
from dynagate.robot import Robot
from dynagate.robot.variable import check_constant


@dataclass(frozen=True)
class ContactIntegrator(Integrator):
    """Semi-implicit steps of impulses (`contact_step`). contact: the points and planes, and their law."""

    contact: RigidContact

    name: ClassVar[str] = "contact"

    def __post_init__(self) -> None:
        if not isinstance(self.contact, RigidContact):
            raise ArgumentError(f"contacts={self.contact!r:.60}; expected a RigidContact, or none")

    def check(self, options: StepOptions, *, linearize: bool) -> None:
        if (
            linearize
            or options.dt is None
            or options != StepOptions(options.dt, implicit_damping=options.implicit_damping)
        ):
            raise ArgumentError(
                "contacts= with another option than steps, dt, every, implicit_damping, device and dtype; expected "
                "those alone, with a constant dt"
            )

    def motion(self, robot: Robot, options: StepOptions, *, linearize: bool = False, every: int = 1) -> Motion:
        self.check(options, linearize=linearize)
        check_constant(robot, "a step with contacts=")
        assert options.dt is not None
        return Motion(
            contact_loop(options.in_step(robot), self.contact, options.dt, every=every),
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

    def equations(self, robot: Robot, options: StepOptions) -> Equations:
        assert options.dt is not None
        return contact_equations(options.in_step(robot), self.contact, options.dt)
