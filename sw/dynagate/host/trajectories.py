"""What a rollout returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dynagate.base.arguments import is_whole
from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.robot.checked import RobotOrName

if TYPE_CHECKING:
    from dynagate.integrators.browser import View

Array = npt.NDArray[Any]
OUTPUTS = {"q_next": "q", "qd_next": "qd", "a": "a", "b": "b"}
OUTPUTS |= {"failures": "converged", "iterations_of_step": "iterations", "residual_of_step": "residual"}
"""Output of a step -> the field of `Trajectories` that has it for all steps."""


@explained
class Trajectories:
    """What a rollout returns; leading axes are those of q0 without its last.

    q: (..., steps + 1, nq), rad, m and unit quaternions. qd: (..., steps + 1, nv), rad/s or m/s. The first ones are q0
    and qd0; of a rollout that gives every k-th state alone, (..., steps // k + 1, ·).
    a, b: (..., steps, 2 nv, 2 nv) and (..., steps, 2 nv, nv), ∂x⁺/∂x and ∂x⁺/∂τ of the state x = (q, q̇) by each step;
    None unless asked for.
    impulse: (..., steps, pairs, 3), of a rollout with rigid contact: what each point had from each plane in a step,
    normal and tangents (`contact_step.axes_of`), N s. Else None.
    lift: (..., steps, pairs), of a rollout with rigid contact, N s: the normal impulses that lifted points out of their
    planes in a step. They move the robot and stay out of its velocity. Else None.
    iterations: (..., steps) that each step took to solve its equations (evaluations of the variational residual, sweeps
    over contacts). residual: (..., steps) what it left of them, over the method's tolerance: 1 or less has converged.
    Both have no meaning after a step that ended a motion, and are None of methods that solve none; contacts have no
    residual.
    A rollout that keeps every k-th state has the impulse, lift, iterations, residual and away of every k-th step.
    away: (..., steps, 2, nv), rad or m, of position-based steps of order 3: the constant velocities that lead in 1 s
    from the configuration before a step to those at its middle and end, with which the step after begins too.
    tau: (..., steps, nv), N m or N, of a rollout with feedback: what it gave in each step. Else None.
    converged: (..., steps) whether each step has solved its equations.
    diverged: (...) the first step whose result is given and infinite or no number; -1 where all are finite.
    """

    __slots__ = (
        "_converged",
        "a",
        "away",
        "b",
        "diverged",
        "impulse",
        "iterations",
        "lift",
        "q",
        "qd",
        "residual",
        "tau",
    )

    def __init__(
        self,
        q: Array,
        qd: Array,
        a: Array | None,
        b: Array | None,
        diverged: Array,
        converged: Array | None = None,
        impulse: Array | None = None,
        iterations: Array | None = None,
        residual: Array | None = None,
        tau: Array | None = None,
        away: Array | None = None,
        lift: Array | None = None,
    ) -> None:
        self.q, self.qd, self.a, self.b, self.diverged, self._converged = q, qd, a, b, diverged, converged
        self.impulse, self.lift, self.tau, self.away = impulse, lift, tau, away
        self.iterations, self.residual = iterations, residual

    @property
    def converged(self) -> Array:
        """(..., steps) bool: whether each step has solved its equations, as those of an explicit method always have; of
        a rollout that gives every k-th state, (..., steps // k), whether all steps since the one before have."""
        return np.ones(self.q[..., 1:, 0].shape, bool) if self._converged is None else self._converged

    def view(self, robot: RobotOrName, *, which: int = 0, dt: float = 0.02, **options: Any) -> View:
        """Play a motion in the browser: `dynagate.view`. robot: whose motions these are, by a name or path for the
        shapes in its file. which: of a batch, counted over its leading axes. dt: s between the states, as the rollout
        has them. options: as `view` takes them.

        Raises as `view` does, and ValueError: there is no such motion; it ends where its numbers are not finite."""
        from dynagate.integrators.browser import view

        motions = self.q.reshape(-1, *self.q.shape[-2:])
        if not is_whole(which) or not 0 <= which < len(motions):
            raise ArgumentError(f"which={which!r}; expected a number from 0 to {len(motions) - 1}")
        finite = np.isfinite(motions[which]).all(axis=1)
        return view(
            robot, motions[which][: len(finite) if finite.all() else max(np.argmin(finite), 1)], dt=dt, **options
        )

    def __repr__(self) -> str:
        linear = "" if self.a is None else ", a, b"
        stuck = "" if self._converged is None else f", {int(np.logical_not(self._converged).sum())} steps not converged"
        diverged = int((self.diverged >= 0).sum())
        return f"<Trajectories q {self.q.shape}, qd {self.qd.shape}{linear}, {diverged} diverged{stuck}>"
