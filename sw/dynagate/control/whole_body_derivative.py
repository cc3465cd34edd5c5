"""Derivative of whole-body torques by the implicit function theorem, as graphs.

At the optimum, the gradient g(x, y) of the cost balances the multipliers of limits and cones. If the inputs y change,
the unknowns x move by -K⁻¹ ∂g/∂y, in which K = H + Gᵀ S G has the stiffness S of each cone at the end. Limits and
cones do not depend on the configuration, the velocity, or the requested acceleration.

Reference:
    Amos & Kolter, "OptNet: differentiable optimization as a layer in neural networks", 2017, §3.
"""

from __future__ import annotations

import numpy as np

from dynagate.base.naming import scope
from dynagate.control.whole_body import RecordedSystem, WholeBodyProblem, recorded_inputs
from dynagate.dynamics.factor import Dense, factorize, solve
from dynagate.dynamics.spatial import array
from dynagate.graph import Graph
from dynagate.graph.derivatives import vjp
from dynagate.graph.recorder import Recording

MOVING = ("q", "qd", "qdd")
"""Inputs that torques are differentiated by."""


def moved_unknowns(problem: WholeBodyProblem) -> Graph:
    """Return the graph from `hessian`, `slack`, `dual` and weights (size,) to `moved`, -K⁻¹ weights (size,).

    Args:
        problem: The program with cones.
    """
    n, recording = problem.size, Recording("moved", problem.robot.name)
    hessian = recording.input("hessian", (n, n), symmetric=True)
    slack, dual = (recording.input(name, (problem.rows,)) for name in ("slack", "dual"))
    weights, order = recording.input("weights", (n,)), Dense(n)
    with scope("moved"):
        cones, axes = [cone for _, cone in problem.cones(slack, dual)], np.eye(n).astype(object)
        for k, cone in zip(problem.heights, () if problem.flat else cones[len(problem.limits) :], strict=False):
            axes[k : k + 3, k : k + 3] = cone.axes()
        stiff = problem.scaled_hessian(axes.T @ hessian @ axes, [cone.stiffness() for cone in cones])
        moved = axes @ array(solve(order, factorize(order, stiff), [-each for each in axes.T @ weights]))
    return recording.graph({"moved": np.asarray(moved, dtype=object)})


def gradient_product(problem: WholeBodyProblem) -> Graph:
    """Return the graph of the product of weights with the derivative of the gradient of the cost.

    Its inputs are those of the problem, x (size,) and the weights `lam_slope` (size,). Its outputs are `vjp_q`,
    `vjp_qd` and `vjp_qdd`, each (nv,).

    Args:
        problem: The program with cones.
    """
    recording = Recording("slope", problem.robot.name)
    inputs = recorded_inputs(recording, problem)
    x = recording.input("x", (problem.size,))
    with scope("slope"):
        system = RecordedSystem(recording, problem, inputs)
        slope = system.gradient(x, system.motion @ x + system.still, inputs["qdd"])
    graph = recording.graph({"slope": np.asarray(slope, dtype=object)})
    return vjp(graph, ["slope"], list(MOVING), robot=problem.robot)
