"""The reverse of a step as a graph: the body of a rollout's gradient.

The accelerations of a step's stages are inputs of one graph, the integrator's. Weights go back through it to each
acceleration, from the last stage to the first. From there they pass through `forward_dynamics_vjp`, which takes fewer
operations than a reverse sweep over forward dynamics, and through the forces.
"""

from __future__ import annotations

import numpy as np

from dynagate.base.arrays import Array
from dynagate.dynamics.configuration import entry_weights
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import output_values
from dynagate.integrators.stages import IntegratorStages, Stage
from dynagate.integrators.step import StepRecording
from dynagate.robot import Robot


def step_vjp_graph(robot: Robot, options: StepOptions) -> Graph:
    """Return the reverse of a step.

    Its inputs are q, qd, tau (and dt, and inputs of forces) of the step, lam_q and lam_qd (nv,) for the state after it,
    and cost_q and cost_qd (nv,) for the state before it. Its outputs are lam_q_next = cost_q + λᵀ ∂x⁺/∂q, lam_qd_next
    and vjp_tau (nv,). With variable parameters of the robot, lam_<parameter> of all later steps becomes
    lam_<parameter>_next, to which this step's share is added; so does lam_dt, unless dt is constant. Weights λ of a
    configuration are along velocities.

    Args:
        robot: The robot.
        options: Options of the step.
    """
    step = StepRecording(robot, options, "step_vjp")
    lam_q, lam_qd = step.velocities("lam_q"), step.velocities("lam_qd")
    cost_q, cost_qd = step.velocities("cost_q", "lam_q"), step.velocities("cost_qd", "lam_qd")
    lam = step.summed_weights()
    by = _Reverse(step).products(lam_q, lam_qd)
    outputs = {"lam_q_next": cost_q + by["q"], "lam_qd_next": cost_qd + by["qd"], "vjp_tau": by["tau"]}
    outputs |= {f"vjp_{name}": by[name] for name in step.force_inputs}
    return step.graph(outputs | {f"lam_{name}_next": values + by[name] for name, values in lam.items()})


class _Reverse:
    """The reverse of a step in a recording."""

    def __init__(self, step: StepRecording) -> None:
        self.robot, self.recording, self.held = step.robot, step.recording, step.held
        self.step = step
        robot = step.options.in_step(step.robot)
        self.dynamics = trace(robot, f"{step.options.dynamics}_vjp", form=step.options.form)
        self.stages = IntegratorStages(step)

    def products(self, lam_q: Array, lam_qd: Array) -> dict[str, Array]:
        """Return λᵀ ∂x⁺/∂q, λᵀ ∂x⁺/∂q̇ and λᵀ ∂x⁺/∂τ, (nv,) each, and the products for the robot's variable
        parameters and the time step, if it is an input.
        """
        accelerations: dict[str, Array] = {}
        none = np.array([0.0] * self.robot.nv, dtype=object)
        each: list[Stage] = []
        for k in range(self.stages.count):
            each.append(self.stages.stage(accelerations, k))
            accelerations[f"qdd_{k}"] = self._dynamics(each[k], none)["qdd"]
        values = self.stages.values(accelerations)
        outputs = output_values(self.stages.graph.outputs, values)
        weights = {"q_next": entry_weights(self.robot, outputs["q_next"], lam_q), "qd_next": lam_qd}
        by_tau = none
        shares: dict[str, Array] = {}
        for k in reversed(range(self.stages.count)):
            lam = self.stages.derivative.reverse(values, weights, [f"qdd_{k}"])[f"qdd_{k}"]
            back = self._dynamics(each[k], lam)
            pushed = self.stages.forces_weights(each[k], back["vjp_tau"])
            weights |= {
                f"q_{k}": entry_weights(self.robot, each[k].q, back["vjp_q"] + pushed["q"]),
                f"qd_{k}": back["vjp_qd"] + pushed["qd"],
            }
            by_tau = by_tau + back["vjp_tau"]
            own = {name: product + pushed[name] for name, product in self.step.shares(back).items()}
            others = (*self.step.time_inputs, *self.step.force_inputs)
            for name, share in {**own, **{name: pushed[name] for name in others}}.items():
                shares[name] = shares[name] + share if name in shares else share
        by_state = self.stages.derivative.reverse(values, weights, ["q", "qd", *self.step.time_inputs])
        shares |= {name: shares[name] + by_state[name] for name in self.step.time_inputs}
        return {"q": by_state["q"], "qd": by_state["qd"], "tau": by_tau, **shares}

    def _dynamics(self, stage: Stage, lam: Array) -> dict[str, Array]:
        state = {"q": stage.q, "qd": stage.qd, "tau": stage.tau, "lam_qdd": lam}
        inputs = {**state, **self.held, **self.step.dynamics_parameters}
        if self.held:
            inputs["lam_force"] = np.zeros(self.robot.constraint_rows).astype(object)
        return output_values(self.dynamics.outputs, self.recording.replay(self.dynamics, inputs))
