"""The methods that step a robot through time, by name."""

from __future__ import annotations

from dynagate.base.errors import ArgumentError
from dynagate.base.nearest import nearest
from dynagate.dynamics.steps.explicit import EXPLICIT_METHODS
from dynagate.integrators.explicit_method import ExplicitIntegrator
from dynagate.integrators.implicit.position_based_method import PositionBasedIntegrator
from dynagate.integrators.implicit.variational_method import VariationalIntegrator
from dynagate.integrators.motion import Integrator

METHODS: dict[str, Integrator] = {
    **{name: ExplicitIntegrator(name) for name in EXPLICIT_METHODS},
    **{method.name: method for method in (VariationalIntegrator(), PositionBasedIntegrator())},
}


SOLVING = tuple(name for name, method in METHODS.items() if not method.linearizes)
"""Integrators that solve an equation in each step."""


def method_of(method: str | Integrator) -> Integrator:
    """Return an integrator by its name, or the object itself. Raise ArgumentError if the name is unknown."""
    if isinstance(method, Integrator):
        return method
    if method not in METHODS:
        raise ArgumentError(
            f"integrator '{method}'{nearest(method, METHODS)}; expected one of {', '.join(METHODS)}, or a Integrator"
        )
    return METHODS[method]
