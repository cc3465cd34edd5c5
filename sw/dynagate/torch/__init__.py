"""Functions and rollouts of a robot in PyTorch: autograd, double backward, vmap, torch.compile, on any backend."""

from __future__ import annotations

from dynagate.base.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingExtraError("dynagate.torch needs the package 'torch'; pip install 'dynagate[torch]'") from None

from dynagate.torch.functions import Function, function
from dynagate.torch.rollouts import rollout

__all__ = ["Function", "function", "rollout"]


def __dir__() -> list[str]:
    return sorted(__all__)
