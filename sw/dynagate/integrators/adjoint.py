"""The reverse of a step that solves equations, as a graph, by the implicit function theorem at the solution.

A step finds the q̇⁺ and, for some methods, impulses z that solve r(q, q̇, τ; q̇⁺, z) = 0, and q⁺ follows from them.
Weights w of (q̇⁺, z) become -μᵀ ∂r/∂(q, q̇, τ), where (∂r/∂(q̇⁺, z))ᵀ μ = w. The result does not depend on how the
equations were solved, and the solution is not repeated. If the equations of a step contain the z of the previous step,
weights also go back to that z.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynagate.base.arrays import Array
from dynagate.base.naming import scope
from dynagate.dynamics.configuration import entry_weights
from dynagate.dynamics.factor import solve_square
from dynagate.forces.options import StepOptions
from dynagate.graph import Graph
from dynagate.graph.derivatives import Derivative, output_values
from dynagate.integrators.step import StepRecording
from dynagate.robot import Robot

AFTER = "qd_after"
"""The input of equations that is q̇ after the step."""

FIRST = "first"
"""The input () of equations that is 1 in the first step of a motion, else 0."""


RESIDUAL = "residual"


def before(name: str) -> str:
    """Return the name of the input with the previous step's solution for an unknown, which is 0 in the
    first step.
    """
    return f"{name}_before"


def with_before(solved: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs or solutions of steps, (batch, steps, numbers) by name, and under the name `before` those of
    the previous step.
    """
    shifted = {name: np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1]], axis=1) for name, x in solved.items()}
    return {**solved, **{before(name): x for name, x in shifted.items()}}


@dataclass(frozen=True)
class StepEquations:
    """The equations that a step solves."""

    graph: Graph
    """Graph from q (nq,), qd, tau, inputs of forces, and the unknowns to RESIDUAL, which the step makes 0, and to
    q_next (nq,) and, unless AFTER is an unknown, qd_next (nv,). FIRST and `before` of an unknown are optional inputs.
    """
    unknown: tuple[str, ...] = (AFTER,)
    """Inputs that the step solves for. All except AFTER are fields of `Trajectories`."""
    pivots: Sequence[int] = ()
    """Order of elimination of all unknown numbers; () for q̇⁺ from the leaves to the root, then the others."""

    def order(self, nv: int) -> Sequence[int]:
        """Return the places of all unknown numbers in the order of elimination. nv: number of velocities."""
        leading = nv if AFTER in self.unknown else 0
        size = next(len(port.nodes) for port in self.graph.outputs if port.name == RESIDUAL)
        return self.pivots or [*reversed(range(leading)), *range(leading, size)]


def equations_vjp_graph(robot: Robot, options: StepOptions, equations: StepEquations) -> Graph:
    """Return the reverse of a step that solves equations.

    It has the inputs and outputs of `step_vjp.step_vjp_graph`, and in addition the inputs of the equations. For an
    unknown z with which the next step begins, lam_z and lam_z_next replace lam_q and lam_q_next. An unknown z other
    than AFTER has an input cost_z, the weights of the cost with respect to z. Variable parameters of the robot, and dt
    if it is an input, have lam_<name> and lam_<name>_next.

    Args:
        robot: The robot.
        options: Options of the step.
        equations: The equations.
    """
    step = StepRecording(robot, options, "step_vjp", far=True)
    lam_q, lam_qd = step.velocities("lam_q"), step.velocities("lam_qd")
    cost_q, cost_qd = step.velocities("cost_q", "lam_q"), step.velocities("cost_qd", "lam_qd")
    lam = step.summed_weights()
    graph, recording, unknown = equations.graph, step.recording, equations.unknown
    for port in graph.inputs:
        if port.name not in recording.inputs:
            recording.input_like(port)
    derivative, values = Derivative(graph, robot), recording.replay(graph, recording.inputs)
    outputs = output_values(graph.outputs, values)
    carried = [name for name in unknown if before(name) in recording.inputs]
    moved = {"q_next": entry_weights(robot, outputs["q_next"], lam_q)}
    if AFTER not in unknown:
        moved["qd_next"] = lam_qd
    by = derivative.reverse(values, moved, unknown)
    for name in carried:
        by[name] = by[name] + recording.input(f"lam_{name}", by[name].shape)
    for name in unknown:
        if name == AFTER:
            by[AFTER] = by[AFTER] + lam_qd
        else:
            by[name] = by[name] + recording.input(f"cost_{name}", by[name].shape)
    columns = derivative.columns(values, unknown, [RESIDUAL])
    slope = np.concatenate([columns[name][RESIDUAL].reshape(outputs[RESIDUAL].size, -1) for name in unknown], axis=1)
    with scope("implicit"):
        mu = solve_square(slope.T, np.concatenate([by[name].ravel() for name in unknown]), equations.order(robot.nv))
    begun = ["q", "qd", "tau", *lam, *step.force_inputs, *(before(name) for name in carried)]
    by = derivative.reverse(values, {RESIDUAL: -mu, **moved}, begun)
    back = {"lam_q_next": cost_q + by["q"], "lam_qd_next": cost_qd + by["qd"], "vjp_tau": by["tau"]}
    back |= {f"lam_{name}_next": weights + by[name] for name, weights in lam.items()}
    back |= {f"vjp_{name}": by[name] for name in step.force_inputs}
    return step.graph({**back, **{f"lam_{name}_next": by[before(name)] for name in carried}})
