"""The stages of an integrator's step in a recording, with their dependencies, for derivatives of a step.

A step consists of the integrator, as a graph of accelerations, and of forward dynamics at each stage with the torques
and forces there. Derivatives therefore pass each part in the cheapest way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.arrays import Array
from dynagate.dynamics.configuration import along_columns
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.derivatives import Derivative, output_values
from dynagate.integrators.step import StepRecording
from dynagate.robot import Robot


class Stage(NamedTuple):
    """A point at which a step evaluates an acceleration."""

    q: Array
    """Configuration (nq,)."""
    qd: Array
    """Velocity (nv,)."""
    tau: Array
    """Torques and forces (nv,)."""
    forces: Sequence[Any]
    """Values of the nodes in the graph of the forces."""


class IntegratorStages:
    """A step's stages."""

    def __init__(self, step: StepRecording) -> None:
        self.step, self.robot = step, step.robot
        self.graph, self.count = _integrator(step.robot, step.options)
        self.derivative = Derivative(self.graph, step.robot)

    @cached_property
    def _forces(self) -> Derivative:
        """The sum of the forces as a graph from q, qd, dt and inputs to force (nv,)."""
        step = StepRecording(self.robot, self.step.options, "forces")
        return Derivative(step.graph({"force": step.pushed(step.q, step.qd)}), self.robot)

    def values(self, accelerations: Mapping[str, Array]) -> list[Any]:
        """Return the values of the integrator's nodes. Stages without an acceleration so far have 0."""
        known = {port.name: np.zeros(port.shape).astype(object) for port in self.graph.inputs}
        inputs = {name: self.step.recording.inputs.get(name, value) for name, value in known.items()}
        return self.step.recording.replay(self.graph, {**inputs, **accelerations})

    def stage(self, accelerations: Mapping[str, Array], k: int) -> Stage:
        """Return stage k, after the accelerations of the previous stages."""
        outputs = output_values(self.graph.outputs, self.values(accelerations))
        q, qd, tau = outputs[f"q_{k}"], outputs[f"qd_{k}"], self.step.tau
        if not self.step.forces.forces:
            return Stage(q, qd, tau, ())
        recording = self.step.recording
        inputs = {port.name: recording.inputs.get(port.name) for port in self._forces.graph.inputs}
        forces = recording.replay(self._forces.graph, {**inputs, "q": q, "qd": qd})  # type: ignore[dict-item]
        return Stage(q, qd, tau + output_values(self._forces.graph.outputs, forces)["force"], forces)

    def forces_rates(self, stage: Stage, q_rates: Array, qd_rates: Array) -> Array:
        """Return the rates of the forces (nv, directions) for rates of q, along velocities, and q̇."""
        if not self.step.forces.forces:
            return np.zeros(qd_rates.shape).astype(object)
        return self._forces.along(stage.forces, {"q": q_rates, "qd": qd_rates}, ["force"])["force"]

    def forces_weights(self, stage: Stage, weights: Array) -> dict[str, Array]:
        """Return weightsᵀ ∂forces/∂q and weightsᵀ ∂forces/∂q̇, (nv,), and the products for the robot's variable
        parameters, the time step if it is an input, and inputs of forces, by input.
        """
        parameters, time = self.step.parameters, self.step.time_inputs
        if not self.step.forces.forces:
            none = np.zeros(self.robot.nv).astype(object)
            still = {name: np.array(0.0, dtype=object) for name in time}
            return {"q": none, "qd": none, **still, **{name: 0.0 * values for name, values in parameters.items()}}
        names = ["q", "qd", *time, *parameters, *self.step.force_inputs]
        return self._forces.reverse(stage.forces, {"force": weights}, names)

    def rates(self, values: Sequence[Any], rates: Mapping[str, Array], q: str, qd: str) -> tuple[Array, Array]:
        """Return the rates of two outputs of the integrator, (nv, directions) each, from rates of its inputs."""
        moved = self.derivative.along(values, rates, [q, qd])
        outputs = output_values(self.derivative.outputs([q]), values)
        return along_columns(self.robot, outputs[q], moved[q]), moved[qd]


def _integrator(robot: Robot, options: StepOptions) -> tuple[Graph, int]:
    """The step as a function of its accelerations: q, qd (and dt) and qdd_0, qdd_1, ... (nv,) to q_next, qd_next, and
    q_k and qd_k, where stage k takes its acceleration. And the number of stages."""
    ends = tuple(force for force in options.forces if force.after_steps)
    step = StepRecording(robot, replace(options, forces=ends), "integrator")
    states: dict[str, Array] = {}

    def acceleration(q: Array, qd: Array, tau: Array) -> Array:
        k = len(states) // 2
        states.update({f"q_{k}": np.array(q, dtype=object), f"qd_{k}": np.array(qd, dtype=object)})
        return step.velocities(f"qdd_{k}", "qdd")

    q, qd = step.after(acceleration, step.q, step.qd, step.tau)
    return step.graph({"q_next": q, "qd_next": qd, **states}), len(states) // 2
