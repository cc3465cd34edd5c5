"""One step of a robot as a graph: the body of a rollout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dynagate.base.arrays import Array
from dynagate.base.naming import scope
from dynagate.dynamics import tree_of
from dynagate.dynamics.spatial import array, select
from dynagate.dynamics.steps.damping import varied_armature
from dynagate.dynamics.steps.explicit import EXPLICIT_METHODS
from dynagate.forces import Forces
from dynagate.forces.listed import acting_friction
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import output_values
from dynagate.graph.recorder import Recording
from dynagate.graph.sizes import parameter_inputs, typical_sizes
from dynagate.robot import Robot
from dynagate.robot.variable import ARMATURE, DAMPING

CARRY = {"q_next": "q", "qd_next": "qd"}
"""The state from step to step."""


def step_inputs(robot: Robot, options: StepOptions) -> tuple[str, ...]:
    """Inputs of each step besides torques: which constraints are active, and those of forces."""
    return (*(("active",) if options.constrained else ()), *Forces(robot, options.forces).inputs)


class StepRecording:
    """A step in a recording.

    Args:
        robot: The robot.
        options: Options of the step.
        name: Name of the graph.
        wrap: Whether angles of joints without limits stay between -π and π.
        far: Whether typical velocities are so large that a joint moves a good part of its range in the step, where
            integrators that solve equations need their last digits.
    """

    def __init__(self, robot: Robot, options: StepOptions, name: str, *, far: bool = False, wrap: bool = False) -> None:
        self.robot, self.options, self._wraps = robot, options, wrap
        self.recording = Recording(name, robot.name)
        self._sizes = typical_sizes(tree_of(robot))
        if far:
            self._sizes["qd"] = self._sizes["increment"] / (options.dt or self._sizes["dt"])
        quaternions = tuple((part.start, part.stop) for part in robot.quaternions())
        self.q = self.recording.input("q", (robot.nq,), self._sizes["q"], unit_vectors=quaternions)
        self.qd, self.tau = self.velocities("qd"), self.velocities("tau")
        self.held: dict[str, Array] = {}  # which constraints are active
        if options.constrained:
            self.held["active"] = self.recording.input("active", (len(robot.constraints),), switches=True)
        self.dt = options.dt if options.dt is not None else self.recording.input("dt", (), self._sizes["dt"])[()]
        self.time_inputs = ("dt",) if options.dt is None else ()
        self.forces = Forces(robot, options.forces)
        self.force_inputs = {name: self.velocities(name, "qd") for name in self.forces.inputs}
        self.parameters = parameter_inputs(self.recording, robot, self._sizes)
        self.dynamics_parameters = self._in_dynamics()

    def _in_dynamics(self) -> dict[str, Array]:
        """Return the variable parameters of the robot whose forward dynamics the step has."""
        stepped = self.options.in_step(self.robot)
        if stepped.variable == self.robot.variable:
            return self.parameters
        assert self.options.dt is not None
        inputs = {variable.input for variable in stepped.variables}
        same = {name: values for name, values in self.parameters.items() if name in inputs}
        return {**same, **varied_armature(self.robot, self.parameters, self.options.dt)}

    def shares(self, products: Mapping[str, Array]) -> dict[str, Array]:
        """Return the products by the robot's variable parameters, from those by `dynamics_parameters`."""
        stepped = self.options.in_step(self.robot)
        if stepped.variable == self.robot.variable:
            return {name: products[f"vjp_{name}"] for name in self.parameters}
        every = stepped.variables[-1]
        by_joint = dict(zip(every.owners, products[f"vjp_{every.input}"], strict=True))
        result = {}
        for variable in self.robot.variables:
            own = products.get(f"vjp_{variable.input}")
            if variable.kind in (ARMATURE, DAMPING):
                factor = self.options.dt if variable.kind == DAMPING else 1.0
                passed = array([by_joint[i] * factor for i in variable.owners]).reshape(variable.shape)
                own = passed + own if variable.kind == DAMPING and own is not None else passed
            assert own is not None
            result[variable.input] = own
        return result

    def velocities(self, name: str, like: str = "") -> Array:
        """Add an input (nv,) with the typical magnitudes of the input `like` of the function table."""
        return self.recording.input(name, (self.robot.nv,), self._sizes[like or name])

    def summed_weights(self) -> dict[str, Array]:
        """Add the weights lam_<name> of what all steps share, which a reverse step adds its part to: the robot's
        variable parameters, and dt if it is an input.

        Returns:
            The weights by the names of what they belong to.
        """
        shapes = {name: values.shape for name, values in self.parameters.items()} | dict.fromkeys(self.time_inputs, ())
        return {name: self.recording.input(f"lam_{name}", shape, unit_vectors=()) for name, shape in shapes.items()}

    def after(self, acceleration: Any, q: Array, qd: Array, tau: Array) -> tuple[Array, Array]:
        """Return q and q̇ after the step, for accelerations as a function of (q, qd, tau)."""

        def loaded(position: Array, velocity: Array) -> Array:
            load = tau + self.pushed(position, velocity) if self.forces.forces else tau
            return acceleration(position, velocity, load)

        with scope("step"):
            moved, velocity = EXPLICIT_METHODS[self.options.method].step(self.robot, loaded, q, qd, self.dt)
            for force in self.options.forces:
                moved, velocity = force.after_step(self.robot, moved, velocity)
            return (self._wrapped(moved) if self._wraps else moved), velocity

    def pushed(self, q: Array, qd: Array) -> Array:
        """Return the forces (nv,) at a state."""
        return self.forces.torque(q, qd, self.dt, self.force_inputs, self.parameters)

    def _wrapped(self, q: Array) -> Array:
        """Return q with angles between -π and π. A step rotates a joint by less than 2π."""
        q = q.copy()
        for joint, iq, _ in self.robot.moving():
            if self.robot.is_periodic(joint):
                angle = q[iq.start]
                angle = select(angle - math.pi, angle - 2.0 * math.pi, angle)
                q[iq.start] = select(-math.pi - angle, angle + 2.0 * math.pi, angle)
        return q

    def graph(self, outputs: dict[str, Array]) -> Graph:
        """Return the graph of these outputs."""
        return replace(self.recording.graph(outputs), forces=acting_friction(self.robot, self.options.forces))


def step_graph(robot: Robot, options: StepOptions, *, wrap: bool = False) -> Graph:
    """Return the graph of a step.

    Its inputs are q (nq,), qd, tau (nv,), dt () unless it is constant, and the robot's variable parameters. Its outputs
    are q_next (nq,) and qd_next (nv,).

    Args:
        robot: The robot.
        options: Options of the step.
        wrap: Whether angles of joints without limits stay between -π and π.
    """
    step = StepRecording(robot, options, "step", wrap=wrap)
    forward = trace(options.in_step(robot), options.dynamics, form=options.form)

    def acceleration(q: Array, qd: Array, tau: Array) -> Array:
        values = step.recording.replay(forward, {"q": q, "qd": qd, "tau": tau, **step.held, **step.dynamics_parameters})
        return output_values(forward.outputs, values)["qdd"]

    q, qd = step.after(acceleration, step.q, step.qd, step.tau)
    return step.graph({"q_next": q, "qd_next": qd})
