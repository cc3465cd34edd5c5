"""Executors of loops: arrays of all iterations in, arrays of all iterations out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dynagate.graph.loop import Loop

if TYPE_CHECKING:
    from dynagate.native.loop import LoopKernel


class LoopExecutor(ABC):
    """A loop on a device. dtype: of its arrays. kernel: its C, where it is compiled for this machine."""

    loop: Loop
    dtype: np.dtype[Any]
    kernel: LoopKernel | None = None

    @abstractmethod
    def __call__(self, inputs: Mapping[str, npt.NDArray[Any]], outputs: Mapping[str, npt.NDArray[Any]]) -> bool:
        """Fills the outputs of a loop from its inputs, in the shapes of `LoopKernel`. Returns whether all of them are
        sure to be finite."""

    def bound(
        self, inputs: Mapping[str, npt.NDArray[Any]], outputs: Mapping[str, npt.NDArray[Any]]
    ) -> Callable[[], bool]:
        """A call from and to these arrays, again and again."""
        return lambda: self(inputs, outputs)

    def close(self) -> None:  # noqa: B027
        """Gives back what it holds."""
