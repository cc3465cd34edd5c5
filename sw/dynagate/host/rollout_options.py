"""Options of a rollout, for all devices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dynagate.base.arguments import check_count, is_whole
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import check_fields, explained
from dynagate.base.largest import MAX_STEPS
from dynagate.dynamics.steps.step import DEFAULT_INTEGRATOR
from dynagate.forces.force import check_forces
from dynagate.forces.options import StepOptions
from dynagate.integrators.feedback import Feedback, checked_feedback
from dynagate.integrators.implicit.contact_method import ContactIntegrator
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.integrators.methods import method_of
from dynagate.integrators.motion import Integrator


@explained
@dataclass(frozen=True)
class RolloutOptions(StepOptions):
    """Options of a `Rollout`, whose keywords these fields are too.

    steps: how many. dt: seconds of a step, or None where each call says it. integrator: "euler", "semi_implicit_euler"
    (the default), "rk2", "rk3", "rk4", "variational", "position_based", or a `Integrator` with options of its own.
    linearize: give a and b of every step too (explicit integrators).
    every: return only the states after every this many steps, a divisor of `steps`; `steps` itself returns only the
    last one. form: of forward dynamics. implicit_damping: take joint damping at the velocity after the step, so that no
    step is too long for it (Euler's two methods, contacts). forces: of `dynagate.forces`, at every stage of a step:
    `Friction`, `Stops` at the limits of joints, `Servo` and others. Each call needs their inputs by name, such as a
    servo's `target`, (..., steps, nv) or its last axes. constrained: the robot's constraints (`with_contact`,
    `with_loop`) hold, all of them or those that a call names as `active` ("cpu", "cuda", "numpy"). contacts: rigid
    ground with dry friction that points may touch and leave (`integrators.RigidContact`), by semi-implicit steps of
    impulses, on the same devices. feedback: the torque of a step is tau + gain (q ⊖ q_ref, q̇ - qd_ref) of the state at
    its begin, ⊖ as in `dynagate.difference`, within ± the largest torques where they are given in place of True, N m or
    N, one or nv.

    Raises ValueError: an option is none of these; TypeError: one is of another type.
    """

    integrator: str | Integrator | None = None  # type: ignore[assignment]  # wider than that of one step
    steps: int = 0
    linearize: bool = False
    every: int = 1
    contacts: RigidContact | None = None
    feedback: Feedback = False

    def __post_init__(self) -> None:
        check_forces(self.forces)
        super().__post_init__()

    def _check(self) -> None:
        self.chosen_method.check(self.step, linearize=self.linearize)
        _check_steps(self.steps, self.every, self.linearize)
        object.__setattr__(self, "feedback", checked_feedback(self.feedback))
        check_fields(self)
        if self.feedback and self.every > 1:
            raise ArgumentError(f"feedback with every={self.every}; expected every=1: torques are those of every step")

    @cached_property
    def chosen_method(self) -> Integrator:
        """Return the integrator by its name. Raise ArgumentError if there is none, or contacts= replace it."""
        if self.contacts is not None:
            if self.integrator is not None:
                raise ArgumentError(f"contacts= with integrator={self.integrator!r:.60}; expected only contacts=")
            return ContactIntegrator(self.contacts)
        return method_of(DEFAULT_INTEGRATOR if self.integrator is None else self.integrator)

    @cached_property
    def step(self) -> StepOptions:
        """Options of each step. Methods that solve equations have no explicit integrator."""
        chosen = self.chosen_method
        return StepOptions(**self.of_step(integrator=chosen.name if chosen.linearizes else None))


def _check_steps(steps: int, every: int, linearize: bool) -> None:
    check_count("steps", steps, MAX_STEPS)
    if not (is_whole(every) and every >= 1 and steps % every == 0):
        raise ArgumentError(f"every={every} of {steps} steps; expected a whole number that divides them")
    if linearize and every > 1:
        raise ArgumentError(f"linearize with every={every}; expected every=1: a and b are those of every step")
