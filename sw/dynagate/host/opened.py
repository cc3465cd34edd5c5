"""Executors that stay open until they are closed: functions, rollouts, solvers and devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.pickling import refuse_pickling
from dynagate.host.links import BatchTiming, DeviceError
from dynagate.host.pending import AHEAD, BatchStream, Pending

Self = TypeVar("Self", bound="Opened")
Maker = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""Function or class, its arguments, and its arguments by name."""


@explained
class Opened(ABC):
    """Base class of objects that compute on a device until they are closed. Call them; use them as contexts."""

    function: str
    """Name of the function that it computes."""
    dtype: np.dtype[Any]
    """Type of the numbers in results."""
    functions: dict[str, Any]
    """One such object for each function by name, if there are several."""
    _closed: bool
    """Whether `close` was called."""
    _maker: Maker | None = None
    """Function that makes the same object, with its arguments; None if only this process can have the object."""

    if TYPE_CHECKING:  # of several functions, each by its name
        inverse_dynamics: Opened
        mass_matrix: Opened
        mass_matrix_inverse: Opened
        forward_dynamics: Opened
        inverse_dynamics_gradient: Opened
        forward_dynamics_gradient: Opened

    @property
    @abstractmethod
    def outputs(self) -> tuple[str, ...]:
        """Names of the results, in order."""

    @property
    @abstractmethod
    def transfer(self) -> BatchTiming:
        """Cycles that the last call took; zeros where the device has no clock that can be seen."""

    @abstractmethod
    def __call__(self, *args: Any, **options: Any) -> Any:
        """Compute results.

        Args:
            args: Inputs in their order.
            options: Inputs by name, and options of the class.

        Returns:
            The results.

        Raises:
            ArgumentError, ArgumentTypeError: An input is not right. The message names it.
            DeviceError: The object is closed, or the device fails.
        """

    @abstractmethod
    def bind(self, *args: Any, **options: Any) -> Callable[[], Any]:
        """Check a call once, and return it as a function without arguments. Each call of it reads the same arrays
        again, overwrites the same results and returns them.

        Args:
            args: Inputs in their order, as of a call.
            options: Inputs by name and options, as of a call.

        Returns:
            The bound call.

        Raises:
            ArgumentError, DeviceError: As a call raises them.
            ArgumentTypeError: As a call raises it, or an input is no numpy array.
        """

    @abstractmethod
    def close(self) -> None:
        """Gives back what the device holds. Calls raise DeviceError afterwards."""

    def check_open(self) -> None:
        """Raise DeviceError if the object is closed."""
        if self._closed:
            raise DeviceError(f"{self!r} is closed; open it again", code="DG-DEVICE-057")

    def submit(self, *args: Any, **options: Any) -> Pending:
        """Begin a call, and return at once if the device computes concurrently with the host; otherwise when it is
        done.

        Args:
            args: Inputs in their order, as of a call.
            options: Inputs by name and options, as of a call.

        Returns:
            The call, whose `result` waits for the results.
        """
        results = self(*args, **options)
        return Pending(self, lambda: results, lambda: True)

    def stream(self, ahead: int = AHEAD) -> BatchStream:
        """Compute many batches, so that conversion on the host, transfer and computation overlap.

        Args:
            ahead: Number of batches that are submitted before the results of the first one are waited for.

        Returns:
            The stream of batches.

        Raises:
            ArgumentError: `ahead` is negative.
        """
        if ahead < 0:
            raise ArgumentError(f"a stream {ahead} batches ahead; expected 0 or more", code="DG-DEVICE-058")
        return BatchStream(self, ahead)

    def choosing(self, outputs: str | Sequence[str]) -> Opened:
        """Return the same object with only some of its outputs.

        Args:
            outputs: Names of the outputs, in their order.

        Returns:
            The object with these outputs, on the same device.

        Raises:
            ArgumentError: It has no outputs to choose from.
        """
        raise ArgumentError(
            f"{self.function} has no outputs to choose; expected all: {', '.join(self.outputs)}", code="DG-DEVICE-059"
        )

    def _keep_maker(self, maker: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        """Keep the call that makes the same object in another process, for pickling and copying.

        Args:
            maker: Function or class.
            args: Its arguments.
            options: Its arguments by name. Those that belong to this process, such as a callback, are left out.
        """
        own = ("self", "__class__", "progress")
        self._maker = maker, args, {name: value for name, value in options.items() if name not in own}

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle or copy the call that made the object. Another process compiles it anew, or finds it in the cache.

        Raises:
            ArgumentTypeError: The object holds a design, a board or a CUDA stream of this process.
            DeviceError: The object is closed.
        """
        if self._maker is None or self._maker[2].get("stream"):
            refuse_pickling(self, "`dynagate.compile`, or the class", "pickled or copied")
        self.check_open()
        maker, args, options = self._maker
        return remake, (maker, args, options)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def remake(maker: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the object that was pickled or copied, made anew."""
    return maker(*args, **options)
