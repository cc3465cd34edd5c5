"""Functions that are derived from the graphs of other functions by differentiation.

Forward dynamics is differentiated through M q̈ = τ - ID(q, q̇, 0) at its solution: with μ = M⁻¹ λ, λᵀ ∂q̈ = μᵀ (∂τ -
∂ID(q, q̇, q̈)). One reverse sweep over inverse dynamics therefore gives all derivatives, and M⁻¹ is not computed
(Carpentier & Mansard, "Analytical derivatives of rigid body dynamics algorithms", 2018, eq. 3).

Constrained forward dynamics is differentiated in the same way: q̈ and λ solve linear equations, whose residual at the
solution is inverse dynamics with the constraint forces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynagate.base.arrays import Array
from dynagate.dynamics import CONSTRAINED_RESIDUAL, CONSTRAINED_SOLUTION, FunctionRow
from dynagate.dynamics.spatial import zeros
from dynagate.graph.derivatives import Derivative, output_values
from dynagate.graph.graph import Graph
from dynagate.graph.recorder import Recording
from dynagate.robot import Robot

Traced = Callable[[str | FunctionRow], Graph]
"""A function that returns the graph of a function of the robot, given its name or its row."""


class _Point(NamedTuple):
    """A graph at given inputs: its derivative object and the value of each node."""

    derivative: Derivative
    values: Sequence[Any]

    def output(self, name: str) -> Array:
        return output_values(self.derivative.outputs([name]), self.values)[name]


class _Dynamics:
    """A robot's functions at the inputs of a recording."""

    def __init__(self, recording: Recording, robot: Robot, traced: Traced) -> None:
        self.recording, self.robot, self._traced = recording, robot, traced
        self.inputs = recording.inputs
        self.parameters = [variable.input for variable in robot.variables]

    def rates(self, names: Sequence[str]) -> dict[str, Array]:
        """Return the directions δ of these inputs and of the robot's variable parameters, by input."""
        return {name: self.inputs[f"delta_{name}"] for name in (*names, *self.parameters)}

    def at(self, function: str | FunctionRow, **inputs: Array) -> _Point:
        """Evaluate a function at the inputs of the recording, with some inputs replaced."""
        graph = self._traced(function)
        return _Point(Derivative(graph, self.robot), self.recording.replay(graph, {**self.inputs, **inputs}))


def _inverse_dynamics_vjp(dynamics: _Dynamics) -> list[Array]:
    inverse = dynamics.at("inverse_dynamics")
    products = inverse.derivative.reverse(
        inverse.values, {"tau": dynamics.inputs["lam_tau"]}, ["q", "qd", "qdd", *dynamics.parameters]
    )
    return [inverse.output("tau"), *products.values()]


def _inverse_dynamics_jvp(dynamics: _Dynamics) -> list[Array]:
    inverse = dynamics.at("inverse_dynamics")
    rates = dynamics.rates(("q", "qd", "qdd"))
    return [inverse.output("tau"), inverse.derivative.forward(inverse.values, rates)["tau"]]


def _forward_dynamics_vjp(dynamics: _Dynamics) -> list[Array]:
    """Return the VJP of forward dynamics through inverse dynamics."""
    forward = dynamics.at("forward_dynamics")
    qdd = forward.output("qdd")
    mu = forward.derivative.reverse(forward.values, {"qdd": dynamics.inputs["lam_qdd"]}, ["tau"])["tau"]
    inverse = dynamics.at("inverse_dynamics", qdd=qdd)
    products = inverse.derivative.reverse(inverse.values, {"tau": -mu}, ["q", "qd", *dynamics.parameters])
    by_q, by_qd, *others = products.values()
    return [qdd, by_q, by_qd, mu, *others]


def _forward_dynamics_jvp(dynamics: _Dynamics) -> list[Array]:
    """Return the JVP of forward dynamics through inverse dynamics."""
    forward = dynamics.at("forward_dynamics")
    qdd = forward.output("qdd")
    inverse = dynamics.at("inverse_dynamics", qdd=qdd)
    rates = dynamics.rates(("q", "qd"))
    load = dynamics.inputs["delta_tau"] - inverse.derivative.forward(inverse.values, rates)["tau"]
    return [qdd, forward.derivative.forward(forward.values, {"tau": load})["qdd"]]


def _inverse_mass_product_vjp(dynamics: _Dynamics) -> list[Array]:
    product = dynamics.at("inverse_mass_product")
    by = product.derivative.reverse(
        product.values, {"qdd": dynamics.inputs["lam_qdd"]}, ["q", "tau", *dynamics.parameters]
    )
    return [product.output("qdd"), *by.values()]


def _inverse_mass_product_jvp(dynamics: _Dynamics) -> list[Array]:
    product = dynamics.at("inverse_mass_product")
    rates = dynamics.rates(("q", "tau"))
    return [product.output("qdd"), product.derivative.forward(product.values, rates)["qdd"]]


def _forward_dynamics_second_order(dynamics: _Dynamics) -> list[Array]:
    """Return ∂²(λᵀ q̈) by forward sweeps over the reverse sweep. It is linear in τ, and M⁻¹ does not
    depend on q̇.
    """
    product = dynamics.at("forward_dynamics_vjp")
    columns = product.derivative.columns
    by_q = columns(product.values, ["q"], ["vjp_q", "vjp_qd", "vjp_tau"])["q"]
    by_qd = columns(product.values, ["qd"], ["vjp_qd"])["qd"]
    # the directions of quaternions do not commute
    by_q_q = by_q["vjp_q"] if dynamics.robot.quaternions() else _mirrored(by_q["vjp_q"])
    return [product.output("qdd"), by_q_q, by_q["vjp_qd"].T, _mirrored(by_qd["vjp_qd"]), by_q["vjp_tau"].T]


