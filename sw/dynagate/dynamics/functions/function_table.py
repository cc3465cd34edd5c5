"""The functions of a robot by name: inputs, outputs and algorithms of everything that can be traced and built."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from dynagate.dynamics.functions.constrained import CONSTRAINED
from dynagate.dynamics.functions.record import MASS_PRODUCT, Algorithm, FunctionRow, derivative, derivatives
from dynagate.dynamics.functions.spaces import arguments
from dynagate.dynamics.gradients import body_columns, closed_form
from dynagate.dynamics.recursions import aba, articulated, crba, forward_dynamics, kinematics, momentum, regressor, rnea
from dynagate.dynamics.serial_chains import cfa, scans
from dynagate.dynamics.spatial import array
from dynagate.dynamics.steps import step
from dynagate.dynamics.tree import Tree


def _gradient_by_columns(tree: Tree, q: Any, qd: Any, qdd: Any, minv: Any, external: Any = None) -> tuple[Any, ...]:
    return closed_form.acceleration_gradient(minv, *body_columns.inverse_dynamics_gradient(tree, q, qd, qdd, external))


def _whole_gradient_by_columns(tree: Tree, q: Any, qd: Any, tau: Any, external: Any = None) -> tuple[Any, ...]:
    """Compute the gradient of forward dynamics in body frames: M⁻¹ directly, q̈ from it, then the columns."""
    minv = articulated.mass_matrix_inverse(tree, q)
    bias = rnea.inverse_dynamics(tree, q, qd, [0.0] * tree.nv, external)
    qdd = list(minv @ array([t - b for t, b in zip(tau, bias, strict=True)]))
    return qdd, *_gradient_by_columns(tree, q, qd, qdd, minv, external), minv


_KINEMATICS: list[tuple[str, str, Algorithm]] = [
    ("kinetic_energy", "q qd", kinematics.kinetic_energy),
    ("potential_energy", "q", kinematics.potential_energy),
    ("center_of_mass", "q", kinematics.center_of_mass),
    ("link_positions", "q", kinematics.link_positions),
    ("link_jacobians", "q", kinematics.link_jacobians),
]
FUNCTIONS: dict[str, FunctionRow] = {
    f.name: f
    for f in [
        FunctionRow(
            "inverse_dynamics",
            arguments("q qd qdd"),
            arguments("tau"),
            {
                "newton_euler": rnea.inverse_dynamics,
                "spatial": body_columns.inverse_dynamics,
                "prefix": scans.inverse_dynamics,
            },
            {},
            {"prefix": scans.check_serial},
        ),
        FunctionRow(
            "mass_matrix",
            arguments("q"),
            arguments("m"),
            {"composite_bodies": crba.mass_matrix},
            {},
        ),
        FunctionRow(
            "mass_matrix_inverse",
            arguments("q"),
            arguments("minv"),
            {
                "ltdl": crba.mass_matrix_inverse,
                "direct": articulated.mass_matrix_inverse,
            },
            {},
            mimicking=("ltdl",),
        ),
        FunctionRow(
            "forward_dynamics",
            arguments("q qd tau"),
            arguments("qdd"),
            {
                "mass_matrix_solve": forward_dynamics.forward_dynamics,
                "aba": aba.forward_dynamics,
                "jsiia": scans.by_joint_space_inertia,
                "abia": scans.by_articulated_inertia,
                "cfa": cfa.forward_dynamics,
                "cfa_refined": cfa.refined_forward_dynamics,
            },
            {},
            {
                "jsiia": scans.check_serial,
                "abia": scans.check_serial,
                "cfa": cfa.check_bodies,
                "cfa_refined": cfa.check_bodies,
            },
            mimicking=("mass_matrix_solve",),
        ),
        FunctionRow(
            MASS_PRODUCT,
            arguments("q tau"),
            arguments("qdd"),
            {"aba": forward_dynamics.inverse_mass_product},
            {},
            mimicking=("aba",),
        ),
        FunctionRow(
            "step",
            arguments("q qd tau"),
            arguments("q_next qd_next"),
            step.FORMS,
            dict.fromkeys(step.FORMS, step.OPTIONS),
            mimicking=("mass_matrix_solve",),
        ),
        FunctionRow(
            "inverse_dynamics_gradient",
            arguments("q qd qdd"),
            arguments("dtau_dq dtau_dqd"),
            {
                "closed_form": closed_form.inverse_dynamics_gradient,
                "body_columns": body_columns.inverse_dynamics_gradient,
            },
            {"closed_form": ("frame", "prefix")},
        ),
        FunctionRow(
            "forward_dynamics_gradient",
            arguments("q qd tau"),
            arguments("qdd dqdd_dq dqdd_dqd minv"),
            {
                "closed_form": closed_form.forward_dynamics_gradient,
                "body_columns": _whole_gradient_by_columns,
            },
            {"closed_form": ("frame", "mass", "prefix")},
            mimicking=("closed_form",),
        ),
        FunctionRow(
            "forward_dynamics_gradient_given_minv",
            arguments("q qd qdd minv"),
            arguments("dqdd_dq dqdd_dqd"),
            {"closed_form": closed_form.forward_dynamics_gradient_given_minv, "body_columns": _gradient_by_columns},
            {"closed_form": ("frame", "prefix")},
            mimicking=("closed_form",),
        ),
        *(
            FunctionRow(name, arguments(inputs), arguments(name), {"recursive": f}, {})
            for name, inputs, f in _KINEMATICS
        ),
    ]
}
"""Functions of a robot by name, with the shapes of inputs and outputs and the algorithms of each."""


FUNCTIONS |= {
    f.name: f
    for f in [
        *derivatives(FUNCTIONS["inverse_dynamics"]),
        *derivatives(FUNCTIONS["forward_dynamics"]),
        *derivatives(FUNCTIONS[MASS_PRODUCT]),
        derivative(
            FUNCTIONS["forward_dynamics"],
            "forward_dynamics_second_order",
            (*arguments("q qd tau"), *(argument.weights() for argument in arguments("qdd"))),
            arguments("qdd d2_dq_dq d2_dq_dqd d2_dqd_dqd d2_dq_dtau"),
        ),
    ]
}

QUANTITIES: dict[str, FunctionRow] = {
    name: FunctionRow(name, arguments(inputs), arguments(name), {"recursive": algorithm}, {})
    for name, inputs, algorithm in (
        ("gravity_torque", "q", momentum.gravity_torque),
        ("coriolis_torque", "q qd", momentum.coriolis_torque),
        ("bias_torque", "q qd", momentum.bias_torque),
        ("centroidal_momentum", "q qd", momentum.centroidal_momentum),
        ("centroidal_momentum_matrix", "q", momentum.centroidal_momentum_matrix),
        ("center_of_mass_velocity", "q qd", momentum.center_of_mass_velocity),
        ("center_of_mass_jacobian", "q", momentum.center_of_mass_jacobian),
    )
}
"""Further quantities for controllers, by name."""

REGRESSORS: dict[str, FunctionRow] = {
    "inverse_dynamics_regressor": FunctionRow(
        "inverse_dynamics_regressor",
        arguments("q qd qdd"),
        arguments("regressor"),
        {"recursive": regressor.inverse_dynamics_regressor},
        {},
    ),
    "energy_regressor": FunctionRow(
        "energy_regressor",
        arguments("q qd"),
        arguments("kinetic_regressor potential_regressor"),
        {"recursive": regressor.energy_regressor},
        {},
    ),
}
"""Matrices by which torques and energies are linear in the dynamic parameters, by name."""

LISTED: Mapping[str, FunctionRow] = ChainMap(CONSTRAINED, REGRESSORS, QUANTITIES, FUNCTIONS)
"""All functions with a name; those of robots with constraints come first."""
