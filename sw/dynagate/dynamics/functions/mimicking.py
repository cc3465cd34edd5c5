"""Functions of robots whose joints mimic others: those of the robot with all joints free, in its own coordinates.

With q = G q_r + offset (`coupling`): τ_r = Gᵀ τ, M_r = Gᵀ M G, and what is solved is solved with M_r.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynagate.base.naming import label, scope
from dynagate.dynamics.gradients import closed_form as gradients
from dynagate.dynamics.mimic import Coupling
from dynagate.dynamics.recursions.crba import Factor, factorize, inverse_from_factor, mass_matrix, solve
from dynagate.dynamics.recursions.poses import Frame
from dynagate.dynamics.recursions.rnea import inverse_dynamics
from dynagate.dynamics.spatial import Array, Scalar, array
from dynagate.dynamics.steps.step import step
from dynagate.dynamics.tree import Tree
from dynagate.robot.errors import RobotError

Vector = Sequence[Scalar]
Results = Any
"""An output, or a tuple of several."""


def _coupling(tree: Tree) -> Coupling:
    assert tree.coupling is not None
    return tree.coupling


def _factor(tree: Tree, q: Vector) -> Factor:
    coupling = _coupling(tree)
    m = coupling.symmetric(mass_matrix(tree, coupling.configuration(q)))
    for d in range(coupling.nv):
        with scope("coupled", *coupling.where(d)):
            for e in range(d + 1):
                label(m[d, e], f"m_{e}")
    return factorize(coupling, m)


def _load(tree: Tree, q: Vector, qd: Vector, tau: Vector, external: Array | None) -> list[Scalar]:
    """τ - bias in the robot's coordinates."""
    coupling = _coupling(tree)
    position, velocity = coupling.configuration(q), coupling.rates(qd)
    bias = coupling.torques(inverse_dynamics(tree, position, velocity, [0.0] * tree.nv, external))
    with scope("fd"):
        return [label(t - b, f"load_{i}") for i, (t, b) in enumerate(zip(tau, bias, strict=True))]


def _mass_matrix_inverse(tree: Tree, q: Vector) -> Array:
    return inverse_from_factor(_coupling(tree), _factor(tree, q))


def _forward_dynamics(tree: Tree, q: Vector, qd: Vector, tau: Vector, external: Array | None = None) -> list[Scalar]:
    return solve(_coupling(tree), _factor(tree, q), _load(tree, q, qd, tau, external))


def _inverse_mass_product(tree: Tree, q: Vector, tau: Vector) -> list[Scalar]:
    return solve(_coupling(tree), _factor(tree, q), tau)


def _gradient_given_minv(
    tree: Tree, q: Vector, qd: Vector, qdd: Vector, minv: Array, external: Array | None = None, **frames: Any
) -> tuple[Array, Array]:
    coupling = _coupling(tree)
    motion = coupling.configuration(q), coupling.rates(qd), coupling.rates(qdd)
    by_q, by_qd = gradients.inverse_dynamics_gradient(tree, *motion, external=external, **frames)
    return gradients.solved_for_acceleration(minv, coupling.matrix(by_q), coupling.matrix(by_qd))


def _forward_dynamics_gradient(
    tree: Tree,
    q: Vector,
    qd: Vector,
    tau: Vector,
    frame: Frame = "sparsest",
    prefix: bool = False,
    mass: str = "body",
    external: Array | None = None,
) -> tuple[list[Scalar], Array, Array, Array]:
    """mass: "shared" is as "body", whose M is made of fewer numbers once it is projected."""
    gradients.check_mass(mass)
    minv = _mass_matrix_inverse(tree, q)
    load = array(_load(tree, q, qd, tau, external))
    with scope("fd"):
        qdd = [label(row @ load, f"qdd_{i}") for i, row in enumerate(minv)]
    by_q, by_qd = _gradient_given_minv(tree, q, qd, qdd, minv, external, frame=frame, prefix=prefix)
    return qdd, by_q, by_qd, minv


_SOLVED: dict[str, Callable[..., Results]] = {
    "mass_matrix_inverse": _mass_matrix_inverse,
    "forward_dynamics": _forward_dynamics,
    "inverse_mass_product": _inverse_mass_product,
    "step": step(_forward_dynamics),
    "forward_dynamics_gradient": _forward_dynamics_gradient,
    "forward_dynamics_gradient_given_minv": _gradient_given_minv,
}
"""Functions that solve with M, which their default forms do here."""

_AWARE = (
    "constrained_forward_dynamics",
    "constrained_solution",
    "constrained_inverse_dynamics",
    "impact",
    "delassus",
    "constraint_drift",
)
"""Functions whose algorithms take the robot's own coordinates."""

_INPUTS: dict[str, Callable[[Coupling, Any], Any]] = {
    "q": Coupling.configuration,
    "qd": Coupling.rates,
    "qdd": Coupling.rates,
}
_OUTPUTS: dict[str, Callable[[Coupling, Any], Any]] = {
    "tau": Coupling.torques,
    "m": Coupling.symmetric,
    "dtau_dq": Coupling.matrix,
    "dtau_dqd": Coupling.matrix,
    "link_jacobians": Coupling.columns,
    "frame_jacobian": Coupling.columns,
    "contact_jacobian": Coupling.columns,
    "centroidal_momentum_matrix": Coupling.columns,
    "center_of_mass_jacobian": Coupling.columns,
    "gravity_torque": Coupling.torques,
    "coriolis_torque": Coupling.torques,
    "bias_torque": Coupling.torques,
}
"""How inputs and outputs of functions map to reduced coordinates; names that are not listed stay unchanged."""


def check(tree: Tree, name: str, form: str, default: str) -> None:
    """Raises RobotError: the form of this function does not know robots whose joints mimic others."""
    names = ", ".join(f"'{name}'" for name in tree.moving.followers)
    if "," in name or name == "all":
        raise RobotError(
            f"joints {names} of robot '{tree.moving.name}' mimic others, which functions together do not know; "
            "expected one function, or lock= for these joints"
        )
    if name in _SOLVED and form != default:
        raise RobotError(
            f"joints {names} of robot '{tree.moving.name}' mimic others, which form '{form}' of {name} does not know; "
            f"expected '{default}', or lock= for these joints"
        )


def results(
    tree: Tree,
    name: str,
    algorithm: Callable[..., Results],
    names: tuple[Sequence[str], Sequence[str]],
    inputs: Sequence[Any],
    options: dict[str, Any],
) -> Results:
    """The outputs of a function in the robot's coordinates. algorithm: of the form, for free joints; names: of the
    function's inputs and outputs."""
    if name in _SOLVED:
        return _SOLVED[name](tree, *inputs, **options)
    if name in _AWARE:
        return algorithm(tree, *inputs, **options)
    coupling, (taken, returned) = _coupling(tree), names
    free = [_INPUTS[key](coupling, x) if key in _INPUTS else x for key, x in zip(taken, inputs, strict=True)]
    outputs = algorithm(tree, *free, **options)
    if len(returned) == 1:
        outputs = (outputs,)
    with scope("coupled"):
        moved = [_OUTPUTS[k](coupling, x) if k in _OUTPUTS else x for k, x in zip(returned, outputs, strict=True)]
    return tuple(moved) if len(returned) > 1 else moved[0]
