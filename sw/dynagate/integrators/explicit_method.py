"""Explicit integrators, by the tableaux of `dynamics.steps.explicit`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.loop import Count, Loop
from dynagate.integrators.linearized import linearized_step_graph
from dynagate.integrators.motion import Integrator, Motion
from dynagate.integrators.step import CARRY, step_graph, step_inputs
from dynagate.integrators.step_vjp import step_vjp_graph
from dynagate.robot import Robot


@dataclass(frozen=True)
class ExplicitIntegrator(Integrator):
    """An explicit integrator, one of `explicit.EXPLICIT_METHODS`."""

    integrator: str

    linearizes: ClassVar[bool] = True
    keeps_stops: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.integrator

    def motion(self, robot: Robot, options: StepOptions, *, linearize: bool = False, every: int = 1) -> Motion:
        """Return the loop over steps."""
        return Motion(rollout_loop(robot, self._own(options), linearize=linearize, every=every))

    def reverse(self, robot: Robot, options: StepOptions) -> Graph:
        """Return the reverse of a step."""
        return step_vjp_graph(robot, self._own(options))

    def _own(self, options: StepOptions) -> StepOptions:
        return replace(options, integrator=self.integrator)


def rollout_loop(robot: Robot, options: StepOptions, *, linearize: bool = False, every: int = 1) -> Loop:
    """Return the loop of a rollout.

    Its inputs are q, qd and the torques of each step. Its outputs are q_next and qd_next, and with linearize a and b.

    Args:
        robot: The robot.
        options: Options of the step.
        linearize: Whether to return the derivatives of each step.
        every: Number of steps between two states that are returned.
    """
    graph = linearized_step_graph(robot, options) if linearize else step_graph(robot, options)
    kept = ("q_next", "qd_next", *(("a", "b") if linearize else ()))
    name = f"rollout_{options.method}{'_linearized' if linearize else ''}{f'_every_{every}' if every > 1 else ''}"
    return Loop(name, robot.name, (graph,), CARRY, Count(), ("tau", *step_inputs(robot, options)), kept, every=every)
