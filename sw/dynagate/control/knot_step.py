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
from dynagate.integrators.adjoint import before
from dynagate.integrators.drive import COMMAND, STEP_A, STEP_B, StepDrive, undriven
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
"""Torques of a step with feedback or actuators, which follow from the torques of the knot."""

COMMANDED = f"{PREFIX}{COMMAND}"
"""Torques that actuators receive in a step with feedback."""

Steps = tuple[Step, ...]


class KnotStep:
    """The step of a robot from one knot to the next.

    Args:
        robot: The robot.
        options: Options of the step.

    Raises:
        ArgumentError: The steps of the integrator begin with more than q and q̇, or an actuator is not stable with the
            time step.
        ForceError: An actuator does not fit the robot.
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
        self.drive = StepDrive(robot, self.options.step)

    def check_on_chip(self) -> None:
        """Raise ArgumentError if a chip cannot compute the step, because it has actuators."""
        if self.drive:
            raise ArgumentError(
                f"the actuator {self.drive.actuators.chain[0].name} of a solver in fixed point; expected no actuators, "
                "or floating point, such as device='cpu'",
                code="DG-SOLVER-063",
            )

    @property
    def dt(self) -> float | None:
        """Seconds of a step; None if they are an input."""
        return self.options.dt

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Return the inputs of each knot besides torques, and their shapes."""
        feedback, size = self.options.feedback, {"active": len(self.robot.constraints)}
        names = (*step_inputs(self.robot, undriven(self.options.step)), *self.drive.actuators.inputs)
        of_step = {name: (size.get(name, self.robot.nv),) for name in names}
        return {**of_step, **(feedback_inputs(self.robot, feedback) if feedback else {})}

    @property
    def moves_by_velocity(self) -> bool:
        """Whether the configuration after a step is q + dt q̇⁺, entry by entry."""
        explicit = self.options.contacts is None and self.options.step.method == "semi_implicit_euler"
        stopped = any(force.after_steps for force in self.options.forces)
        return explicit and not stopped and not self.robot.quaternions() and not self.drive.sizes

    @cached_property
    def states(self) -> dict[str, tuple[str, int]]:
        """The states of actuators: name -> name of the value before a step, and count of its numbers."""
        return {name: (PREFIX + before(name), size) for name, size in self.drive.sizes.items()}

    @property
    def size(self) -> int:
        """Count of the numbers of a state (q, q̇, states of actuators), along velocities."""
        return 2 * self.robot.nv + sum(self.drive.sizes.values())

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
        first = "feedforward" if self.options.feedback else COMMAND if self.drive else "tau"
        names |= {COMMAND: COMMANDED, "tau": APPLIED, first: torque}
        return tuple(step.renamed(names) for step in loop.steps)

    def derivatives(self, now: Mapping[str, str]) -> tuple[Steps, Graph]:
        """Return the steps and the graph that compute the derivatives of a step, a (nx, nx) and b (nx, nv).

        Args:
            now: Names of q, qd and tau of the knot.
        """
        feedback = self.options.feedback
        if not feedback:
            return self._driven(now)
        commanded, opened = {**now, "feedforward": now["tau"]}, {name: PREFIX + name for name in ("a", "b")}
        torque = COMMANDED if self.drive else APPLIED
        law = feedback_graph(self.robot, feedback).named(commanded, {"tau": torque})
        states = self.size - 2 * self.robot.nv
        closed = closed_derivatives(self.robot, feedback, states).named({**commanded, **opened}, {})
        first, linear = self._driven({**now, "tau": torque})
        return (law, *first, linear.named({}, opened)), closed

    def _driven(self, now: Mapping[str, str]) -> tuple[Steps, Graph]:
        """Return the steps and the graph of the derivatives without feedback, as `derivatives` does."""
        *first, linear = self._linearized()
        assert isinstance(linear, Graph)
        if not self.drive:
            return tuple(step.renamed(now) for step in first), linear.renamed(now)
        own = {name: PREFIX + name for name in (*self.drive.carry, *self.drive.carry.values())}
        outer, opened = {**now, **own, COMMAND: now["tau"]}, {"a": PREFIX + STEP_A, "b": PREFIX + STEP_B}
        inner = {**now, "tau": APPLIED}
        applied = self.drive.graph.renamed({**outer, "tau": APPLIED})
        steps = (applied, *(step.renamed(inner) for step in first), linear.renamed({**inner, **opened}))
        return steps, self.drive.linear.renamed({**outer, STEP_A: opened["a"], STEP_B: opened["b"]})

    def _linearized(self) -> Steps:
        """Return the steps without feedback whose last one computes a and b."""
        options = undriven(self.options.step)
        if self.options.contacts is None:
            return (linearized_step_graph(self.robot, options),)
        loop = self.options.chosen_method.motion(self.robot, options, linearize=True).loop
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
