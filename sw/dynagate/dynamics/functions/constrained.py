"""The functions of robots with constraints (`Robot.with_contact`, `Robot.with_loop`), by name."""

from __future__ import annotations

from functools import partial

from dynagate.dynamics.constraints import dynamics, links
from dynagate.dynamics.functions.record import Function, arguments, derivative

_CONSTRAINED = Function(
    "constrained_forward_dynamics",
    arguments("q qd tau active"),
    arguments("qdd force"),
    {
        "blocks": dynamics.forward_dynamics,
        "single_pivots": partial(dynamics.forward_dynamics, pivots=1),
        "articulated": links.forward_dynamics,
    },
    {},
    {
        **dict.fromkeys(("blocks", "single_pivots"), dynamics.check_independent),
        "articulated": dynamics.check_articulated,
    },
)
_CONSTRAINED_INVERSE = Function(
    "constrained_inverse_dynamics",
    arguments("q qd qdd active"),
    arguments("tau force"),
    {"least_forces": dynamics.inverse_dynamics},
    {},
    {"least_forces": dynamics.check_any},
)
_IMPACT = Function(
    "impact",
    arguments("q qd active restitution"),
    arguments("qd_after impulse"),
    {"blocks": dynamics.impact, "single_pivots": partial(dynamics.impact, pivots=1)},
    {},
    dict.fromkeys(("blocks", "single_pivots"), dynamics.check_independent),
)
CONSTRAINED: dict[str, Function] = {
    f.name: f
    for f in [
        _CONSTRAINED,
        derivative(
            _CONSTRAINED,
            "constrained_forward_dynamics_vjp",
            "q qd tau active lam_qdd lam_force",
            "qdd force vjp_q vjp_qd vjp_tau",
        ),
        derivative(
            _CONSTRAINED,
            "constrained_forward_dynamics_jvp",
            "q qd tau active delta_q delta_qd delta_tau",
            "qdd force jvp_qdd jvp_force",
        ),
        derivative(
            _CONSTRAINED,
            "constrained_forward_dynamics_gradient",
            "q qd tau active",
            "qdd force dqdd_dq dqdd_dqd dqdd_dtau dforce_dq dforce_dqd dforce_dtau",
        ),
        _CONSTRAINED_INVERSE,
        derivative(
            _CONSTRAINED_INVERSE,
            "constrained_inverse_dynamics_vjp",
            "q qd qdd active lam_tau lam_force",
            "tau force vjp_q vjp_qd vjp_qdd",
        ),
        derivative(
            _CONSTRAINED_INVERSE,
            "constrained_inverse_dynamics_jvp",
            "q qd qdd active delta_q delta_qd delta_qdd",
            "tau force jvp_tau jvp_force",
        ),
        _IMPACT,
        derivative(
            _IMPACT,
            "impact_vjp",
            "q qd active restitution lam_qd_after lam_impulse",
            "qd_after impulse vjp_q vjp_qd",
        ),
        derivative(
            _IMPACT,
            "impact_jvp",
            "q qd active restitution delta_q delta_qd",
            "qd_after impulse jvp_qd_after jvp_impulse",
        ),
        *(
            Function(name, arguments(inputs), arguments(name), {form: f}, {}, {form: dynamics.check_any})
            for name, inputs, form, f in (
                ("delassus", "q", "ltdl", dynamics.delassus),
                ("constraint_drift", "q qd", "newton_euler", dynamics.drift),
            )
        ),
        Function(
            "contact_jacobian",
            arguments("q"),
            arguments("contact_jacobian"),
            {"named_frames": dynamics.contact_jacobian},
            {},
            {"named_frames": dynamics.check_any},
        ),
    ]
}
"""Functions of robots with constraints (`Robot.with_contact`, `Robot.with_loop`), by name."""

CONSTRAINED_SOLUTION = Function(
    "constrained_solution",
    arguments("q qd tau active acceleration"),
    _CONSTRAINED.outputs,
    _CONSTRAINED.forms,
    {},
    _CONSTRAINED.checks,
)
"""`constrained_forward_dynamics` with accelerations that the frames are to have, for its derivatives."""
CONSTRAINED_RESIDUAL = Function(
    "constrained_residual",
    arguments("q qd qdd force"),
    arguments("tau acceleration"),
    {"newton_euler": dynamics.residual},
    {},
)
"""The residual of the equations that constrained dynamics solve, to be differentiated."""
