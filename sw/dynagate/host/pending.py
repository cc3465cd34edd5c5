"""Calls under way: `Function.submit` and `Function.stream`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol

import numpy.typing as npt

from dynagate.host.results import Results

AHEAD = 4
"""Batches that a stream submits before it waits for the first."""


class Submits(Protocol):
    """Something whose calls can be submitted, as `Opened`."""

    def submit(self, *args: Any, **options: Any) -> Pending: ...


class Pending:
    """A batch that `Function.submit` gave to the device. Its results are kept until they are requested."""

    def __init__(self, accelerator: Submits, finish: Callable[[], Results], done: Callable[[], bool]) -> None:
        self._accelerator, self._finish, self._done = accelerator, finish, done
        self._results: Results | None = None

    def done(self) -> bool:
        """Whether `result` would return, or raise, without waiting for the device."""
        return self._results is not None or self._done()

    def result(self) -> Results:
        """Wait for the results.

        Returns:
            The results, the same object on each call.

        Raises:
            DeviceError: The device failed, in this batch or in one before it, or it did not recover.
            EntryError: The device found an input that does not fit its format.
            OverflowedError: A sample overflowed, with `overflow="raise"`.
        """
        if self._results is None:
            self._results = self._finish()
        return self._results

    def __repr__(self) -> str:
        return f"<Pending of {self._accelerator!r}, {'done' if self.done() else 'under way'}>"


class BatchStream:
    """Many batches through one accelerator, which computes while the host converts others. Use it as a context:

    with accelerator.stream() as stream:
        for results in stream({"q": q, "qd": qd, "tau": tau} for q, qd, tau in batches):
            ...

    The end of the context waits for what is under way and drops it.
    """

    def __init__(self, accelerator: Submits, ahead: int) -> None:
        self._accelerator, self._ahead = accelerator, ahead
        self._pending: deque[Pending] = deque()

    def __call__(self, batches: Iterable[Mapping[str, npt.ArrayLike]]) -> Iterator[Results]:
        """Compute batches. They are taken from the iterable a few ahead of their results.

        Args:
            batches: Inputs of each batch by name.

        Yields:
            The results of each batch, in order.

        Raises:
            ArgumentError, ArgumentTypeError, DeviceError: As a call raises them. The stream can compute other batches
                afterwards.
        """
        pending = self._pending
        for inputs in batches:
            pending.append(self._accelerator.submit(**inputs))
            if len(pending) > self._ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    def __enter__(self) -> BatchStream:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self._pending:
            try:
                self._pending.popleft().result()
            except Exception:
                if kind is None:
                    self._pending.clear()
                    raise
