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


def method_of(method: str | Method) -> Method:
    """A method by its name, or itself. Raises ValueError: there is none of this name."""
    if isinstance(method, Method):
        return method
    if method not in METHODS:
        raise ArgumentError(
            f"method '{method}'{nearest(method, METHODS)}; expected one of {', '.join(METHODS)}, or a Method"
        )
    return METHODS[method]
