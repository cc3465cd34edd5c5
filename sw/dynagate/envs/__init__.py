"""Environments to train policies in, for a robot of your own: `LeggedEnv` and `ReachEnv`.

Gymnasium (extra `rl`) is needed for the classes here. `envs.functional` has the same tasks as functions for JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynagate.base.extras import brought_by

if TYPE_CHECKING:
    from dynagate.envs.legged import LeggedEnv
    from dynagate.envs.reach import ReachEnv
    from dynagate.envs.vector import SingleEnv

__all__ = ["LeggedEnv", "ReachEnv", "SingleEnv"]

_MODULES = {
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