def _constrained(dynamics: _Dynamics) -> tuple[_Point, _Point, list[Array]]:
    """Return the solution of constrained dynamics, its residual, and q̈ and λ."""
    solution = dynamics.at(CONSTRAINED_SOLUTION, acceleration=zeros(dynamics.robot.constraint_rows))
    outputs = {name: solution.output(name) for name in ("qdd", "force")}
    return solution, dynamics.at(CONSTRAINED_RESIDUAL, **outputs), [*outputs.values()]


def _constrained_vjp(dynamics: _Dynamics) -> list[Array]:
    """Return the VJP of constrained forward dynamics through the residual of its equations."""
    solution, residual, outputs = _constrained(dynamics)
    weights = {name: dynamics.inputs[f"lam_{name}"] for name in ("qdd", "force")}
    by = solution.derivative.reverse(solution.values, weights, ["tau", "acceleration"])
    lam = {name: -x for name, x in by.items()}
    by_q, by_qd, *others = residual.derivative.reverse(residual.values, lam, ["q", "qd", *dynamics.parameters]).values()
    return [*outputs, by_q, by_qd, by["tau"], *others]


def _constrained_jvp(dynamics: _Dynamics) -> list[Array]:
    """Return the JVP of constrained forward dynamics through the residual of its equations."""
    solution, residual, outputs = _constrained(dynamics)
    rates = dynamics.rates(("q", "qd"))
    moved = residual.derivative.forward(residual.values, rates)
    load = {"tau": dynamics.inputs["delta_tau"] - moved["tau"], "acceleration": -moved["acceleration"]}
    return [*outputs, *solution.derivative.forward(solution.values, load, ["qdd", "force"]).values()]


def _constrained_gradient(dynamics: _Dynamics) -> list[Array]:
    """Return the derivatives of constrained forward dynamics through the residual of its equations."""
    solution, residual, outputs = _constrained(dynamics)
    by_tau, by_rows = solution.derivative.columns(solution.values, ["tau", "acceleration"]).values()
    moved = residual.derivative.columns(residual.values, ["q", "qd"])
    results = []
    for name in ("qdd", "force"):
        for by_state in moved.values():
            results.append(-(by_tau[name] @ by_state["tau"] + by_rows[name] @ by_state["acceleration"]))
        results.append(by_tau[name])
    return [*outputs, *results]


def _whole(of: str, inputs: str, outputs: str) -> dict[str, Callable[[_Dynamics], list[Array]]]:
    """Return the rules for the VJP and JVP of a function that is differentiated through its own graph."""

    def by_weights(dynamics: _Dynamics) -> list[Array]:
        point = dynamics.at(of)
        weights = {name: dynamics.inputs[f"lam_{name}"] for name in outputs.split()}
        products = point.derivative.reverse(point.values, weights, [*inputs.split(), *dynamics.parameters])
        return [*map(point.output, weights), *products.values()]

    def by_directions(dynamics: _Dynamics) -> list[Array]:
        point = dynamics.at(of)
        rates = dynamics.rates(inputs.split())
        names = outputs.split()
        return [*map(point.output, names), *point.derivative.forward(point.values, rates, names).values()]

    return {f"{of}_vjp": by_weights, f"{of}_jvp": by_directions}


def _mirrored(matrix: Array) -> Array:
    """Return the symmetric matrix with the entries on and above the diagonal of this one."""
    result = matrix.copy()
    below = np.tril_indices(len(matrix), -1)
    result[below] = matrix.T[below]
    return result


_RULES: dict[str, Callable[[_Dynamics], list[Array]]] = {
    "inverse_dynamics_vjp": _inverse_dynamics_vjp,
    "inverse_dynamics_jvp": _inverse_dynamics_jvp,
    "forward_dynamics_vjp": _forward_dynamics_vjp,
    "forward_dynamics_jvp": _forward_dynamics_jvp,
    "inverse_mass_product_vjp": _inverse_mass_product_vjp,
    "inverse_mass_product_jvp": _inverse_mass_product_jvp,
    "forward_dynamics_second_order": _forward_dynamics_second_order,
    "constrained_forward_dynamics_vjp": _constrained_vjp,
    "constrained_forward_dynamics_jvp": _constrained_jvp,
    "constrained_forward_dynamics_gradient": _constrained_gradient,
    **_whole("constrained_inverse_dynamics", "q qd qdd", "tau force"),
    **_whole("impact", "q qd", "qd_after impulse"),
}


VJP, JVP = "_vjp", "_jvp"
"""Ends of the names of functions that take derivatives by the robot's variable parameters too."""


def derived(recording: Recording, robot: Robot, name: str, traced: Traced) -> list[Array]:
    """Compute the outputs of a function that is made by differentiation.

    Args:
        recording: The recording, whose inputs are used.
        robot: The robot.
        name: The function.
        traced: Returns the graphs of the functions that are differentiated.

    Returns:
        The outputs in order. A VJP then has the products for the robot's variable parameters.
    """
    return _RULES[name](_Dynamics(recording, robot, traced))
