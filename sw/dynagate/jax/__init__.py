"""JAX interface: functions and rollouts of a robot under jit, vmap, grad, jvp and their combinations, on any
backend.
"""

from __future__ import annotations

from typing import Any

from dynagate.base.errors import MissingExtraError
from dynagate.base.foreign_names import spelled
from dynagate.base.nearest import nearest
from dynagate.dynamics import LISTED

try:
    import jax as _jax  # noqa: F401
except ImportError:
    raise MissingExtraError(
        "dynagate.jax needs the package 'jax'; pip install 'dynagate[jax]'", code="DG-JAX-001"
    ) from None

from dynagate.jax.functions import JaxFunction, function
from dynagate.jax.inverse_kinematics import inverse_kinematics
from dynagate.jax.rollouts import rollout
from dynagate.jax.whole_body import whole_body_torque

__all__ = ["JaxFunction", "function", "inverse_kinematics", "rollout", "whole_body_torque"]

_ANSWERS = {
    **dict.fromkeys(("compile", "jit"), "dynagate.jax.function(robot, function)"),
    **dict.fromkeys(("rollouts", "simulate", "step"), "dynagate.jax.rollout(robot, steps, dt)"),
}
"""Names that users guess, spelled as in `base.foreign_names` -> what to write."""


def __getattr__(name: str) -> Any:
    if name in LISTED:
        raise AttributeError(f"module 'dynagate.jax' has no attribute '{name}'; write function(robot, '{name}')")
    hint = f"; write {_ANSWERS[spelled(name)]}" if spelled(name) in _ANSWERS else nearest(name, __all__)
    raise AttributeError(f"module 'dynagate.jax' has no attribute '{name}'{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)
