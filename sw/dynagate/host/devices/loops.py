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
    """Base class of devices that compute a loop."""

    loop: Loop
    """The loop."""
    dtype: np.dtype[Any]
    """Type of the numbers in its arrays."""
    kernel: LoopKernel | None = None
    """The compiled C of the loop; None for devices other than "cpu"."""

    @abstractmethod
    def __call__(self, inputs: Mapping[str, npt.NDArray[Any]], outputs: Mapping[str, npt.NDArray[Any]]) -> bool:
        """Fills the outputs of a loop from its inputs, in the shapes of `LoopKernel`. Returns whether all of them are
        sure to be finite."""

    def bound(
        self, inputs: Mapping[str, npt.NDArray[Any]], outputs: Mapping[str, npt.NDArray[Any]]
    ) -> Callable[[], bool]:
        """Prepare repeated calls on the same arrays.

        Args:
            inputs: Arrays (batch, ...) by name, or (1, ...) for all problems.
            outputs: Arrays (batch, ...) by name, which are overwritten.

        Returns:
            A function that computes the outputs and returns whether all numbers are finite.
        """
        return lambda: self(inputs, outputs)

    def close(self) -> None:  # noqa: B027
        """Gives back what it holds."""
