"""Options of a rollout, for all devices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dynagate.base.arguments import check_count, is_whole
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import check_fields, explained
from dynagate.base.upper_limits import MAX_STEPS
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
    """Options of a `Rollout`, which are also its keywords.

    Raises:
        ArgumentError: An option is not possible.
        ArgumentTypeError: An option has another type.
    """

    integrator: str | Integrator | None = None  # type: ignore[assignment]  # wider than that of one step
    """"euler", "semi_implicit_euler" (the default), "rk2", "rk3", "rk4", "variational", "position_based", or an
    `Integrator` with options of its own.
    """
    steps: int = 0
    """Number of steps."""
    linearize: bool = False
    """Return the matrices a and b of every step too (explicit integrators)."""
    every: int = 1
    """Return only the states after every this many steps, a divisor of `steps`; `steps` itself for the last state."""
    contacts: RigidContact | None = None
    """Rigid ground with dry friction that points may touch and leave, by semi-implicit steps ("cpu", "cuda",
    "numpy").
    """
    feedback: Feedback = False
    """Add gain (q ⊖ q_ref, q̇ - qd_ref) to the torque of each step, with ⊖ as in `dynagate.difference`. Largest torques
    in place of True bound it, N m or N, one or nv.
    """

    def __post_init__(self) -> None:
        check_forces(self.forces)
        super().__post_init__()

    def _check(self) -> None:
        self.chosen_method.check(self.step, linearize=self.linearize)
        _check_steps(self.steps, self.every, self.linearize)
        object.__setattr__(self, "feedback", checked_feedback(self.feedback))
        check_fields(self)
        if self.feedback and self.every > 1:
            raise ArgumentError(
                f"feedback with every={self.every}; expected every=1: torques are those of every step",
                code="DG-ROLLOUT-013",
            )

    @cached_property
    def chosen_method(self) -> Integrator:
        """Return the integrator by its name. Raise ArgumentError if the name is unknown, or if contacts= replaces
        it.
        """
        if self.contacts is not None:
            if self.integrator is not None:
                raise ArgumentError(
                    f"contacts= with integrator={self.integrator!r:.60}; expected only contacts=", code="DG-ROLLOUT-014"
                )
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
        raise ArgumentError(
            f"every={every} of {steps} steps; expected a whole number that divides them", code="DG-ROLLOUT-015"
        )
    if linearize and every > 1:
        raise ArgumentError(
            f"linearize with every={every}; expected every=1: a and b are those of every step", code="DG-ROLLOUT-016"
        )
