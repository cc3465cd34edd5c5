"""The reverse of a step that solves equations, as a graph: the implicit function theorem at the solution.

A step finds the q̇⁺ and, of some methods, impulses z that solve r(q, q̇, τ; q̇⁺, z) = 0, and q⁺ follows from them. Weights
w of (q̇⁺, z) go back as -μᵀ ∂r/∂(q, q̇, τ), where (∂r/∂(q̇⁺, z))ᵀ μ = w. How the equations were solved is of no account,
and nothing of their solution is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dynagate.base.naming import scope
from dynagate.dynamics.configuration import entry_weights
from dynagate.dynamics.elimination import solve_square
from dynagate.graph import Graph
from dynagate.graph.derivatives import Derivative, output_values
from dynagate.integrators.step import StepOptions, StepRecording
from dynagate.robot import Robot

Array = npt.NDArray[Any]

AFTER = "qd_after"
"""The input of equations that is q̇ after the step."""

FIRST = "first"
"""The input () of equations that is 1 in the first step of a motion, else 0."""


RESIDUAL = "residual"


@dataclass(frozen=True)
class Equations:
    """What a step solves.

    graph: q (nq,), qd, tau, inputs of forces and AFTER (nv,), and what else `unknown` lists, to RESIDUAL, of as many
    numbers as the unknowns have, which the step makes 0, and q_next (nq,). It may take FIRST.
    unknown: the inputs that are solved for, AFTER first. Those after it are fields of `Trajectories`.
    """

    graph: Graph
    unknown: tuple[str, ...] = (AFTER,)


def equations_vjp_graph(robot: Robot, options: StepOptions, equations: Equations) -> Graph:
    """The reverse of a step, as `step_vjp.step_vjp_graph`, with the inputs of its equations besides."""
    step = StepRecording(robot, options, "step_vjp", far=True)
    lam_q, lam_qd = step.velocities("lam_q"), step.velocities("lam_qd")
    cost_q, cost_qd = step.velocities("cost_q", "lam_q"), step.velocities("cost_qd", "lam_qd")
    graph, recording, unknown = equations.graph, step.recording, equations.unknown
    for port in graph.inputs:
        if port.name not in recording.inputs:
            recording.input_like(port)
    derivative, values = Derivative(graph, robot), recording.replay(graph, recording.inputs)
    outputs = output_values(graph.outputs, values)
    moved = {"q_next": entry_weights(robot, outputs["q_next"], lam_q)}
    by = derivative.reverse(values, moved, unknown)
    by[AFTER] = by[AFTER] + lam_qd
    columns = [derivative.columns(values, name, [RESIDUAL])[RESIDUAL] for name in unknown]
    slope = np.concatenate([each.reshape(outputs[RESIDUAL].size, -1) for each in columns], axis=1)
    order = [*reversed(range(robot.nv)), *range(robot.nv, len(slope))]
    with scope("implicit"):
        mu = solve_square(slope.T, np.concatenate([by[name].ravel() for name in unknown]), order)
    by = derivative.reverse(values, {RESIDUAL: -mu, **moved}, ["q", "qd", "tau"])
    return step.graph({"lam_q_next": cost_q + by["q"], "lam_qd_next": cost_qd + by["qd"], "vjp_tau": by["tau"]})
