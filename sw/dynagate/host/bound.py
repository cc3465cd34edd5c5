"""A call of a rollout on the same arrays again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynagate.base.errors import ArgumentTypeError
from dynagate.host.trajectories import Trajectories

if TYPE_CHECKING:
    from dynagate.host.opened import Opened

ARGUMENTS = ("q0", "qd0", "tau")


class MotionCall:
    """A rollout's call on the same arrays each time. results: what each call writes over and returns.

    rollout, args, options: the call. Raises as it does, and TypeError: an input is no array."""

    def __init__(self, rollout: Opened, args: Sequence[Any], options: Mapping[str, Any]) -> None:
        arrays = dict(zip(ARGUMENTS, args, strict=False)) | {n: x for n, x in options.items() if n in ARGUMENTS}
        for name, value in arrays.items():
            if not isinstance(value, np.ndarray):
                raise ArgumentTypeError(
                    f"input '{name}' is a {type(value).__name__}, which cannot be read in place; expected a numpy array"
                )
        self._rollout, self._args, self._options = rollout, tuple(args), dict(options)
        self.results: Trajectories = rollout(*self._args, **self._options)

    def __call__(self) -> Trajectories:
        """Computes from what the inputs hold now. Raises as the rollout's call does."""
        new, kept = self._rollout(*self._args, **self._options), self.results
        for name in Trajectories.__slots__:
            value = getattr(new, name)
            if isinstance(value, np.ndarray):
                getattr(kept, name)[...] = value
        return kept

    def __repr__(self) -> str:
        return f"<MotionCall of {self._rollout!r}, {self.results!r}>"
