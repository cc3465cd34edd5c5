"""Functions and rollouts of a robot in JAX: under jit, vmap, grad, jvp and their combinations, on any backend."""

from __future__ import annotations

from dynagate.base.errors import MissingExtraError

try:
    import jax as _jax  # noqa: F401
except ImportError:
    raise MissingExtraError("dynagate.jax needs the package 'jax'; pip install 'dynagate[jax]'") from None

from dynagate.jax.functions import Function, function
from dynagate.jax.rollouts import rollout

__all__ = ["Function", "function", "rollout"]


def __dir__() -> list[str]:
    return sorted(__all__)
