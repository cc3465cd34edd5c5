"""Environments to train policies in, for your own robot: `LeggedEnv` and `ReachEnv`.

They need Gymnasium, which the extra `rl` installs. `FunctionalEnv` offers the same tasks as functions for JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynagate.base.extras import brought_by

if TYPE_CHECKING:
    from dynagate.envs.functional import FunctionalEnv as FunctionalEnv
    from dynagate.envs.legged import LeggedEnv, legged_task
    from dynagate.envs.moment import Moment
    from dynagate.envs.reach import ReachEnv, reach_task
    from dynagate.envs.vector import SingleEnv

__all__ = ["LeggedEnv", "Moment", "ReachEnv", "SingleEnv", "legged_task", "reach_task"]
"""Public names that need no JAX."""

_MODULES = {
    "FunctionalEnv": "dynagate.envs.functional",
    "Moment": "dynagate.envs.moment",
    "legged_task": "dynagate.envs.legged",
    "reach_task": "dynagate.envs.reach",
    "LeggedEnv": "dynagate.envs.legged",
    "ReachEnv": "dynagate.envs.reach",
    "SingleEnv": "dynagate.envs.vector",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from importlib import import_module

    with brought_by("rl", f"dynagate.envs.{name}"):
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
