"""The table of integrators by name, and the text of an integrator with its options."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from dynagate.base.arguments import shown
from dynagate.base.errors import ArgumentError
from dynagate.base.nearest import nearest
from dynagate.base.object_text import object_of
from dynagate.dynamics.steps.explicit import EXPLICIT_METHODS
from dynagate.forces.contact import Capsule, Plane, Point
from dynagate.forces.ground import GroundBox, GroundSphere, HeightField
from dynagate.forces.options import AlgorithmOptions
from dynagate.integrators.explicit_method import ExplicitIntegrator
from dynagate.integrators.implicit.contact_method import ContactIntegrator
from dynagate.integrators.implicit.position_based_method import PositionBasedIntegrator
from dynagate.integrators.implicit.rigid_contact import RigidContact
from dynagate.integrators.implicit.variational_method import VariationalIntegrator
from dynagate.integrators.motion import Integrator

WITH_OPTIONS: dict[str, type[VariationalIntegrator | PositionBasedIntegrator]] = {
    method.name: method for method in (VariationalIntegrator, PositionBasedIntegrator)
}
"""Classes of the integrators that solve an equation in each step, and have options, by name."""

METHODS: dict[str, Integrator] = {
    **{name: ExplicitIntegrator(name) for name in EXPLICIT_METHODS},
    **{name: method() for name, method in WITH_OPTIONS.items()},
}

SOLVING = (*WITH_OPTIONS, RigidContact.__name__)
"""Integrators that solve an equation in each step."""

CONTACT_PARTS = {
    each.__name__: each for each in (RigidContact, Point, Capsule, Plane, GroundBox, GroundSphere, HeightField)
}
"""Classes in the text of rigid contact, by name."""


def method_of(method: str | Integrator) -> Integrator:
    """Return an integrator by its text, or the object itself.

    Args:
        method: A name such as "rk4", a name with options such as "position_based(order=3)", rigid contact such as
            "RigidContact([Point('forearm', (0, 0, 0.3))])", or an integrator.

    Raises:
        ArgumentError: The name is unknown, or the integrator refuses its options.
    """
    if isinstance(method, Integrator):
        return method
    if method in METHODS:
        return METHODS[method]
    if "(" in method:
        classes = {each.__name__: each for each in WITH_OPTIONS.values()}
        try:
            integrator = object_of(method, {**WITH_OPTIONS, **classes, **CONTACT_PARTS})
        except (SyntaxError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"integrator {shown(method)}: {error}; expected a text such as 'position_based(order=3)'",
                code="DG-ROLLOUT-068",
            ) from None
        if isinstance(integrator, RigidContact):
            return ContactIntegrator(integrator)
        if isinstance(integrator, Integrator):
            return integrator
    raise ArgumentError(
        f"integrator '{method}'{nearest(method, METHODS)}; expected one of {', '.join(METHODS)}, or an Integrator",
        code="DG-ROLLOUT-069",
    )


def method_text(method: str | Integrator) -> str:
    """Return the shortest text from which `method_of` makes this integrator, such as "variational(guess=4)".

    Raises:
        ArgumentError: There is no such integrator, or no text names it.
    """
    integrator = method_of(method)
    for name, known in METHODS.items():
        if integrator == known:
            return name
    if isinstance(integrator, ContactIntegrator):
        return _changed(integrator.contact, RigidContact.__name__)
    if type(integrator) not in WITH_OPTIONS.values():
        raise ArgumentError(
            f"integrator {shown(integrator)} has no name; expected one of {', '.join(METHODS)}", code="DG-ROLLOUT-070"
        )
    return _changed(integrator, integrator.name)


def _changed(options: Any, name: str) -> str:
    """Return the text of a dataclass with the fields that differ from their defaults."""
    changed = [f"{f.name}={value!r}" for f in fields(options) if (value := getattr(options, f.name)) != f.default]
    return f"{name}({', '.join(changed)})"


def with_own_tolerance(options: AlgorithmOptions) -> AlgorithmOptions:
    """Return the options of a design with the integrator's shortest text, and its tolerance as the option `tolerance`.

    Raises:
        ArgumentError: There is no such integrator, or two tolerances are given.
    """
    if options.integrator is None:
        return options
    method = method_of(options.integrator)
    if isinstance(method, ExplicitIntegrator):
        return options
    default = RigidContact.tolerance if isinstance(method, ContactIntegrator) else WITH_OPTIONS[method.name].tolerance
    if method.tolerance == default:  # type: ignore[attr-defined]
        return replace(options, integrator=method_text(method))
    if options.tolerance is not None:
        raise ArgumentError(
            f"tolerance={options.tolerance:g} and integrator={options.integrator!r}; expected one tolerance",
            code="DG-ROLLOUT-071",
        )
    own = method_text(method.with_tolerance(default))
    return replace(options, integrator=own, tolerance=method.tolerance)  # type: ignore[attr-defined]
