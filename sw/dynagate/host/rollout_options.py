"""Options of a rollout, for all devices."""

from __future__ import annotations

from dataclasses import dataclass

from dynagate.base.arguments import check_count, is_whole
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.upper_limits import MAX_STEPS
from dynagate.integrators.motion_options import MotionOptions


@explained
@dataclass(frozen=True)
class RolloutOptions(MotionOptions):
    """Options of a `Rollout`, which are also its keywords.

    Raises:
        ArgumentError: An option is not possible.
        ArgumentTypeError: An option has another type.
    """

    steps: int = 0
    """Number of steps."""
    linearize: bool = False
    """Return the matrices a and b of every step too (explicit integrators)."""
    every: int = 1
    """Return only the states after every this many steps, a divisor of `steps`; `steps` itself for the last state."""

    def _check(self) -> None:
        self._check_method(linearize=self.linearize)
        _check_steps(self.steps, self.every, self.linearize)
        super()._check()
        if self.feedback and self.every > 1:
            raise ArgumentError(
                f"feedback with every={self.every}; expected every=1: torques are those of every step",
                code="DG-ROLLOUT-013",
            )


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
