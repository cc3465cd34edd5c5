"""A step with its derivatives with respect to state and torque, as a graph."""

from __future__ import annotations

import numpy as np

from dynagate.base.arrays import Array
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import output_values
from dynagate.integrators.stages import IntegratorStages
from dynagate.integrators.step import StepRecording
from dynagate.robot import Robot


def linearized_step_graph(robot: Robot, options: StepOptions, *, wrap: bool = False) -> Graph:
    """Return the graph of a step with its derivatives, which are exact for the integrator.

    In addition to `step.step_graph` it has a (2 nv, 2 nv) = ∂x⁺/∂x and b (2 nv, nv) = ∂x⁺/∂τ for the state x = (q, q̇),
    along velocities as in `configuration.integrate`. Forward dynamics is differentiated by its closed-form gradient.

    Args:
        robot: The robot.
        options: Options of the step.
        wrap: As in `StepRecording`.
    """
    step, nv = StepRecording(robot, options, "linearized_step", wrap=wrap), robot.nv
    stages = IntegratorStages(step)
    gradient = trace(options.in_step(robot), f"{options.dynamics}_gradient")
    unit = np.eye(3 * nv).astype(object)
    by_tau, inverse = unit[2 * nv :], "dqdd_dtau" if options.constrained else "minv"
    rates = {"q": unit[:nv], "qd": unit[nv : 2 * nv]}
    accelerations: dict[str, Array] = {}
    for k in range(stages.count):
        at = stages.stage(accelerations, k)
        by_q, by_qd = stages.rates(stages.values(accelerations), rates, f"q_{k}", f"qd_{k}")
        inputs = {"q": at.q, "qd": at.qd, "tau": at.tau, **step.held, **step.dynamics_parameters}
        result = output_values(gradient.outputs, step.recording.replay(gradient, inputs))
        accelerations[f"qdd_{k}"] = result["qdd"]
        pushed = by_tau + stages.forces_rates(at, by_q, by_qd)
        rates[f"qdd_{k}"] = result["dqdd_dq"] @ by_q + result["dqdd_dqd"] @ by_qd + result[inverse] @ pushed
    values = stages.values(accelerations)
    outputs = output_values(stages.graph.outputs, values)
    jacobian = np.concatenate(stages.rates(values, rates, "q_next", "qd_next"))
    linear = {"a": jacobian[:, : 2 * nv], "b": jacobian[:, 2 * nv :]}
    return step.graph({"q_next": outputs["q_next"], "qd_next": outputs["qd_next"], **linear})
