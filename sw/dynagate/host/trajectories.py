"""The result of a rollout."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from dynagate.base.arguments import is_whole
from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError, ArgumentTypeError
from dynagate.base.explained import explained
from dynagate.base.foreign_names import answering
from dynagate.base.notebook import arrays_table
from dynagate.robot import Robot
from dynagate.robot.checked import RobotOrName

if TYPE_CHECKING:
    from dynagate.views.scene.browser import View
    from dynagate.views.scene.pictures import Picture

SHOWN = 3
"""Number of motions that a notebook shows in one picture."""
EXTRAS = ("impulse", "lift", "tau", "away", "iterations", "residual")
"""Fields of `Trajectories` that only some rollouts have."""
OUTPUTS = {"q_next": "q", "qd_next": "qd", "a": "a", "b": "b"}
OUTPUTS |= {"failures": "converged", "iterations_of_step": "iterations", "residual_of_step": "residual"}
"""Output of a step -> the field of `Trajectories` that has it for all steps."""


@explained
class Trajectories:
    """Motions that a rollout computed. The leading axes are those of q0 without its last.

    A rollout that keeps every k-th state has steps // k in place of `steps` in all shapes.

    Attributes:
        q: Configurations (..., steps + 1, nq), rad, m and unit quaternions. The first one is q0.
        qd: Velocities (..., steps + 1, nv), rad/s or m/s. The first one is qd0.
        a, b: ∂x⁺/∂x (..., steps, 2 nv, 2 nv) and ∂x⁺/∂τ (..., steps, 2 nv, nv) of the state x = (q, q̇) by each step;
            None without `linearize`.
        tau: Applied torques (..., steps, nv), N m or N, of a rollout with feedback or actuators, else None.
        actuators: States of actuators (..., steps, numbers) after each step, by name; empty without such states.
        diverged: First step (...) whose state is not finite; -1 if all are finite.
        converged: Whether each step has solved its equations, (..., steps).
        iterations: Iterations (..., steps) that each step took: evaluations of the variational residual, or sweeps over
            contacts. None for integrators that solve no equations. Without meaning after a step that ended a motion.
        residual: What each step left of its equations, (..., steps), over the tolerance: 1 or less has converged. None
            for integrators that solve no equations, and for contacts.
        impulse: Impulse (..., steps, pairs, 3) at each point from each plane in a step, N s, along the normal and two
            tangents (`contact_step.axes_of`), of a rollout with rigid contact, else None.
        lift: Normal impulses (..., steps, pairs), N s, that lifted points out of their planes in a step, of a rollout
            with rigid contact, else None. They move the robot and stay out of its velocity.
        away: Velocities (..., steps, 2, nv), rad or m, that lead in 1 s from the configuration before a step to those
            at its middle and its end, of position-based steps of order 3, else None.

    Raises:
        ArgumentTypeError: A result has another name.
    """

    __slots__ = (
        "_converged",
        "_dt",
        "_robot",
        "a",
        "actuators",
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
        **extras: Array | None,
    ) -> None:
        if unknown := sorted(extras.keys() - set(EXTRAS)):
            raise ArgumentTypeError(
                f"Trajectories() takes no '{unknown[0]}'; expected some of {', '.join(EXTRAS)}", code="DG-ROLLOUT-038"
            )
        self.q, self.qd, self.a, self.b, self.diverged, self._converged = q, qd, a, b, diverged, converged
        self.impulse: Array | None = extras.get("impulse")
        self.lift: Array | None = extras.get("lift")
        self.tau: Array | None = extras.get("tau")
        self.away: Array | None = extras.get("away")
        self.iterations: Array | None = extras.get("iterations")
        self.residual: Array | None = extras.get("residual")
        self.actuators: dict[str, Array] = {}
        self._robot: Robot | None = None
        self._dt = 0.02

    def of(self, robot: Robot, dt: float) -> Trajectories:
        """Return these trajectories with their robot and time step, for pictures.

        Args:
            robot: The robot.
            dt: Time from a state to the next, s.

        Returns:
            The trajectories.
        """
        self._robot, self._dt = robot, dt
        return self

    def result(self, name: str) -> Any:
        """Return the field of this name, or the state of actuators.

        Args:
            name: Name of the result.

        Returns:
            The array, or None if the rollout has no such result.
        """
        return self.actuators[name] if name in self.actuators else getattr(self, name)

    @property
    def converged(self) -> Array:
        """Whether each step has solved its equations, (..., steps); always true for explicit methods. For a rollout
        that keeps every k-th state, (..., steps // k): whether all steps since the previous kept state have.
        """
        return np.ones(self.q[..., 1:, 0].shape, bool) if self._converged is None else self._converged

    def draw(
        self,
        file: str | PathLike[str] | None = None,
        *,
        which: int = 0,
        robot: RobotOrName | None = None,
        **options: Any,
    ) -> Picture:
        """Draw a motion with `dynagate.draw`, until its numbers are not finite.

        Args:
            file: Path of the picture, as of `dynagate.draw`.
            which: Index of the motion in the batch, over its flattened leading axes.
            robot: The robot, such as the path of its file for its shapes. The rollout's by default.
            options: As of `dynagate.draw`. `dt` is that of the rollout unless it is passed.

        Returns:
            The picture.

        Raises:
            ArgumentError: As `dynagate.draw` does, or there is no such motion, or the robot is not known.
        """
        from dynagate.views.scene.pictures import draw

        return draw(self._robot_or(robot), self._finite(which), file, **{"dt": self._dt, **options})

    def view(self, robot: RobotOrName | None = None, *, which: int = 0, **options: Any) -> View:
        """Play a motion in the browser with `dynagate.view`, until its numbers are not finite.

        Args:
            robot: The robot, such as the path of its file for its shapes. The rollout's by default.
            which: Index of the motion in the batch, over its flattened leading axes.
            options: As of `dynagate.view`. `dt` is that of the rollout unless it is passed.

        Returns:
            The view.

        Raises:
            ArgumentError: As `dynagate.view` does, or there is no such motion, or the robot is not known.
        """
        from dynagate.views.scene.browser import view

        return view(self._robot_or(robot), self._finite(which), **{"dt": self._dt, **options})

    def _robot_or(self, robot: RobotOrName | None) -> RobotOrName:
        if robot is None and self._robot is None:
            raise ArgumentError(
                "these trajectories come from no rollout of a robot; expected robot=", code="DG-ROLLOUT-039"
            )
        return robot if robot is not None else self._robot  # type: ignore[return-value]

    def _finite(self, which: int) -> Array:
        """Return a motion up to where its numbers are not finite, and at least its first state."""
        motions = self.q.reshape(-1, *self.q.shape[-2:])
        if not is_whole(which) or not 0 <= which < len(motions):
            raise ArgumentError(
                f"which={which!r}; expected a number from 0 to {len(motions) - 1}", code="DG-ROLLOUT-040"
            )
        finite = np.isfinite(motions[which]).all(axis=1)
        return motions[which][: len(finite) if finite.all() else max(int(np.argmin(finite)), 1)]

    def _repr_html_(self) -> str:
        """Return a table of the arrays and a picture of the first motions that are finite, for a notebook."""
        names = ("q", "qd", "tau", "a", "b", "impulse", "lift", "iterations", "residual", "away", "diverged")
        table = arrays_table({name: own for name in names if (own := getattr(self, name)) is not None})
        if self._robot is None or not self.q.size:
            return table
        from dynagate.views.scene.notebook import motion_svg

        motions = self.q.reshape(-1, *self.q.shape[-2:])
        motions = motions[np.isfinite(motions).all(axis=(1, 2))][:SHOWN]
        return (motion_svg(self._robot, motions, self._dt) if len(motions) else "") + table

    def __repr__(self) -> str:
        linear = "" if self.a is None else ", a, b"
        stuck = "" if self._converged is None else f", {int(np.logical_not(self._converged).sum())} steps not converged"
        diverged = int((self.diverged >= 0).sum())
        return f"<Trajectories q {self.q.shape}, qd {self.qd.shape}{linear}, {diverged} diverged{stuck}>"


answering(
    Trajectories,
    {
        **dict.fromkeys(("x", "xs", "state", "states"), "trajectories.q and trajectories.qd"),
        **dict.fromkeys(("qs", "qpos"), "trajectories.q"),
        **dict.fromkeys(("v", "vs", "qvel", "qdot"), "trajectories.qd"),
    },
)
