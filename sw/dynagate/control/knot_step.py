"""The step of a robot from knot to knot of a horizon, for all solvers: that of rollouts with the same options."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.dynamics.spatial import Scalar, select
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.loop import ITERATIONS, RESIDUAL, Loop
from dynagate.graph.ops import BEYOND
from dynagate.graph.recorder import Recording
from dynagate.graph.steps import Step
from dynagate.integrators.feedback import closed_derivatives, feedback_graph, feedback_inputs
from dynagate.integrators.linearized import linearized_step_graph
from dynagate.integrators.motion import Motion
from dynagate.integrators.motion_options import MotionOptions
from dynagate.integrators.step import step_inputs
from dynagate.robot import Robot

CARRY = {"q_end": "q0", "qd_end": "qd0"}
"""The state that is carried from knot to knot."""

PREFIX = "step."
"""Prefix of values that only a step uses, such as the impulses of contacts."""

APPLIED = f"{PREFIX}tau"
"""Torques of a step with feedback, which follow from the torques of the knot."""

Steps = tuple[Step, ...]


class KnotStep:
    """The step of a robot from one knot to the next.

    Args:
        robot: The robot.
        options: Options of the step.

    Raises:
        ArgumentError: The steps of the integrator begin with more than q and q̇.
    """

    def __init__(self, robot: Robot, options: StepOptions) -> None:
        self.robot = robot
        self.options = options if isinstance(options, MotionOptions) else MotionOptions(**options.of_step())
        method = self.options.chosen_method
        if not method.linearizes and self.options.contacts is None:
            raise ArgumentError(
                f"{method.in_errors} of a solver, whose steps begin with more than q and qd; expected an explicit "
                "integrator, such as 'rk4', or contacts=",
                code="DG-SOLVER-060",
            )

    @property
    def dt(self) -> float | None:
        """Seconds of a step; None if they are an input."""
        return self.options.dt

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Return the inputs of each knot besides torques, and their shapes."""
        feedback, size = self.options.feedback, {"active": len(self.robot.constraints)}
        of_step = {name: (size.get(name, self.robot.nv),) for name in step_inputs(self.robot, self.options.step)}
        return {**of_step, **(feedback_inputs(self.robot, feedback) if feedback else {})}

    @property
    def moves_by_velocity(self) -> bool:
        """Whether the configuration after a step is q + dt q̇⁺, entry by entry."""
        explicit = self.options.contacts is None and self.options.step.method == "semi_implicit_euler"
        stopped = any(force.after_steps for force in self.options.forces)
        return explicit and not stopped and not self.robot.quaternions()

    @cached_property
    def begin(self) -> dict[str, Array]:
        """Return the other values that the first knot begins with."""
        motion = self._motion
        zeros = {PREFIX + name: np.zeros(size) for name, size in motion.zeros.items()}
        return {**zeros, **{PREFIX + name: np.array(value) for name, value in motion.constants.items()}}

    @cached_property
    def carry(self) -> dict[str, str]:
        """Values carried from knot to knot."""
        names = self._names(self._motion.loop)
        own = {names[a]: names[b] for a, b in self._motion.loop.carry.items() if b not in ("q", "qd")}
        return {**CARRY, **own}

    @cached_property
    def unsolved(self) -> str | None:
        """Name of the value () that counts knots whose step has not converged; None if steps solve no equations."""
        return None if self._motion.failed is None else PREFIX + self._motion.failed

    def steps(self, torque: str) -> Steps:
        """Return the step from q0 and qd0 to q_end and qd_end.

        Args:
            torque: Name of the torques.
        """
        loop, (q, qd) = self._motion.loop, self._motion.states
        names = {**self._names(loop), q: "q_end", qd: "qd_end", "q": "q0", "qd": "qd0"}
        names |= {"feedforward": torque, "tau": APPLIED} if self.options.feedback else {"tau": torque}
        return tuple(step.renamed(names) for step in loop.steps)

    def derivatives(self, now: Mapping[str, str]) -> tuple[Steps, Graph]:
        """Return the steps and the graph that compute the derivatives of a step, a (2 nv, 2 nv) and b (2 nv, nv).

        Args:
            now: Names of q, qd and tau of the knot.
        """
        *first, linear = self._linearized()
        assert isinstance(linear, Graph)
        if not self.options.feedback:
            return tuple(step.renamed(now) for step in first), linear.renamed(now)
        feedback, inner = self.options.feedback, {**now, "tau": APPLIED}
        commanded, opened = {**now, "feedforward": now["tau"]}, {name: PREFIX + name for name in ("a", "b")}
        law = feedback_graph(self.robot, feedback).named(commanded, {"tau": APPLIED})
        closed = closed_derivatives(self.robot, feedback).named({**commanded, **opened}, {})
        return (law, *(step.renamed(inner) for step in first), linear.renamed({**inner, **opened})), closed

    def _linearized(self) -> Steps:
        """Return the steps without feedback whose last one computes a and b."""
        if self.options.contacts is None:
            return (linearized_step_graph(self.robot, self.options.step),)
        loop = self.options.chosen_method.motion(self.robot, self.options.step, linearize=True).loop
        names = self._names(loop)
        *first, linear = loop.steps
        return (*(step.renamed(names) for step in first), linear.renamed({**names, "a": "a", "b": "b"}))

    def infinite_if_unsolved(self, recording: Recording, cost: Scalar) -> Scalar:
        """Return a cost in a recording, or infinity if a step of the motion has not converged."""
        if self.unsolved is None:
            return cost
        count = recording.input(self.unsolved, ())[()]
        return select(count - 0.5, (count * BEYOND) * (count * BEYOND), cost)

    @cached_property
    def _motion(self) -> Motion:
        return self.options.motion(self.robot)

    def _names(self, loop: Loop) -> dict[str, str]:
        """Return the names of the values of a loop for solvers: those that no call passes have a prefix."""
        shared = {"q", "qd", "tau", "dt", "feedforward", *self.inputs, ITERATIONS, RESIDUAL}
        shared |= {port.name for port in loop.inputs if port.parameter}
        return {name: PREFIX + name for name in loop.values if name not in shared}
