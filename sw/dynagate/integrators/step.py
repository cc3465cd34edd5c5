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


class StepRecording:
    """A step in a recording.

    far: velocities are drawn as large as those that move a joint a good part of its way in the step, which is where a
    method that solves equations has its last digits; constant dt only.
    """

    def __init__(self, robot: Robot, options: StepOptions, name: str, *, far: bool = False, wrap: bool = False) -> None:
        self.robot, self.options, self._wraps = robot, options, wrap
        self.recording = Recording(name, robot.name)
        self._sizes = typical_sizes(tree_of(robot))
        if far:
            assert options.dt is not None
            self._sizes["qd"] = self._sizes["increment"] / options.dt
        quaternions = tuple((part.start, part.stop) for part in robot.quaternions())
        self.q = self.recording.input("q", (robot.nq,), self._sizes["q"], unit_vectors=quaternions)
        self.qd, self.tau = self.velocities("qd"), self.velocities("tau")
        self.held: dict[str, Array] = {}  # which constraints are active
        if options.constrained:
            self.held["active"] = self.recording.input("active", (len(robot.constraints),), switches=True)
        self.dt = options.dt if options.dt is not None else self.recording.input("dt", (), self._sizes["dt"])[()]
        self.forces = Forces(robot, options.forces)
        self.force_inputs = {name: self.velocities(name, "qd") for name in self.forces.inputs}
        self.parameters = parameter_inputs(self.recording, robot, self._sizes)
        self.dynamics_parameters = self._in_dynamics()

    def _in_dynamics(self) -> dict[str, Array]:
        """The variable parameters of the robot whose forward dynamics the step has."""
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
        """A new input (nv,), with numbers of the same size as the input `like` of the listed functions has."""
        return self.recording.input(name, (self.robot.nv,), self._sizes[like or name])

    def after(self, acceleration: Any, q: Array, qd: Array, tau: Array) -> tuple[Array, Array]:
        """q and q̇ after the step. acceleration(q, qd, tau)."""

        def loaded(position: Array, velocity: Array) -> Array:
            load = tau + self.pushed(position, velocity) if self.forces.forces else tau
            return acceleration(position, velocity, load)

        with scope("step"):
            moved, velocity = EXPLICIT_METHODS[self.options.method].step(self.robot, loaded, q, qd, self.dt)
            for force in self.options.forces:
                moved, velocity = force.after_step(self.robot, moved, velocity)
            return (self._wrapped(moved) if self._wraps else moved), velocity

    def pushed(self, q: Array, qd: Array) -> Array:
        """The forces (nv,) at a state."""
        return self.forces.torque(q, qd, self.dt, self.force_inputs, self.parameters)

    def _wrapped(self, q: Array) -> Array:
        """A step turns a joint by less than a turn."""
        q = q.copy()
        for joint, iq, _ in self.robot.moving():
            if self.robot.is_periodic(joint):
                angle = q[iq.start]
                angle = select(angle - math.pi, angle - 2.0 * math.pi, angle)
                q[iq.start] = select(-math.pi - angle, angle + 2.0 * math.pi, angle)
        return q

    def graph(self, outputs: dict[str, Array]) -> Graph:
        return replace(self.recording.graph(outputs), forces=acting_friction(self.robot, self.options.forces))


def step_graph(robot: Robot, options: StepOptions, *, wrap: bool = False) -> Graph:
    """The graph of a step: q (nq,), qd, tau (nv,) and, unless it is constant, dt () to q_next (nq,), qd_next (nv,). The
    robot's variable parameters are inputs too. wrap: as of a `StepRecording`."""
    step = StepRecording(robot, options, "step", wrap=wrap)
    forward = trace(options.in_step(robot), options.dynamics, form=options.form)

    def acceleration(q: Array, qd: Array, tau: Array) -> Array:
        values = step.recording.replay(forward, {"q": q, "qd": qd, "tau": tau, **step.held, **step.dynamics_parameters})
        return output_values(forward.outputs, values)["qdd"]

    q, qd = step.after(acceleration, step.q, step.qd, step.tau)
    return step.graph({"q_next": q, "qd_next": qd})
