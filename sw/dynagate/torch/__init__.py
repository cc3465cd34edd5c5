"""PyTorch interface: functions and rollouts of a robot with autograd, double backward, vmap and torch.compile."""

from __future__ import annotations

from typing import Any

from dynagate.base.errors import MissingExtraError
from dynagate.base.foreign_names import spelled
from dynagate.base.nearest import nearest
from dynagate.dynamics import LISTED

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingExtraError(
        "dynagate.torch needs the package 'torch'; pip install 'dynagate[torch]'", code="DG-TORCH-001"
    ) from None

from dynagate.torch.functions import TorchFunction, function
from dynagate.torch.rollouts import rollout

__all__ = ["TorchFunction", "function", "rollout"]

_ANSWERS = {
    **dict.fromkeys(("compile", "jit"), "dynagate.torch.function(robot, function)"),
    **dict.fromkeys(("rollouts", "simulate", "step"), "dynagate.torch.rollout(robot, steps, dt)"),
}
"""Names that users guess, spelled as in `base.foreign_names` -> what to write."""


def __getattr__(name: str) -> Any:
    if name in LISTED:
        raise AttributeError(f"module 'dynagate.torch' has no attribute '{name}'; write function(robot, '{name}')")
    hint = f"; write {_ANSWERS[spelled(name)]}" if spelled(name) in _ANSWERS else nearest(name, __all__)
    raise AttributeError(f"module 'dynagate.torch' has no attribute '{name}'{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)
