"""Calls on the same arrays again and again, and arrays that stay for calls of the same shape."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dynagate.base.errors import ArgumentTypeError
from dynagate.base.explained import explained
from dynagate.base.forks import renew_in_child
from dynagate.host.links import DeviceError

Kept = TypeVar("Kept")
Shape = tuple[int, ...]


class Bindable(Protocol):
    """Owner of a bound call: a function, a rollout or a solver."""

    device: Any
    """Executor that computes the calls."""
    _closed: bool
    """Whether the owner is closed."""

    def check_open(self) -> None:
        """Raise DeviceError if the owner is closed."""


@explained
class BoundCall:
    """A call of a function, a rollout or a solver on the same arrays each time, which their `bind` returns.

    `results` has the arrays (*leading, *shape) that each call overwrites and returns. If several threads call at a
    time, they see each other's numbers.

    Args:
        owner: The function, rollout or solver.
        results: Results of the call.
        call: Function that computes them.
        kept: Arrays that the call reads and writes in place.
    """

    __slots__ = ("_call", "_device", "_kept", "_owner", "results")

    def __init__(
        self, owner: Bindable, results: Any, call: Callable[[], object], kept: Sequence[npt.NDArray[Any]] = ()
    ) -> None:
        self.results = results
        self._owner, self._call, self._device = owner, call, owner.device
        # numpy does not resize an array that a weak reference leads to
        self._kept = [weakref.ref(each) for array in kept for each in _owners(array)]

    def __call__(self) -> Any:
        """Compute from the present content of the inputs. Raises the errors of the owner's call, and DeviceError if
        another program was loaded."""
        if self._owner._closed:
            self._owner.check_open()
        if self._owner.device is not self._device:
            raise DeviceError(
                f"{self._owner!r} has loaded another program since bind(); bind the call again", code="DG-DEVICE-001"
            )
        self._call()
        return self.results

    def __repr__(self) -> str:
        return f"<BoundCall of {self._owner!r}, {self.results!r}>"


def _owners(array: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Return the array, and those whose memory it shows."""
    each: Any = array
    while isinstance(each, np.ndarray):
        yield each
        each = each.base


def repeated(owner: Any, args: Sequence[Any], options: Mapping[str, Any], arrays: Sequence[str]) -> BoundCall:
    """Call a rollout or a solver once, and return the same call for repetition. Each repetition overwrites the results.

    Args:
        owner: The rollout or solver.
        args: Arguments by position.
        options: Arguments by name.
        arrays: Names of the arguments that must be numpy arrays, in order.

    Returns:
        The call, which takes no arguments.

    Raises:
        ArgumentTypeError: One of them is no numpy array. Other errors are those of the call.
    """
    for name, value in {**dict(zip(arrays, args, strict=False)), **options}.items():
        if name in arrays and not isinstance(value, np.ndarray):
            raise ArgumentTypeError(
                f"input '{name}' is a {type(value).__name__}, which cannot be read in place; expected a numpy array",
                code="DG-DEVICE-002",
            )
    results = owner(*args, **options)
    names = [each.name for each in fields(results)] if is_dataclass(results) else type(results).__slots__

    def call() -> None:
        new = owner(*args, **options)
        for name in names:
            if isinstance(value := getattr(new, name), np.ndarray):
                getattr(results, name)[...] = value

    return BoundCall(owner, results, call)


class ShapeCache(Generic[Kept]):
    """Values kept for calls of a few shapes, such as arrays that are bound to a kernel. The oldest is dropped when
    full.
    """

    def __init__(self, most: int) -> None:
        """Begin with no entries.

        Args:
            most: Largest number of shapes that are kept; the oldest one is dropped.
        """
        self._most = most
        self._kept: dict[Shape, Kept] = {}
        self._lock = Lock()
        renew_in_child(self, "_lock")

    def get(self, shape: Shape) -> Kept | None:
        """Return what all calls of a shape share.

        Args:
            shape: Shape of the leading axes of a call.

        Returns:
            The entry of the shape, which stays in the cache; None if the shape has no entry.
        """
        return self._kept.get(shape)

    def __contains__(self, shape: Shape) -> bool:
        return shape in self._kept

    def take(self, shape: Shape) -> Kept | None:
        """Take an entry out of the cache, so that no other thread uses it until it is put back.

        Args:
            shape: Shape of the leading axes of a call.

        Returns:
            The entry of the shape; None if the shape has no entry.
        """
        return self._kept.pop(shape, None)

    def put(self, shape: Shape, kept: Kept) -> None:
        """Keep an entry for later calls of a shape.

        Args:
            shape: Shape of the leading axes of a call.
            kept: The entry.
        """
        with self._lock:
            self._kept[shape] = kept
            for oldest in list(self._kept)[: -self._most]:
                self._kept.pop(oldest, None)

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()

    def __iter__(self) -> Iterator[Shape]:
        return iter(list(self._kept))

    def __len__(self) -> int:
        return len(self._kept)
