"""A step with its derivatives by state and torque, as a graph: closed form, or at the solution of its equations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.errors import ArgumentError
from dynagate.base.naming import scope
from dynagate.dynamics.configuration import along_columns
from dynagate.dynamics.factor import solve_square
from dynagate.dynamics.spatial import zeros
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph, trace
from dynagate.graph.derivatives import Derivative, output_values
from dynagate.integrators.adjoint import AFTER, FIRST, RESIDUAL, StepEquations, before
from dynagate.integrators.motion import Motion
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
        wrap: Whether angles of joints without limits stay between -π and π.
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


def linearized(motion: Motion, robot: Robot, options: StepOptions, equations: StepEquations) -> Motion:
    """Return a motion whose steps solve equations, with the derivatives a and b of each step too.

    Raises:
        ArgumentError: The steps begin with more than q and q̇.
    """
    values = {AFTER: motion.states[1], **{name: motion.extras[name][0] for name in motion.solved}}
    graph = solution_graph(robot, options, equations).named(values, {})
    names = {port.name for port in graph.inputs}
    if late := [name for name in equations.unknown if before(name) in names]:
        raise ArgumentError(
            f"linearize of steps that begin with '{late[0]}' of the step before; expected steps that begin with q and "
            "qd only, such as those of order 2",
            code="DG-ROLLOUT-067",
        )
    loop, (_, velocity) = motion.loop, motion.states
    carry = dict(loop.carry) if "qd" in loop.carry.values() else {**loop.carry, velocity: "qd"}
    constants = dict(motion.constants)
    if FIRST in names:
        carry, constants = {**carry, AFTER_FIRST: FIRST}, {**constants, FIRST: 1.0}
    loop = replace(
        loop,
        name=f"{loop.name}_linearized",
        steps=(*loop.steps, graph),
        carry=carry,
        kept=(*loop.kept, "a", "b"),
    )
    return replace(motion, loop=loop, constants=constants)


AFTER_FIRST = "after_first"
"""The result that becomes FIRST in the next step: 0."""


def solution_graph(robot: Robot, options: StepOptions, equations: StepEquations) -> Graph:
    """Record the derivatives a and b of a step that solves equations, by the implicit function theorem.

    It takes the inputs of the equations, and what the step has solved for.
    """
    step, nv = StepRecording(robot, options, "linearized_solution", far=options.dt is not None), robot.nv
    graph, recording, unknown = equations.graph, step.recording, equations.unknown
    for port in graph.inputs:
        if port.name not in recording.inputs:
            recording.input_like(port)
    derivative, values = Derivative(graph, robot), recording.replay(graph, recording.inputs)
    outputs, columns = output_values(graph.outputs, values), derivative.columns(values, unknown, [RESIDUAL])
    slope = np.concatenate([columns[x][RESIDUAL].reshape(outputs[RESIDUAL].size, -1) for x in unknown], axis=1)
    unit = np.eye(3 * nv).astype(object)
    rates = {"q": unit[:nv], "qd": unit[nv : 2 * nv], "tau": unit[2 * nv :]}
    moved = derivative.along(values, rates, [RESIDUAL])[RESIDUAL].reshape(len(slope), -1)
    with scope("implicit"):
        order = equations.order(nv)
        solved = -np.stack([solve_square(slope, column, order) for column in moved.T], axis=1)
    place = 0
    for name in unknown:
        size = columns[name][RESIDUAL].reshape(len(slope), -1).shape[1]
        rates[name], place = solved[place : place + size], place + size
    ends = ["q_next", *(() if AFTER in unknown else ("qd_next",))]
    after = derivative.along(values, rates, ends)
    by_q = along_columns(robot, outputs["q_next"], after["q_next"])
    jacobian = np.concatenate([by_q, rates[AFTER] if AFTER in unknown else after["qd_next"]])
    late = {AFTER_FIRST: zeros()} if FIRST in recording.inputs else {}
    return step.graph({"a": jacobian[:, : 2 * nv], "b": jacobian[:, 2 * nv :], **late})
