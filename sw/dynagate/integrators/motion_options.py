"""Options of a motion: those of a step, its integrator, rigid contacts and the feedback law. All that step a robot
through time take them: rollouts, and the knots of solvers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dynagate.base.errors import ArgumentError
from dynagate.base.explained import check_fields, explained
from dynagate.dynamics.steps.step import DEFAULT_INTEGRATOR
from dynagate.forces.force import check_forces
from dynagate.forces.options import StepOptions
from dynagate.integrators.drive import COMMAND, StepDrive, undriven, with_drive
from dynagate.integrators.feedback import Feedback, checked_feedback, with_feedback
from dynagate.integrators.implicit.contact_method import ContactIntegrator
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.integrators.methods import method_of
from dynagate.integrators.motion import Integrator, Motion
from dynagate.robot import Robot


@explained
@dataclass(frozen=True)
class MotionOptions(StepOptions):
    """Options of a robot's motion through time.

    Raises:
        ArgumentError: An option is not possible.
        ArgumentTypeError: An option has another type.
    """

    integrator: str | Integrator | None = None  # type: ignore[assignment]  # wider than that of one step
    """"euler", "semi_implicit_euler" (the default), "rk2", "rk3", "rk4", "variational", "position_based", or an
    `Integrator` with options of its own.
    """
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
        self._check_method(linearize=False)
        object.__setattr__(self, "feedback", checked_feedback(self.feedback))
        check_fields(self)

    def _check_method(self, *, linearize: bool) -> None:
        """Raise ArgumentError if the integrator does not accept the options."""
        self.chosen_method.check(self.step, linearize=linearize)

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

    def motion(self, robot: Robot, *, linearize: bool = False, every: int = 1) -> Motion:
        """Return the motion of a robot with these options.

        Args:
            robot: The robot.
            linearize: Include the derivatives of every step.
            every: Keep the state after every this many steps only.

        Raises:
            ArgumentError: An option does not fit the robot.
        """
        motion = self.chosen_method.motion(robot, undriven(self.step), linearize=linearize, every=every)
        drive = StepDrive(robot, self.step)
        motion = with_drive(motion, drive) if drive else motion
        if not self.feedback:
            return motion
        return with_feedback(motion, robot, self.feedback, COMMAND if drive else "tau")
