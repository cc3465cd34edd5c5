"""The functions of robots with constraints (`Robot.with_contact`, `Robot.with_loop`), by name."""

from __future__ import annotations

from functools import partial

from dynagate.dynamics.constraints import dynamics, links
from dynagate.dynamics.functions.record import FunctionRow, derivative, derivatives
from dynagate.dynamics.functions.spaces import arguments

_CONSTRAINED = FunctionRow(
    "constrained_forward_dynamics",
    arguments("q qd tau active"),
    arguments("qdd force"),
    {
        "blocks": dynamics.forward_dynamics,
        "single_pivots": partial(dynamics.forward_dynamics, pivots=1),
        "articulated": links.forward_dynamics,
    },
    {},
    dict.fromkeys(("blocks", "single_pivots", "articulated"), dynamics.check_independent),
    mimicking=("blocks", "single_pivots"),
)
_CONSTRAINED_INVERSE = FunctionRow(
    "constrained_inverse_dynamics",
    arguments("q qd qdd active"),
    arguments("tau force"),
    {"least_forces": dynamics.inverse_dynamics},
    {},
    {"least_forces": dynamics.check_any},
    mimicking=("least_forces",),
)
_IMPACT = FunctionRow(
    "impact",
    arguments("q qd active restitution"),
    arguments("qd_after impulse"),
    {"blocks": dynamics.impact, "single_pivots": partial(dynamics.impact, pivots=1)},
    {},
    dict.fromkeys(("blocks", "single_pivots"), dynamics.check_independent),
    mimicking=("blocks", "single_pivots"),
)
CONSTRAINED: dict[str, FunctionRow] = {
    f.name: f
    for f in [
        _CONSTRAINED,
        *derivatives(_CONSTRAINED),
        derivative(
            _CONSTRAINED,
            "constrained_forward_dynamics_gradient",
            _CONSTRAINED.inputs,
            arguments("qdd force dqdd_dq dqdd_dqd dqdd_dtau dforce_dq dforce_dqd dforce_dtau"),
        ),
        _CONSTRAINED_INVERSE,
        *derivatives(_CONSTRAINED_INVERSE),
        _IMPACT,
        *derivatives(_IMPACT),
        *(
            FunctionRow(
                name, arguments(inputs), arguments(name), {form: f}, {}, {form: dynamics.check_any}, mimicking=(form,)
            )
            for name, inputs, form, f in (
                ("delassus", "q", "ltdl", dynamics.delassus),
                ("constraint_drift", "q qd", "newton_euler", dynamics.drift),
            )
        ),
        FunctionRow(
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

CONSTRAINED_SOLUTION = FunctionRow(
    "constrained_solution",
    arguments("q qd tau active acceleration"),
    _CONSTRAINED.outputs,
    _CONSTRAINED.forms,
    {},
    _CONSTRAINED.checks,
    mimicking=_CONSTRAINED.mimicking,
)
"""Constrained forward dynamics with prescribed frame accelerations as an input, used for its derivatives."""
CONSTRAINED_RESIDUAL = FunctionRow(
    "constrained_residual",
    arguments("q qd qdd force"),
    arguments("tau acceleration"),
    {"newton_euler": dynamics.residual},
    {},
)
"""Residual of the equations of constrained dynamics, which is differentiated."""
