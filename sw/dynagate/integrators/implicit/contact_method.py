"""Rigid contact with dry friction as an integrator of rollouts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from dynagate.base.arguments import shown
from dynagate.base.arrays import Floats
from dynagate.base.errors import ArgumentError
from dynagate.forces.checks import MAKING
from dynagate.forces.options import StepOptions
from dynagate.integrators.adjoint import StepEquations
from dynagate.integrators.implicit.contact import FASTEST, IMPULSE, LIFT, contact_equations, contact_loop
from dynagate.integrators.implicit.contact_states import touching
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.integrators.linearized import linearized
from dynagate.integrators.motion import Integrator, Motion
from dynagate.robot import Robot


@dataclass(frozen=True)
class ContactIntegrator(Integrator):
    """Semi-implicit steps of impulses (`contact_step`).

    contact: The points and planes, and their law. integers: Whether values stay small enough for integers.
    """

    contact: RigidContact
    integers: bool = False

    name: ClassVar[str] = "contact"
    keeps_stops: ClassVar[bool] = True
    largest_tolerance: ClassVar[float] = 1e-3
    faster: ClassVar[float] = 4.0
    unsolved: ClassVar[float] = 2e-2

    def __post_init__(self) -> None:
        if not isinstance(self.contact, RigidContact):
            raise ArgumentError(
                f"contacts={shown(self.contact)}; expected RigidContact(points), with points such as {MAKING['Point']}",
                code="DG-CONTACT-011",
            )

    @property
    def tolerance(self) -> float:
        """Return the largest change of a point's velocity by the last sweep, m/s."""
        return self.contact.tolerance

    def with_tolerance(self, tolerance: float) -> ContactIntegrator:
        """Return the integrator with another tolerance. In integers it is a power of two, which all formats hold."""
        exact = 2.0 ** math.floor(math.log2(tolerance)) if self.integers else tolerance
        return replace(self, contact=replace(self.contact, tolerance=exact))

    def in_words(self, word: int | None) -> ContactIntegrator:
        """Return the integrator for integers, of any word length, and for their reference in float64."""
        return replace(self, integers=True)

    def starts(self, robot: Robot, q: Floats, ends: tuple[Floats, Floats], seed: int) -> Floats:
        """Return configurations near q of which none is below the ground, and many touch it."""
        return touching(robot, self.contact, q, ends, seed)

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
            contact_loop(robot, self.contact, options, every=every, integers=self.integers),
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
            reach={"count": self.contact.sweeps + 1.0, "moved": FASTEST},
            scattered=(IMPULSE, LIFT),
        )
        return linearized(motion, robot, options, self.equations(robot, options)) if linearize else motion

    def equations(self, robot: Robot, options: StepOptions) -> StepEquations:
        """Return the equations that a step solves."""
        return contact_equations(robot, self.contact, options)
