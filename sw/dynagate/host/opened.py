"""Executors that stay open until they are closed: functions, rollouts, solvers and devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dynagate.base.errors import ArgumentError
from dynagate.base.explained import explained
from dynagate.base.pickling import refuse_pickling
from dynagate.host.links import BatchTiming, DeviceError
from dynagate.host.pending import AHEAD, BatchStream, Pending

Self = TypeVar("Self", bound="Opened")


@explained
class Opened(ABC):
    """Something that computes on a device until it is closed. Call it; use it as a context.

    function: what it computes. functions: of several, each by its name. dtype: of the results.
    """

    function: str
    dtype: np.dtype[Any]
    functions: dict[str, Any]
    _closed: bool

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
        """Computes. args, options: the inputs in order or by name, and what the class says besides. Raises ValueError
        or TypeError naming an input that does not fit; DeviceError: it is closed, or the device fails."""

    @abstractmethod
    def bind(self, *args: Any, **options: Any) -> Callable[[], Any]:
        """Checks a call once and returns it as a function without arguments. Called, it reads the same arrays again,
        where they are, writes over the same results and returns them. args, options: as of a call. Raises as a call
        does, and TypeError: an input is no array."""

    @abstractmethod
    def close(self) -> None:
        """Gives back what the device holds. Calls raise DeviceError afterwards."""

    def check_open(self) -> None:
        """Raise DeviceError if it is closed."""
        if self._closed:
            raise DeviceError(f"{self!r} is closed; open it again")

    def submit(self, *args: Any, **options: Any) -> Pending:
        """Begin a call and return at once if the device computes concurrently with the host, else when it is done.
        args, options: as of a call."""
        results = self(*args, **options)
        return Pending(self, lambda: results, lambda: True)

    def stream(self, ahead: int = AHEAD) -> BatchStream:
        """Many batches, one after the other, that overlap: conversion on the host, transfer and computation. ahead: how
        many are submitted before the results of the first are waited for. Raises ValueError: ahead is negative."""
        if ahead < 0:
            raise ArgumentError(f"a stream {ahead} batches ahead; expected 0 or more")
        return BatchStream(self, ahead)

    def choosing(self, outputs: str | Sequence[str]) -> Opened:
        """Return the same with only some of its outputs, in their order. outputs: their names. Raises ValueError: it
        has none to choose."""
        raise ArgumentError(f"{self.function} has no outputs to choose; expected all: {', '.join(self.outputs)}")

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse to pickle or copy.

        Raises:
            ArgumentTypeError: Always. The object holds compiled code or a device of this process.
        """
        refuse_pickling(self, "`dynagate.compile`, or the class", "pickled or copied")

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
