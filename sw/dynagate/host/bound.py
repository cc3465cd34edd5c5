"""Calls on the same arrays again and again, and arrays that stay for calls of the same shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np

from dynagate.base.errors import ArgumentTypeError
from dynagate.base.forks import renew_in_child

Kept = TypeVar("Kept")
Shape = tuple[int, ...]


class RepeatedCall:
    """A call of a rollout or a solver on the same arrays each time. results: what each call writes over and returns."""

    def __init__(
        self, called: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any], arrays: Sequence[str]
    ) -> None:
        """Make the call for the first time.

        Args:
            called: The rollout or solver.
            args: Arguments by position.
            options: Arguments by name.
            arrays: Names of the arguments that must be numpy arrays, in order.

        Raises:
            ArgumentTypeError: One of them is no numpy array. Other errors are those of the call.
        """
        for name, value in {**dict(zip(arrays, args, strict=False)), **options}.items():
            if name in arrays and not isinstance(value, np.ndarray):
                raise ArgumentTypeError(
                    f"input '{name}' is a {type(value).__name__}, which cannot be read in place; expected a numpy array"
                )
        self._called, self._args, self._options = called, tuple(args), dict(options)
        self.results = called(*self._args, **self._options)

    def __call__(self) -> Any:
        """Compute from what the inputs hold now. Raises as the call does."""
        new = self._called(*self._args, **self._options)
        names = [each.name for each in fields(new)] if is_dataclass(new) else type(new).__slots__
        for name in names:
            if isinstance(value := getattr(new, name), np.ndarray):
                getattr(self.results, name)[...] = value
        return self.results

    def __repr__(self) -> str:
        return f"<RepeatedCall of {self._called!r}, {self.results!r}>"


class ShapeCache(Generic[Kept]):
    """Values kept for calls of a few shapes, such as arrays that are bound to a kernel. The oldest is dropped when
    full.
    """

    def __init__(self, most: int) -> None:
        """most: number of shapes."""
        self._most = most
        self._kept: dict[Shape, Kept] = {}
        self._lock = Lock()
        renew_in_child(self, "_lock")

    def get(self, shape: Shape) -> Kept | None:
        """Return what calls of a shape share; None if there is nothing."""
        return self._kept.get(shape)

    def take(self, shape: Shape) -> Kept | None:
        """Return what was kept for a shape, which only this caller has until it is put back; None if there is
        nothing."""
        return self._kept.pop(shape, None)

    def put(self, shape: Shape, kept: Kept) -> None:
        """Keep something for later calls of a shape."""
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
