"""Trace a function of a robot as scans over its links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dynagate.base.errors import ArgumentError
from dynagate.dynamics import CONSTRAINED, Tree, function, tree_of
from dynagate.dynamics.constraints import links as constraint_links
from dynagate.dynamics.functions.record import SCAN, SCANS
from dynagate.dynamics.links import Links, TreeLink
from dynagate.dynamics.recursions import aba
from dynagate.dynamics.recursions.invertible import check_invertible
from dynagate.forces import Force
from dynagate.forces.listed import joint_friction
from dynagate.graph.loop import Loop
from dynagate.graph.rates import jvp, rate_of
from dynagate.graph.scan_record import ScanOptions, recorded
from dynagate.graph.weights import vjp, weight_of
from dynagate.robot import Robot
from dynagate.robot.variable import check_constant


def trace_scan(
    robot: Robot,
    name: str,
    *,
    external_forces: bool = False,
    forces: Sequence[Force | str] = (),
) -> Loop:
    """Trace a function of a robot as scans over its links.

    Args:
        robot: The robot.
        name: Name of the function.
        external_forces: Whether f_ext is an input.
        forces: Forces, of which joint friction enters.

    Returns:
        A loop of one iteration with the function's inputs and outputs.

    Raises:
        ArgumentError: The function has no algorithm over links, or an option does not apply to it.
        RobotError: The robot has mimic joints, or M⁻¹ is needed and does not exist.
    """
    row = function(name)
    if name not in SCANS:
        raise ArgumentError(
            f"{name} has no algorithm over links; expected one of {', '.join(SCANS)}", code="DG-GRAPH-021"
        )
    check_constant(robot, f"form '{SCAN}' of {name}")
    row.inputs_with(external_forces)  # raises if external forces do not apply
    friction = joint_friction(robot, forces, row)
    robot.check_uncoupled(f"{name} as a loop over links")
    if row.needs_inverse:
        check_invertible(Tree(robot, reduced=False))
    if name in CONSTRAINED:
        row.checks[SCANS[name]](tree_of(robot))
    marks = constraint_links.marks if name in CONSTRAINED else None
    options = ScanOptions(external_forces, friction, marks)
    if row.derivative_of:
        return replace(_DERIVED[name](robot, options), name=name)
    return _function(robot, name, options)


def _vjp(loop: Loop, robot: Robot, inputs: Sequence[str], weights: Mapping[str, str]) -> Loop:
    """Return a loop over links with the VJP of a loop, given the names of the weights of its outputs."""
    names = {weight_of(output): name for output, name in weights.items()}
    names |= {weight_of(name): f"vjp_{name}" for name in inputs}
    return vjp(loop, inputs, [*weights], robot).renamed(names)


def _jvp(loop: Loop, robot: Robot, inputs: Sequence[str]) -> Loop:
    """Return a loop over links with products of its derivative with directions."""
    names = {rate_of(name): f"delta_{name}" for name in inputs} | {rate_of(name): f"jvp_{name}" for name in loop.last}
    return jvp(loop, inputs, robot).renamed(names)


def _inverse_dynamics_vjp(robot: Robot, options: ScanOptions) -> Loop:
    return _vjp(_function(robot, "inverse_dynamics", options), robot, ("q", "qd", "qdd"), {"tau": "lam_tau"})


def _inverse_mass_product_vjp(robot: Robot, options: ScanOptions) -> Loop:
    return _vjp(_function(robot, "inverse_mass_product", options), robot, ("q", "tau"), {"qdd": "lam_qdd"})


def _inverse_dynamics_jvp(robot: Robot, options: ScanOptions) -> Loop:
    return _jvp(_function(robot, "inverse_dynamics", options), robot, ("q", "qd", "qdd"))


def _inverse_mass_product_jvp(robot: Robot, options: ScanOptions) -> Loop:
    return _jvp(_function(robot, "inverse_mass_product", options), robot, ("q", "tau"))


def _forward_dynamics_jvp(robot: Robot, options: ScanOptions) -> Loop:
    return _jvp(_function(robot, "forward_dynamics", options), robot, ("q", "qd", "tau"))


def _forward_dynamics_vjp(robot: Robot, options: ScanOptions) -> Loop:
    """Return the VJP through inverse dynamics at the solution, as in `graph.derived`: μ = M⁻¹ λ, λᵀ ∂q̈ = μᵀ (∂τ -
    ∂ID).
    """
    row = function("forward_dynamics_vjp")

    def solved(links: Links, q: Any, qd: Any, tau: Any, lam: Any, external: Any = None) -> list[Any]:
        minus = links.map(_negated, links.velocities(lam))
        qdd, weights = aba.forward_dynamics_and_product(links, q, qd, tau, minus, external)
        return [qdd, weights, links.vector(links.map(_negated, links.velocities(weights)))]

    solution = recorded(robot, "solution", solved, row.inputs, ["qdd", "minus_mu", "vjp_tau"], options)
    inverse = _function(robot, "inverse_dynamics", options, ["held"])  # not `tau`, which is an input here
    derivative = _vjp(inverse, robot, ("q", "qd"), {"held": "minus_mu"})
    last = tuple(argument.name for argument in row.outputs)
    return replace(solution, steps=(*solution.steps, *derivative.steps), last=last)


_DERIVED = {
    "inverse_dynamics_vjp": _inverse_dynamics_vjp,
    "forward_dynamics_vjp": _forward_dynamics_vjp,
    "inverse_mass_product_vjp": _inverse_mass_product_vjp,
    "inverse_dynamics_jvp": _inverse_dynamics_jvp,
    "forward_dynamics_jvp": _forward_dynamics_jvp,
    "inverse_mass_product_jvp": _inverse_mass_product_jvp,
}


def _negated(link: TreeLink, values: Sequence[Any]) -> list[Any]:
    return [-value for value in values]


def _function(robot: Robot, name: str, options: ScanOptions, outputs: Sequence[str] = ()) -> Loop:
    """Return a function that is not a derivative, with other names for its outputs if `outputs` lists them."""
    row = function(name)
    names = outputs or [argument.name for argument in row.outputs]
    return recorded(robot, name, row.forms[SCANS[name]], row.inputs, names, options)
