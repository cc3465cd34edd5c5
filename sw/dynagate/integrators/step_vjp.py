"""The reverse of a step as a graph: the body of a rollout's gradient.

The accelerations of a step's stages are inputs of one graph, the integrator's. Weights go back through it to each
acceleration, from the last stage to the first, and from there through `forward_dynamics_vjp`, which takes fewer
operations than a sweep back over the operations of forward dynamics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.dynamics.configuration import entry_weights
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import Derivative, output_values
from dynagate.integrators.step import StepOptions, StepRecording
from dynagate.robot import Robot

Array = npt.NDArray[Any]


def step_vjp_graph(robot: Robot, options: StepOptions) -> Graph:
    """The reverse of a step: q, qd, tau (and dt) of the step, lam_q and lam_qd (nv,) of the state after it, and cost_q
    and cost_qd (nv,) of the state before it, to lam_q_next = cost_q + λᵀ ∂x⁺/∂q, lam_qd_next and vjp_tau (nv,).

    λ of a configuration is along velocities.
    """
    step = StepRecording(robot, options, "step_vjp")
    lam_q, lam_qd = step.velocities("lam_q"), step.velocities("lam_qd")
    cost_q, cost_qd = step.velocities("cost_q", "lam_q"), step.velocities("cost_qd", "lam_qd")
    by_q, by_qd, by_tau = _Reverse(step).products(lam_q, lam_qd)
    return step.graph({"lam_q_next": cost_q + by_q, "lam_qd_next": cost_qd + by_qd, "vjp_tau": by_tau})


class _Reverse:
    """The reverse of a step in a recording."""

    def __init__(self, step: StepRecording) -> None:
        self.robot, self.recording, self.tau, self.held = step.robot, step.recording, step.tau, step.held
        self.dynamics = trace(
            step.robot, f"{step.options.dynamics}_vjp", form=step.options.form, friction=step.friction
        )
        self.integrator, self.stages = _integrator(step.robot, step.options)
        self.derivative = Derivative(self.integrator, step.robot)

    def products(self, lam_q: Array, lam_qd: Array) -> tuple[Array, Array, Array]:
        """λᵀ ∂x⁺/∂q, λᵀ ∂x⁺/∂q̇ and λᵀ ∂x⁺/∂τ, (nv,) each."""
        accelerations: dict[str, Array] = {}
        none = np.array([0.0] * self.robot.nv, dtype=object)
        for k in range(self.stages):
            state = self._state(output_values(self.integrator.outputs, self._values(accelerations)), k)
            accelerations[f"qdd_{k}"] = self._dynamics(*state, none)["qdd"]
        values = self._values(accelerations)
        outputs = output_values(self.integrator.outputs, values)
        weights = {"q_next": entry_weights(self.robot, outputs["q_next"], lam_q), "qd_next": lam_qd}
        by_tau = none
        for k in reversed(range(self.stages)):
            q, qd = self._state(outputs, k)
            lam = self.derivative.reverse(values, weights, [f"qdd_{k}"])[f"qdd_{k}"]
            back = self._dynamics(q, qd, lam)
            weights |= {f"q_{k}": entry_weights(self.robot, q, back["vjp_q"]), f"qd_{k}": back["vjp_qd"]}
            by_tau = by_tau + back["vjp_tau"]
        by_state = self.derivative.reverse(values, weights, ["q", "qd"])
        return by_state["q"], by_state["qd"], by_tau

    def _values(self, accelerations: Mapping[str, Array]) -> list[Any]:
        """Of the integrator's nodes. Stages whose acceleration is not there yet have 0."""
        known = {port.name: np.zeros(port.shape).astype(object) for port in self.integrator.inputs}
        inputs = {name: self.recording.inputs.get(name, value) for name, value in known.items()}
        return self.recording.replay(self.integrator, {**inputs, **accelerations})

    def _state(self, outputs: Mapping[str, Array], k: int) -> tuple[Array, Array]:
        return outputs[f"q_{k}"], outputs[f"qd_{k}"]

    def _dynamics(self, q: Array, qd: Array, lam: Array) -> dict[str, Array]:
        inputs = {"q": q, "qd": qd, "tau": self.tau, "lam_qdd": lam, **self.held}
        if self.held:
            inputs["lam_force"] = np.zeros(self.robot.constraint_rows).astype(object)
        return output_values(self.dynamics.outputs, self.recording.replay(self.dynamics, inputs))


def _integrator(robot: Robot, options: StepOptions) -> tuple[Graph, int]:
    """The step as a function of its accelerations: q, qd (and dt) and qdd_0, qdd_1, ... (nv,) to q_next, qd_next, and
    q_k and qd_k, where stage k takes its acceleration. And the number of stages."""
    step = StepRecording(robot, options, "integrator")
    states: dict[str, Array] = {}

    def acceleration(q: Array, qd: Array, tau: Array) -> Array:
        k = len(states) // 2
        states.update({f"q_{k}": np.array(q, dtype=object), f"qd_{k}": np.array(qd, dtype=object)})
        return step.velocities(f"qdd_{k}", "qdd")

    q, qd = step.after(acceleration, step.q, step.qd, step.tau)
    return step.graph({"q_next": q, "qd_next": qd, **states}), len(states) // 2
