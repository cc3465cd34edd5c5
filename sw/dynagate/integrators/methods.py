"""The methods that step a robot through time, by name."""

from __future__ import annotations

from dynagate.base.errors import ArgumentError
from dynagate.base.nearest import nearest
from dynagate.dynamics.explicit import METHODS as TABLEAUX
from dynagate.integrators.explicit_method import ExplicitMethod
from dynagate.integrators.motion import Method
from dynagate.integrators.position_based_method import PositionBasedMethod
from dynagate.integrators.variational_method import VariationalMethod

METHODS: dict[str, Method] = {
    **{name: ExplicitMethod(name) for name in TABLEAUX},
    **{method.name: method for method in (VariationalMethod(), PositionBasedMethod())},
}


SOLVING = tuple(name for name, method in METHODS.items() if not method.linearizes)
"""Integrators that solve an equation in each step."""


def method_of(method: str | Method) -> Method:
    """Return an integrator by its name, or the object itself. Raise ArgumentError if the name is unknown."""
    if isinstance(method, Method):
        return method
    if method not in METHODS:
        raise ArgumentError(
            f"integrator '{method}'{nearest(method, METHODS)}; expected one of {', '.join(METHODS)}, or a Method"
        )
    return METHODS[method]
